//! From the memory map of EFI firmware to ranges of RAM (UEFI specification, section 7.2, `EFI_MEMORY_DESCRIPTOR`).
//!
//! RAM is what boot services, loaders and nobody have, if it may be cached write-back. ACPI tables and memory for a special
//! purpose are mapped and not free. Runtime services, non-volatile ACPI memory and all else stay unmapped. Where descriptors
//! contradict one another, the memory is not used.

use core::fmt;
use core::ops::Range;

use linmap::Pa;

use crate::note::{MapDefect, Note};
use crate::ranges::{Full, Lost, Ranges};

/// The bytes of a page of EFI.
const PAGE: u64 = 4096;
/// The bytes of a descriptor that are known. A firmware may have longer ones.
const DESCRIPTOR: usize = 40;

/// `EFI_MEMORY_WB` and `EFI_MEMORY_SP`.
const WRITE_BACK: u64 = 1 << 3;
const SPECIAL_PURPOSE: u64 = 1 << 18;

/// A memory map.
#[derive(Clone, Copy, Debug)]
pub struct MemoryMap<'a> {
    bytes: &'a [u8],
    stride: usize,
}

/// The bytes of a descriptor cannot be: not a multiple of 8, or fewer than 40.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadStride(pub u64);

impl fmt::Display for BadStride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the firmware says that a descriptor of its memory map has {} bytes; 40 or more, a multiple of 8, are right",
            self.0
        )
    }
}

/// The memory of a machine as its firmware has it.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    /// RAM, without what must not be mapped.
    pub ram: Ranges,
    /// RAM that is mapped and not free.
    pub reserved: Ranges,
    /// Memory that would be RAM but must not be mapped: as much of it as there is room for. None of it is in `ram`.
    pub no_map: Ranges,
}

/// The use of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// RAM.
    Free,
    /// RAM that somebody still needs.
    Kept,
    /// Memory of the firmware.
    Firmware,
    /// No memory, or memory that may not be mapped as such.
    Other,
}

impl Use {
    /// Returns the use of memory of a type (`EFI_MEMORY_TYPE`) with these attributes.
    const fn of(kind: u32, attributes: u64) -> Self {
        if attributes & WRITE_BACK == 0 {
            return Self::Other;
        }
        match kind {
            // Of loaders, of boot services, of nobody.
            1..=4 | 7 if attributes & SPECIAL_PURPOSE == 0 => Self::Free,
            // The same, and ACPI tables.
            1..=4 | 7 | 9 => Self::Kept,
            // Reserved, of runtime services, broken, non-volatile ACPI memory, code of the processor.
            0 | 5 | 6 | 8 | 10 | 13 => Self::Firmware,
            _ => Self::Other,
        }
    }

    const fn is_ram(self) -> bool {
        matches!(self, Self::Free | Self::Kept)
    }
}

impl<'a> MemoryMap<'a> {
    /// Returns the map in `bytes`, with so many bytes from one descriptor to the next.
    ///
    /// # Errors
    ///
    /// No descriptor has this length.
    pub fn new(bytes: &'a [u8], stride: u64) -> Result<Self, BadStride> {
        match usize::try_from(stride) {
            Ok(stride @ DESCRIPTOR..) if stride.is_multiple_of(8) => Ok(Self { bytes, stride }),
            _ => Err(BadStride(stride)),
        }
    }

    /// Returns the number of whole descriptors.
    pub const fn descriptors(&self) -> usize {
        self.bytes.len() / self.stride
    }

    /// Iterates over the descriptors: each a range and its use, or a defect.
    fn ranges(self) -> impl Iterator<Item = Result<(Range<Pa>, Use), MapDefect>> {
        self.bytes.chunks_exact(self.stride).map(|descriptor| {
            let word = |at: usize| {
                let bytes = descriptor.get(at..).and_then(|rest| rest.first_chunk());
                bytes.map_or(0, |word| u64::from_le_bytes(*word))
            };
            let (kind, start, pages, attributes) = (word(0) as u32, word(8), word(24), word(32));
            let end = pages.checked_mul(PAGE).and_then(|bytes| start.checked_add(bytes));
            match end {
                _ if pages == 0 => Err(MapDefect::Empty(Pa(start))),
                None => Err(MapDefect::BeyondAddresses { start: Pa(start), pages }),
                Some(_) if !start.is_multiple_of(PAGE) => Err(MapDefect::Unaligned(Pa(start))),
                Some(end) => Ok((Pa(start)..Pa(end), Use::of(kind, attributes))),
            }
        })
    }

