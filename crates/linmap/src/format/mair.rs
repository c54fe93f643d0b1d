//! The meaning that a value of MAIR_EL1 gives to the eight memory types.

use crate::format::MemoryType;

/// A value of MAIR_EL1: eight bits for each index that a descriptor can have (D24.2.111).
///
/// ```
/// use linmap::arch::Mair;
/// use linmap::MemoryType;
///
/// let own = Mair(0x00_ff_44); // not cacheable, cacheable, device
/// assert_eq!(own.name(MemoryType::new(1)), Some("MEM/NORMAL"));
/// assert_eq!(own.name(MemoryType::new(2)), Some("DEVICE/nGnRnE"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mair(pub u64);

impl Mair {
    /// Returns the attribute field of a memory type.
    pub const fn field(self, memory_type: MemoryType) -> u8 {
        self.0.to_le_bytes()[memory_type.index() as usize]
    }

    /// Returns the name that Linux prints for a memory type with that meaning. Returns `None` if Linux has no name for
    /// it.
    pub const fn name(self, memory_type: MemoryType) -> Option<&'static str> {
        Some(match self.field(memory_type) {
            0xff => "MEM/NORMAL",
            0xf0 => "MEM/NORMAL-TAGGED",
            0xbb => "MEM/NORMAL-WT",
            0x44 => "MEM/NORMAL-NC",
            0x00 => "DEVICE/nGnRnE",
            0x04 => "DEVICE/nGnRE",
            0x08 => "DEVICE/nGRE",
            0x0c => "DEVICE/GRE",
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The library's own value yields the library's own names.
    #[test]
    fn names_are_those_of_the_indices() {
        for index in 0..5 {
            let memory_type = MemoryType::new(index);
            assert_eq!(Mair(MemoryType::mair(true)).name(memory_type), memory_type.name());
        }
        // Without tags, index 1 has the same meaning as index 0.
        assert_eq!(Mair(MemoryType::mair(false)).name(MemoryType::NORMAL_TAGGED), Some("MEM/NORMAL"));
    }

    #[test]
    fn each_index_has_its_own_field() {
        let all = Mair(0x0c_08_04_00_44_bb_f0_ff);
        let fields = [0xff, 0xf0, 0xbb, 0x44, 0x00, 0x04, 0x08, 0x0c];
        for (index, field) in (0..).zip(fields) {
            assert_eq!(all.field(MemoryType::new(index)), field);
            assert!(all.name(MemoryType::new(index)).is_some());
        }
        assert_eq!(Mair(0x77).name(MemoryType::new(0)), None);
    }
}
