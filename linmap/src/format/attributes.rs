//! Attributes: what a leaf says besides its address, in the descriptor's own bit positions.
//!
//! Arm ARM D8.3.1.2 has the fields, D8.4 what they permit. Keeping them where the descriptor has them
//! makes encoding an OR, and lets every value that a dump may hold survive a round trip.

use core::fmt;

bitflags::bitflags! {
    /// The attribute fields of a stage 1 leaf, in their descriptor positions.
    ///
    /// Kernel combinations stand ready as [`Attributes::RAM`] and its siblings.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Attributes: u64 {
        /// AttrIndx, bits 4:2: see [`Attributes::memory_type`].
        const MEMORY_TYPE = 0b111 << 2;
        /// AP\[1\]: EL0 may access it.
        const USER = 1 << 6;
        /// AP\[2\]: not writable.
        const READ_ONLY = 1 << 7;
        /// SH = 0b11, inner shareable. With LPA2 the bits hold an address, and TCR says it.
        const INNER_SHAREABLE = 0b11 << 8;
        /// AF: without it the first access faults.
        const ACCESSED = 1 << 10;
        /// nG: the entry belongs to one ASID.
        const NOT_GLOBAL = 1 << 11;
        /// GP: indirect branches must land on BTI.
        const GUARDED = 1 << 50;
        /// DBM: hardware may clear READ_ONLY on a write, where TCR.HD allows that.
        const DIRTY_MANAGED = 1 << 51;
        /// PXN: EL1 may not execute it.
        const PXN = 1 << 53;
        /// UXN: EL0 may not execute it.
        const UXN = 1 << 54;
        /// Bits 58:55, which hardware leaves to software.
        const SOFTWARE = 0b1111 << 55;
    }
}

/// An index into MAIR, numbered as Linux numbers them so that dumps compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MemoryType(u8);

impl MemoryType {
    /// Normal, write-back cacheable.
    pub const NORMAL: Self = Self(0);
    /// Normal, with allocation tags where the CPU has MTE, else the same as [`Self::NORMAL`].
    pub const NORMAL_TAGGED: Self = Self(1);
    /// Normal, not cacheable.
    pub const NORMAL_NC: Self = Self(2);
    /// Device, no gathering, no reordering, no early acknowledgement.
    pub const DEVICE_NGNRNE: Self = Self(3);
    /// Device, no gathering, no reordering.
    pub const DEVICE_NGNRE: Self = Self(4);

    /// The type at an index of MAIR; only the low three bits count.
    pub const fn new(index: u8) -> Self {
        Self(index & 7)
    }

    /// The index in MAIR, 0 to 7.
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The name that Linux prints, where the index has a meaning.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.0 {
            0 => "MEM/NORMAL",
            1 => "MEM/NORMAL-TAGGED",
            2 => "MEM/NORMAL-NC",
            3 => "DEVICE/nGnRnE",
            4 => "DEVICE/nGnRE",
            _ => return None,
        })
    }

    /// The value of MAIR_EL1 that gives the indices these meanings.
    ///
    /// `tagged` says that the CPU has allocation tags (ID_AA64PFR1_EL1.MTE of 2 or more).
    pub const fn mair(tagged: bool) -> u64 {
        let normal_tagged = if tagged { 0xf0 } else { 0xff };
        u64::from_le_bytes([0xff, normal_tagged, 0x44, 0x00, 0x04, 0, 0, 0])
    }
}

impl Attributes {
    /// Kernel memory of a type: read-write, never executable, accessed, inner shareable, global.
    const fn kernel(memory_type: MemoryType) -> Self {
        let flags = Self::ACCESSED.union(Self::INNER_SHAREABLE).union(Self::PXN).union(Self::UXN);
        Self::from_bits_retain(flags.bits() | (memory_type.0 as u64) << 2)
    }

    /// RAM in the linear map.
    pub const RAM: Self = Self::kernel(MemoryType::NORMAL_TAGGED);
    /// The kernel's data, and the alias of the kernel image while it is writable.
    pub const KERNEL_DATA: Self = Self::kernel(MemoryType::NORMAL);
    /// The kernel's constants, and the alias of text and constants once it is protected.
    pub const KERNEL_RODATA: Self = Self::KERNEL_DATA.union(Self::READ_ONLY);
    /// The kernel's code: read-only, executable at EL1.
    pub const KERNEL_TEXT: Self = Self::KERNEL_RODATA.difference(Self::PXN);
    /// Device registers.
    pub const DEVICE: Self = Self::kernel(MemoryType::DEVICE_NGNRE);

    /// The memory type that AttrIndx names.
    pub const fn memory_type(self) -> MemoryType {
        MemoryType::new((self.bits() >> 2) as u8)
    }

    /// The same of another memory type.
    #[must_use]
    pub const fn of_type(self, memory_type: MemoryType) -> Self {
        let others = self.difference(Self::MEMORY_TYPE).bits();
        Self::from_bits_retain(others | (memory_type.0 as u64) << 2)
    }

    /// Whether EL1 can write: not read-only, or read-only until hardware finds it dirty.
    pub const fn is_writable(self) -> bool {
        !self.contains(Self::READ_ONLY) || self.contains(Self::DIRTY_MANAGED)
    }

    /// Whether it can be written and executed at once.
    #[inline]
    pub(crate) const fn is_write_execute(self) -> bool {
        self.is_writable() && self.is_executable()
    }

    /// Whether EL1 or EL0 can execute it.
    pub const fn is_executable(self) -> bool {
        !self.contains(Self::PXN.union(Self::UXN))
    }
}

impl fmt::Debug for Attributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Attributes({:#x})", self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_combinations_never_write_and_execute() {
        use Attributes as A;
        for a in [A::RAM, A::KERNEL_DATA, A::KERNEL_RODATA, A::KERNEL_TEXT, A::DEVICE] {
            assert!(!(a.is_writable() && a.is_executable()), "{a:?}");
            assert!(!a.contains(A::USER) && a.contains(A::UXN));
        }
        assert!(A::KERNEL_TEXT.is_executable() && !A::KERNEL_TEXT.is_writable());
        assert_eq!(A::RAM.memory_type(), MemoryType::NORMAL_TAGGED);
    }

    #[test]
    fn read_only_that_hardware_may_undo_is_writable() {
        assert!((Attributes::KERNEL_RODATA | Attributes::DIRTY_MANAGED).is_writable());
    }

    #[test]
    fn mair_matches_the_indices() {
        assert_eq!(MemoryType::mair(false), 0x04_00_44_ff_ff);
        assert_eq!(MemoryType::mair(true), 0x04_00_44_f0_ff);
    }
}