    /// Returns true if one descriptor has all of a range as memory, whatever its use: it can be read while the firmware's map of
    /// addresses is in use.
    pub fn has_memory(self, range: &Range<Pa>) -> bool {
        self.ranges()
            .flatten()
            .any(|(memory, of)| of != Use::Other && memory.start <= range.start && range.end <= memory.end)
    }

    /// Returns the memory. Counts RAM that there is no room for, and calls `note` for each thing that is left out.
    pub fn memory(self, lost: &mut Lost, note: &mut dyn FnMut(Note<'_>)) -> Memory {
        let mut memory = Memory::default();
        let rest = self.bytes.len() % self.stride;
        if rest != 0 {
            note(Note::FirmwareMap(MapDefect::CutShort { rest }));
        }
        for (range, _) in self.ranges().flatten().filter(|(_, of)| of.is_ram()) {
            if memory.ram.add(range.clone()) == Ok(true) {
                note(Note::MemoryOverlaps(range));
            } else {
                lost.count(memory.ram.add_or_lose(range));
            }
        }
        // Then what is not free, so that the order of the descriptors does not matter.
        for descriptor in self.ranges() {
            match descriptor {
                Ok((_, Use::Free)) => {}
                Ok((range, of)) => memory.take(range, of, lost, note),
                Err(defect) => note(Note::FirmwareMap(defect)),
            }
        }
        memory
    }
}

impl Memory {
    /// Takes a range that is not free: sets it apart, or removes it.
    fn take(&mut self, range: Range<Pa>, of: Use, lost: &mut Lost, note: &mut dyn FnMut(Note<'_>)) {
        if of == Use::Kept {
            return self.set_apart(range, lost);
        }
        if self.ram.as_slice().iter().any(|ram| ram.start < range.end && range.start < ram.end) {
            note(Note::FirmwareMap(MapDefect::Contradicted(range.clone())));
            lost.count(self.ram.remove_or_lose(&range));
            lost.count(self.reserved.remove_or_lose(&range));
        }
        if of == Use::Firmware {
            // It is not mapped in any case, so a full list loses nothing.
            _ = self.no_map.add(range);
        }
    }

    /// Reserves a range, or removes it from RAM if there is no room to remember it.
    fn set_apart(&mut self, range: Range<Pa>, lost: &mut Lost) {
        if self.reserved.add(range.clone()) == Err(Full) {
            lost.count(self.ram.remove_or_lose(&range));
            lost.count(Some(range));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::{String, ToString};
    use std::vec;
    use std::vec::Vec;
    use test_support::prelude::*;

    /// A descriptor: type, first page, pages, attributes.
    type Descriptor = (u32, u64, u64, u64);

    const STRIDE: u64 = 48;
    const RUNTIME: u64 = 1 << 63;

    fn bytes(descriptors: &[Descriptor]) -> Vec<u8> {
        let mut map = Vec::new();
        for (kind, page, pages, attributes) in descriptors {
            let words = [u64::from(*kind) | 0xdead << 32, page * PAGE, 7, *pages, *attributes, 0x5555];
            map.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
        map
    }

    fn read(bytes: &[u8]) -> (Memory, Lost, Vec<String>) {
        let (mut lost, mut notes) = (Lost::default(), Vec::new());
        let map = MemoryMap::new(bytes, STRIDE).unwrap();
        let memory = map.memory(&mut lost, &mut |note| notes.push(note.to_string()));
        (memory, lost, notes)
    }

    fn pages(ranges: &Ranges) -> Vec<(u64, u64)> {
        ranges.as_slice().iter().map(|r| (r.start.0 / PAGE, r.end.0 / PAGE)).collect()
    }

    #[test]
    fn memory_of_any_use_can_be_read() {
        let descriptors =
            [(7, 16, 8, WRITE_BACK), (10, 32, 8, WRITE_BACK), (0, 48, 8, WRITE_BACK), (11, 64, 8, RUNTIME)];
        let bytes = bytes(&descriptors);
        let map = MemoryMap::new(&bytes, STRIDE).unwrap();
        let has = |start: u64, end: u64| map.has_memory(&(Pa(start * PAGE)..Pa(end * PAGE)));
        assert!(has(16, 24) && has(33, 34) && has(48, 56));
        assert!(!has(64, 65) && !has(15, 17) && !has(20, 33) && !has(0, 1) && !has(23, 25));
    }

    #[test]
    fn each_type_has_its_use() {
        let all: Vec<_> = (0..16).map(|kind| (kind, 16 * u64::from(kind), 8, WRITE_BACK | 7)).collect();
        let (memory, lost, notes) = read(&bytes(&all));
        assert_eq!(pages(&memory.ram), [1, 2, 3, 4, 7, 9].map(|kind| (16 * kind, 16 * kind + 8)));
        assert_eq!(pages(&memory.reserved), [(144, 152)], "ACPI tables");
        assert_eq!(pages(&memory.no_map), [0, 5, 6, 8, 10, 13].map(|kind| (16 * kind, 16 * kind + 8)));
        assert_eq!((lost, notes), (Lost::default(), Vec::new()));
    }

    #[test]
    fn attributes_decide_as_well() {
        let special = WRITE_BACK | SPECIAL_PURPOSE;
        let all = [
            (7, 0, 1, 7),
            (7, 1, 1, WRITE_BACK),
            (7, 4, 2, special),
            (6, 8, 1, RUNTIME | WRITE_BACK),
            (6, 9, 1, RUNTIME | 1),
        ];
        let (memory, _, notes) = read(&bytes(&all));
        assert_eq!(pages(&memory.ram), [(1, 2), (4, 6)], "not what may not be cached");
        assert_eq!(pages(&memory.reserved), [(4, 6)]);
        assert_eq!(pages(&memory.no_map), [(8, 9)], "registers are no memory");
        assert_eq!(notes, Vec::<String>::new());
    }

    #[test]
    fn neighbours_are_one_range_in_any_order() {
        let mut all: Vec<Descriptor> = (0..2000).map(|i| (1 + i as u32 % 4, i * 3, 3, WRITE_BACK)).collect();
        assert_eq!(pages(&read(&bytes(&all)).0.ram), [(0, 6000)]);
        all.reverse();
        assert_eq!(pages(&read(&bytes(&all)).0.ram), [(0, 6000)]);
    }

    #[test]
    fn memory_that_is_ram_and_is_not_is_left_out() {
        let free = (7, 10, 10, WRITE_BACK);
        let runtime = (6, 12, 2, RUNTIME | WRITE_BACK);
        for all in [[free, runtime], [runtime, free]] {
            let (memory, _, notes) = read(&bytes(&all));
            assert_eq!(pages(&memory.ram), [(10, 12), (14, 20)]);
            assert_eq!(pages(&memory.no_map), [(12, 14)]);
            assert_eq!(
                notes,
                [
                    "memory map of the firmware: 0xc000..0xe000 is RAM and is not: it overlaps memory of another type; left out"
                ]
            );
        }
        let (memory, _, notes) = read(&bytes(&[free, (3, 15, 10, WRITE_BACK)]));
        assert_eq!(pages(&memory.ram), [(10, 25)]);
        assert_eq!(notes, ["memory 0xf000..0x19000 overlaps other memory; merged"]);
    }

    #[test]
    fn what_makes_no_sense_is_named_and_left_out() {
        let mut map = bytes(&[
            (7, 1, 1, WRITE_BACK),
            (7, 2, 0, WRITE_BACK),
            (7, 3, u64::MAX, WRITE_BACK),
            (7, 5, 1, WRITE_BACK),
        ]);
        map[3 * 48 + 8] = 1;
        map.extend([0; 13]);
        let (memory, _, mut notes) = read(&map);
        notes.sort();
        assert_eq!(pages(&memory.ram), [(1, 2)]);
        let expected = [
            "its last 13 bytes are no whole descriptor",
            "the range at 0x2000 is empty",
            "the range at 0x5001 starts within a page; left out",
            "0x3000 and 0xffffffffffffffff pages is beyond all addresses; left out",
        ];
        let mut expected = expected.map(|text| std::format!("memory map of the firmware: {text}"));
        expected.sort();
        assert_eq!(notes, expected);
        for stride in [0, 8, 39, 44, u64::MAX] {
            assert_eq!(MemoryMap::new(&map, stride).err(), Some(BadStride(stride)));
        }
    }

    #[test]
    fn of_too_many_pieces_the_longest_are_kept() {
        let all: Vec<Descriptor> = (0..1000).map(|i| (7, i * 100, 1 + i % 50, WRITE_BACK)).collect();
        let (memory, lost, _) = read(&bytes(&all));
        let total: u64 = all.iter().map(|d| d.2 * PAGE).sum();
        assert_eq!(memory.ram.as_slice().len(), crate::ranges::CAPACITY);
        assert_eq!(memory.ram.bytes() + lost.bytes, total);
        assert!(pages(&memory.ram).iter().all(|(from, to)| to - from > 40));
        // ACPI tables that there is no room to remember are not mapped.
        let all: Vec<Descriptor> =
            (0..300).flat_map(|i| [(7, i * 10, 5, WRITE_BACK), (9, i * 10 + 5, 5, WRITE_BACK)]).collect();
        let memory = read(&bytes(&all)).0;
        let free =
            |page: u64| memory.ram.contains(Pa(page * PAGE)) && !memory.reserved.contains(Pa(page * PAGE));
        assert!((0..300).all(|i| !free(i * 10 + 5)));
        assert_eq!(memory.reserved.as_slice().len(), crate::ranges::CAPACITY);
    }

    fn descriptor() -> impl Strategy<Value = Descriptor> {
        let attributes =
            prop::sample::select(vec![WRITE_BACK, 7, WRITE_BACK | SPECIAL_PURPOSE, WRITE_BACK | RUNTIME]);
        let pages = prop_oneof![9 => 0..40u64, 1 => any::<u64>()];
        (0..17u32, 0..200u64, pages, attributes)
    }

    proptest! {
        /// A page is RAM if a descriptor says so and none says otherwise; the order of descriptors changes nothing.
        #[test]
        fn a_page_is_what_its_descriptors_say(all in prop::collection::vec(descriptor(), 0..30)) {
            let (memory, lost, _) = read(&bytes(&all));
            prop_assert_eq!(lost, Lost::default());
            for page in 0..300 {
                let uses = |wanted: &dyn Fn(Use) -> bool| all.iter().any(|(kind, start, pages, attributes)| {
                    let end = pages.checked_mul(PAGE).and_then(|b| (start * PAGE).checked_add(b));
                    end.is_some() && (*start..start.saturating_add(*pages)).contains(&page) && wanted(Use::of(*kind, *attributes))
                });
                let is_ram = uses(&Use::is_ram) && !uses(&|of| !of.is_ram());
                let pa = Pa(page * PAGE);
                let (kept, firmware) = (uses(&|of| of == Use::Kept), uses(&|of| of == Use::Firmware));
                prop_assert_eq!(memory.ram.contains(pa), is_ram, "page {}", page);
                prop_assert_eq!(memory.reserved.contains(pa) && is_ram, kept && is_ram);
                prop_assert_eq!(memory.no_map.contains(pa), firmware);
            }
            let reversed: Vec<_> = all.iter().rev().copied().collect();
            let (other, ..) = read(&bytes(&reversed));
            prop_assert_eq!(other.ram.as_slice(), memory.ram.as_slice());
        }

        /// Noise never panics.
        #[test]
        fn noise(bytes in prop::collection::vec(any::<u8>(), 0..400), stride in 0..100u64) {
            if let Ok(map) = MemoryMap::new(&bytes, stride) {
                map.memory(&mut Lost::default(), &mut |_| {});
            }
        }
    }
}
