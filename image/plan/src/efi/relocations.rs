//! Base relocations of a PE file: where in the image are words that hold its own addresses.
//!
//! Firmware adds the distance from the linked address to each of them. The stub takes it away again in its copy, which
//! so becomes the image as it is in the file.

use core::fmt;

/// The words of a table of base relocations, as offsets in the image.
#[derive(Clone, Copy, Debug)]
pub struct Relocations<'a>(&'a [u8]);

/// The reason why a table cannot be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadRelocations {
    /// The file has no PE header, or one without the place of the table.
    NoTable,
    /// A block of the table is too short, or goes on behind its end: at this offset.
    Block(usize),
    /// A relocation at this offset of the table is of another kind than DIR64.
    Kind(usize),
    /// A word at this offset of the image is not whole in it.
    Outside(u64),
}

impl fmt::Display for BadRelocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTable => f.write_str("the image has no PE header with base relocations"),
            Self::Block(at) => write!(f, "the block of base relocations at {at:#x} is cut short"),
            Self::Kind(at) => write!(f, "the base relocation at {at:#x} is none of 64 bits"),
            Self::Outside(at) => write!(f, "the base relocation of {at:#x} is outside the image"),
        }
    }
}

/// The kinds of relocations: padding, and 64 bits.
const ABSOLUTE: u16 = 0;
const DIR64: u16 = 10;

impl<'a> Relocations<'a> {
    /// Returns where the table is in an image that starts with `header`: its offset and its bytes.
    ///
    /// # Errors
    ///
    /// There is no PE header, or it names no table.
    pub fn place(header: &[u8]) -> Result<(u32, u32), BadRelocations> {
        /// From the PE signature to the entry for base relocations, the sixth, in the optional header of 64 bits.
        const ENTRY: usize = 4 + 20 + 112 + 5 * 8;
        let word = |at: usize| {
            let bytes = header.get(at..)?.first_chunk()?;
            Some(u32::from_le_bytes(*bytes))
        };
        let place = || {
            let pe = word(0x3c)? as usize;
            let is_pe = word(pe)? == u32::from_le_bytes(*b"PE\0\0");
            let (at, bytes) = (word(pe.checked_add(ENTRY)?)?, word(pe.checked_add(ENTRY + 4)?)?);
            (is_pe && bytes != 0).then_some((at, bytes))
        };
        place().ok_or(BadRelocations::NoTable)
    }

    /// Reads a table as PE files have it.
    pub const fn new(table: &'a [u8]) -> Self {
        Self(table)
    }

    /// Calls `relocate` with the offset of each word of an image of so many bytes.
    ///
    /// # Errors
    ///
    /// The table is damaged. The words before that have been passed on.
    pub fn each(self, image_bytes: u64, mut relocate: impl FnMut(u64)) -> Result<(), BadRelocations> {
        let mut at = 0;
        while at < self.0.len() {
            let block = &self.0[at..];
            let head = block.first_chunk::<8>().ok_or(BadRelocations::Block(at))?;
            let [a, b, c, d, e, f, g, h] = *head;
            let (page, bytes) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]) as usize);
            let entries = block.get(8..bytes).ok_or(BadRelocations::Block(at))?;
            for (index, entry) in entries.chunks_exact(2).enumerate() {
                let entry = u16::from_le_bytes([entry[0], entry[1]]);
                let word = u64::from(page) + u64::from(entry & 0xfff);
                match entry >> 12u32 {
                    ABSOLUTE => {}
                    DIR64 if word + 8 <= image_bytes => relocate(word),
                    DIR64 => return Err(BadRelocations::Outside(word)),
                    _ => return Err(BadRelocations::Kind(at + 8 + 2 * index)),
                }
            }
            at += bytes;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;
    use test_support::prelude::*;

    fn block(page: u32, entries: &[u16]) -> Vec<u8> {
        let bytes = 8 + 2 * entries.len() as u32;
        let mut block = [page.to_le_bytes(), bytes.to_le_bytes()].concat();
        block.extend(entries.iter().flat_map(|entry| entry.to_le_bytes()));
        block
    }

    fn words(table: &[u8], image: u64) -> Result<Vec<u64>, BadRelocations> {
        let mut words = Vec::new();
        Relocations::new(table).each(image, |word| words.push(word))?;
        Ok(words)
    }

    #[test]
    fn each_word_of_each_block() {
        let table = [block(0x1000, &[0xa008, 0xaff8]), block(0x3000, &[0xa000, 0])].concat();
        assert_eq!(words(&table, 0x3008), Ok(vec![0x1008, 0x1ff8, 0x3000]));
        assert_eq!(words(&table, 0x3007), Err(BadRelocations::Outside(0x3000)));
        assert_eq!(words(&[], 0), Ok(Vec::new()));
    }

    #[test]
    fn damage_is_named_by_its_place() {
        let good = block(0x1000, &[0xa008]);
        let then = |bytes: &[u8]| words(&[&good, bytes].concat(), 0x1_0000);
        assert_eq!(then(&[1, 2, 3]), Err(BadRelocations::Block(10)));
        assert_eq!(then(&[0; 8]), Err(BadRelocations::Block(10)), "a block of no bytes");
        assert_eq!(then(&[0, 0, 0, 0, 9, 0, 0, 0]), Err(BadRelocations::Block(10)), "behind the end");
        assert_eq!(then(&block(0, &[0, 0x3000])), Err(BadRelocations::Kind(20)));
    }

    #[test]
    fn the_place_is_in_the_header() {
        let mut header = vec![0; 0x40 + 4 + 20 + 112 + 6 * 8];
        header[0x3c] = 0x40;
        assert_eq!(Relocations::place(&header), Err(BadRelocations::NoTable));
        header[0x40..0x44].copy_from_slice(b"PE\0\0");
        assert_eq!(Relocations::place(&header), Err(BadRelocations::NoTable));
        let entry = header.len() - 8;
        header[entry..].copy_from_slice(&[0, 0, 0x20, 0, 0x34, 0x12, 0, 0]);
        assert_eq!(Relocations::place(&header), Ok((0x20_0000, 0x1234)));
        assert_eq!(Relocations::place(&header[..entry + 7]), Err(BadRelocations::NoTable));
    }

    proptest! {
        /// Noise never panics, and a word is in the image or refused.
        #[test]
        fn noise(table in prop::collection::vec(any::<u8>(), 0..64), image in 0u64..0x1_0000_0000) {
            let mut outside = false;
            _ = Relocations::new(&table).each(image, |word| outside |= word + 8 > image);
            prop_assert!(!outside);
            _ = Relocations::place(&table);
        }
    }
}
