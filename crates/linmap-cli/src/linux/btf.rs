//! Places of members in the kernel's structures, from the types that its image has of itself (BTF,
//! `Documentation/bpf/btf.rst`). Pure.

use std::collections::HashMap;
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// Types that others refer to by their number: 0 is void.
const MAX_TYPES: usize = 1 << 22;
/// Structures without a name that lie in one another.
const MAX_DEPTH: u32 = 8;

const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const UNION: u32 = 5;

/// Types of a kernel.
#[derive(Debug)]
pub(crate) struct Btf {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// The offset of each type's record; the first one is number 1.
    types: Vec<usize>,
    /// The numbers of structures by their names.
    structs: HashMap<Vec<u8>, u32>,
}

/// A member of a structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    /// In bytes from the start of the structure.
    pub(crate) offset: u64,
    /// The number of its type.
    pub(crate) kind: u32,
}

impl Btf {
    /// Reads types; `None` if the bytes are none.
    pub(crate) fn parse(bytes: Vec<u8>) -> Option<Self> {
        let magic = bytes.first_chunk().map(|magic| u16::from_le_bytes(*magic))?;
        let header = half(&bytes, 4)? as usize;
        if magic != MAGIC || header < HEADER {
            return None;
        }
        let part = |at: usize| {
            let start = header.checked_add(half(&bytes, at)? as usize)?;
            let end = start.checked_add(half(&bytes, at + 4)? as usize)?;
            (end <= bytes.len()).then_some(start..end)
        };
        let (records, strings) = (part(8)?, part(16)?);
        let (mut types, mut at) = (Vec::new(), records.start);
        while at < records.end && types.len() < MAX_TYPES {
            let info = half(&bytes, at + 4)?;
            types.push(at);
            at += 12 + more(info >> 24 & 0x1f, (info & 0xffff) as usize)?;
        }
        let mut btf = Self { bytes, strings, types, structs: HashMap::new() };
        for (index, at) in btf.types.iter().enumerate() {
            if half(&btf.bytes, at + 4)? >> 24u32 & 0x1f == STRUCT {
                let name = btf.name(half(&btf.bytes, *at)?)?.to_vec();
                btf.structs.entry(name).or_insert(index as u32 + 1);
            }
        }
        Some(btf)
    }

    /// Returns the size of a structure in bytes.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.word(*self.structs.get(name.as_bytes())?, 8).map(u64::from)
    }

    /// Returns a member of a structure, in one without a name inside it, too.
    pub(crate) fn member(&self, name: &str, member: &str) -> Option<Member> {
        self.find(*self.structs.get(name.as_bytes())?, member.as_bytes(), 0)
    }

    /// Returns the number of elements of an array.
    pub(crate) fn elements(&self, kind: u32) -> Option<u64> {
        let is_array = self.word(kind, 4)? >> 24u32 & 0x1f == ARRAY;
        self.word(kind, 20).filter(|_| is_array).map(u64::from)
    }

    fn find(&self, number: u32, member: &[u8], depth: u32) -> Option<Member> {
        let info = self.word(number, 4)?;
        if !matches!(info >> 24u32 & 0x1f, STRUCT | UNION) || depth > MAX_DEPTH {
            return None;
        }
        (0..(info & 0xffff) as usize).find_map(|index| {
            let at = 12 + 12 * index;
            let (name, kind, place) =
                (self.word(number, at)?, self.word(number, at + 4)?, self.word(number, at + 8)?);
            // With bit fields, the upper byte is their width.
            let bits = if info >> 31u32 == 1 { place & 0xff_ffff } else { place };
            let offset = u64::from(bits / 8);
            match self.name(name)? {
                own if own == member => Some(Member { offset, kind }),
                [] => {
                    let inner = self.find(kind, member, depth + 1)?;
                    Some(Member { offset: offset + inner.offset, ..inner })
                }
                _ => None,
            }
        })
    }

    /// Returns a number in the record of a type.
    fn word(&self, number: u32, at: usize) -> Option<u32> {
        let start = self.types.get((number as usize).checked_sub(1)?)?;
        half(&self.bytes, start + at)
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        let strings = self.bytes.get(self.strings.clone())?;
        strings.get(offset as usize..)?.split(|byte| *byte == 0).next()
    }
}

