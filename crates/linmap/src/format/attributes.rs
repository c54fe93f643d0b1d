//! Attributes: the fields of a leaf other than its address, in their descriptor positions.
//!
//! Arm ARM D8.3.1.2 defines the fields, D8.4 their effect. Encoding is therefore an OR, and every value found in a dump
//! survives a round trip.

use core::fmt;

bitflags::bitflags! {
    /// The attribute fields of a stage 1 leaf, in their descriptor positions.
    ///
    /// Combinations for kernels are predefined: [`Attributes::RAM`] and its siblings.
    #[derive(Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Attributes: u64 {
        /// AttrIndx, bits 4:2: see [`Attributes::memory_type`].
        const MEMORY_TYPE = 0b111 << 2;
        /// NS, where the security state has two physical address spaces. Elsewhere hardware ignores it.
        const NON_SECURE = 1 << 5;
        /// AP\[1\]: EL0 may access the memory.
        const USER = 1 << 6;
        /// AP\[2\]: not writable.
        const READ_ONLY = 1 << 7;
        /// SH = 0b11, inner shareable. With LPA2 these bits hold part of the address, and TCR holds the shareability.
        const INNER_SHAREABLE = 0b11 << 8;
        /// AF: without it the first access faults.
        const ACCESSED = 1 << 10;
        /// nG: the entry belongs to one ASID.
        const NOT_GLOBAL = 1 << 11;
        /// GP: guarded page; indirect branches must land on a BTI instruction.
        const GUARDED = 1 << 50;
        /// DBM: hardware may clear READ_ONLY on a write, where TCR.HD allows that.
        const DIRTY_MANAGED = 1 << 51;
        /// PXN: not executable at EL1.
        const PXN = 1 << 53;
        /// UXN: not executable at EL0.
        const UXN = 1 << 54;
        /// Bits 58, 56 and 55, which hardware leaves to software. Bit 58 has a meaning: [`STAYS_SPLIT`](Self::STAYS_SPLIT).
        const SOFTWARE = 0b1011 << 55;
        /// Bit 57 of an invalid leaf: a [`remake`](crate::Live::remake) has taken it out, and not brought it back. In a valid
        /// leaf it says nothing, and it is cleared when the leaf becomes invalid or valid in another way.
        const TAKEN_OUT = 1 << 57;
        /// Bit 58, which hardware ignores: the leaf keeps its size. No collapse merges it into a block or a contiguous run.
        ///
        /// A [`Layout`](crate::Layout) sets it on its carve-outs, [`create_regions`](crate::Live::create_regions) on regions in pages
        /// and [`Live::pin`](crate::Live::pin) on a range.
        const STAYS_SPLIT = 1 << 58;
        /// Bits 63:59, which the library keeps and never interprets: PBHA, POIndex and others, by the features of the CPU.
        const UPPER = 0b1_1111 << 59;
    }
}

/// An index into MAIR, numbered as Linux numbers them so that dumps compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct MemoryType(u8);

impl MemoryType {
    /// Normal, write-back cacheable.
    pub const NORMAL: Self = Self(0);
    /// Normal, with allocation tags where the CPU has MTE; otherwise the same as [`Self::NORMAL`].
    pub const NORMAL_TAGGED: Self = Self(1);
    /// Normal, not cacheable.
    pub const NORMAL_NC: Self = Self(2);
    /// Device, no gathering, no reordering, no early acknowledgement.
    pub const DEVICE_NGNRNE: Self = Self(3);
    /// Device, no gathering, no reordering.
    pub const DEVICE_NGNRE: Self = Self(4);

    /// Returns the type at an index of MAIR. Only the low three bits of `index` count.
    pub const fn new(index: u8) -> Self {
        Self(index & 7)
    }

    /// Returns the index in MAIR, 0 to 7.
    pub const fn index(self) -> u8 {
        self.0
    }

    /// Returns the name that Linux prints, or `None` if Linux has none for the index.
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

    /// Returns the value of MAIR_EL1 that gives the indices these meanings.
    ///
    /// Pass `tagged` if the CPU has allocation tags (ID_AA64PFR1_EL1.MTE of 2 or more).
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

    /// Returns the memory type, which is AttrIndx.
    pub const fn memory_type(self) -> MemoryType {
        MemoryType::new((self.bits() >> 2) as u8)
    }

    /// Returns true for [`MemoryType::NORMAL`] and [`MemoryType::NORMAL_TAGGED`].
    pub(crate) const fn is_normal(self) -> bool {
        matches!(self.memory_type(), MemoryType::NORMAL | MemoryType::NORMAL_TAGGED)
    }

    /// Returns these attributes with another memory type.
    #[must_use]
    pub const fn of_type(self, memory_type: MemoryType) -> Self {
        let others = self.difference(Self::MEMORY_TYPE).bits();
        Self::from_bits_retain(others | (memory_type.0 as u64) << 2)
    }

    /// Returns true if EL1 can write: not read-only, or read-only until hardware marks it dirty (D8.5.2).
    ///
    /// With indirect permissions (FEAT_S1PIE) it is an upper bound as long as PIR_EL1 gives no permission to write that
    /// these bits do not give, as in Linux.
    pub const fn is_writable(self) -> bool {
        !self.contains(Self::READ_ONLY) || self.contains(Self::DIRTY_MANAGED)
    }

    /// Returns true if a walker may update such a leaf: it has no access flag, or it is writable-clean, read-only with DBM
    /// (D8.5.1, D8.5.2).
    #[inline]
    pub(crate) const fn is_hardware_updated(self) -> bool {
        let clean = Self::READ_ONLY.union(Self::DIRTY_MANAGED);
        !self.contains(Self::ACCESSED) || self.contains(clean)
    }

    /// Returns true if it can be both written and executed.
    #[inline]
    pub(crate) const fn is_write_execute(self) -> bool {
        self.is_writable() && self.is_executable()
    }

    /// Returns true if EL1 or EL0 can execute it.
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
