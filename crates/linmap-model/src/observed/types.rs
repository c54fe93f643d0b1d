//! Memory types as MAIR has them: two indexes with one meaning are one type.

use linmap::arch::Level;
use linmap::{Attributes, MemoryType};

/// For each index of MAIR, the index by which this crate knows the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Types([u8; 8]);

/// Write-back, allocating, non-transient; and the same Tagged (D24.2.127, MAIR_EL1).
const NORMAL: u8 = 0xff;
const TAGGED: u8 = 0xf0;

impl Default for Types {
    fn default() -> Self {
        Self([0, 1, 2, 3, 4, 5, 6, 7])
    }
}

impl Types {
    /// Reads MAIR_EL1.
    pub(super) fn new(mair: u64) -> Self {
        let bytes = mair.to_le_bytes();
        let own = [(NORMAL, MemoryType::NORMAL.index()), (TAGGED, MemoryType::NORMAL_TAGGED.index())];
        let known = |byte: u8| own.iter().find(|known| known.0 == byte).map(|known| known.1);
        // The others keep their order, at indexes that no known one needs.
        let taken = |index: u8| own.iter().any(|&(byte, at)| at == index && bytes.contains(&byte));
        let mut free = (0..8u8).filter(|&index| !taken(index));
        let mut types = [0; 8];
        for at in 0..8 {
            let before = bytes[..at].iter().position(|&byte| byte == bytes[at]);
            types[at] = match (known(bytes[at]), before) {
                (Some(index), _) => index,
                (None, Some(before)) => types[before],
                (None, None) => free.next().unwrap_or(7),
            };
        }
        Self(types)
    }

    /// Returns a valid descriptor with the memory type by this crate's index, if it is that of a leaf.
    pub(super) fn canonical(&self, word: u64, level: Level) -> u64 {
        let is_leaf = (word & 2 == 0) != (level == Level::PAGE);
        if !is_leaf {
            return word;
        }
        let index = (word >> 2u32 & 7) as usize;
        word & !Attributes::MEMORY_TYPE.bits() | u64::from(self.0[index]) << 2u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_with_one_meaning_are_one() {
        // Linux: Normal, Tagged, not cacheable, two kinds of Device; the rest is zero, as nGnRnE is.
        let linux = 0x0000_0004_0044_f0ff_u64;
        let Types(types) = Types::new(linux);
        assert_eq!(types[0], MemoryType::NORMAL.index());
        assert_eq!(types[1], MemoryType::NORMAL_TAGGED.index());
        assert_ne!(types[2], types[3]);
        assert_eq!(types[3], types[5]);
        assert!(types[2..].iter().all(|index| !types[..2].contains(index)));
    }
}