/// Returns the bytes after the first 12 of a record, by its kind and the number of its parts.
fn more(kind: u32, parts: usize) -> Option<usize> {
    Some(match kind {
        // Pointers, forward declarations, other names, qualifiers, functions, floats, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        ARRAY => 12,
        STRUCT | UNION | 15 | 19 => parts * 12,
        6 | 13 => parts * 8,
        _ => return None,
    })
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|half| u32::from_le_bytes(*half))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use test_support::prelude::*;

    /// Writes types: integers of 8 bytes, arrays of number 1, and structures with members (name, type, bit offset).
    pub(crate) struct Writer {
        types: Vec<u8>,
        strings: Vec<u8>,
        count: u32,
    }

    impl Writer {
        pub(crate) fn new() -> Self {
            let mut writer = Self { types: Vec::new(), strings: vec![0], count: 0 };
            writer.record("long", 1 << 24, 8, &[0x40]);
            writer
        }

        fn record(&mut self, name: &str, info: u32, size: u32, more: &[u32]) -> u32 {
            let name = self.string(name);
            let words = [&[name, info, size], more].concat();
            self.types.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            self.count += 1;
            self.count
        }

        fn string(&mut self, text: &str) -> u32 {
            if text.is_empty() {
                return 0;
            }
            let at = self.strings.len() as u32;
            self.strings.extend(text.bytes());
            self.strings.push(0);
            at
        }

        pub(crate) fn array(&mut self, of: u32, count: u32) -> u32 {
            self.record("", 3 << 24, 0, &[of, 1, count])
        }

        pub(crate) fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
            let words: Vec<u32> = members
                .iter()
                .flat_map(|(name, kind, bytes)| [self.string(name), *kind, bytes * 8])
                .collect();
            self.record(name, 4 << 24 | members.len() as u32, size, &words)
        }

        pub(crate) fn finish(self) -> Vec<u8> {
            let mut bytes = vec![0x9f, 0xeb, 1, 0];
            let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
            for word in [24, 0, types, types, strings] {
                bytes.extend(word.to_le_bytes());
            }
            [bytes, self.types, self.strings].concat()
        }
    }

    fn example() -> Vec<u8> {
        let mut writer = Writer::new();
        let inner = writer.structure("", 16, &[("first", 1, 0), ("second", 1, 8)]);
        let array = writer.array(inner, 7);
        writer.structure("page", 64, &[("flags", 1, 0), ("", inner, 8), ("mem", array, 24)]);
        writer.finish()
    }

    #[test]
    fn members_are_found_in_structures_without_a_name_too() {
        let btf = Btf::parse(example()).expect("types");
        let offset = |member| btf.member("page", member).map(|member| member.offset);
        assert_eq!([offset("flags"), offset("first"), offset("second")], [Some(0), Some(8), Some(16)]);
        assert_eq!((offset("third"), btf.size("page"), btf.size("folio")), (None, Some(64), None));
        let array = btf.member("page", "mem").expect("a member");
        assert_eq!((array.offset, btf.elements(array.kind), btf.elements(1)), (24, Some(7), None));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(noise: Vec<u8>, at in any::<prop::sample::Index>()) {
            let mut bytes = example();
            let at = at.index(bytes.len());
            let length = noise.len().min(bytes.len() - at);
            bytes[at..at + length].copy_from_slice(&noise[..length]);
            if let Some(btf) = Btf::parse(bytes) {
                let member = btf.member("page", "second");
                let _ = (member.and_then(|member| btf.elements(member.kind)), btf.size("page"));
            }
        }
    }
}
