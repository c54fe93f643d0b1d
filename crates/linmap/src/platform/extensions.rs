//! Additions of TCR_EL1 and TCR2_EL1 to the tables: updates by hardware, and formats of descriptors other than the library's.
//! Pure.

/// The words that the walkers of a CPU can write into the tables (ID_AA64MMFR1_EL1.HAFDBS). Each value includes those before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum HardwareUpdates {
    /// Nothing.
    #[default]
    None,
    /// The access flag of leaves (FEAT_HAFDBS).
    AccessFlag,
    /// Their dirty state (FEAT_HAFDBS).
    DirtyState,
    /// The access flag of table descriptors (FEAT_HAFT).
    Tables,
}

impl HardwareUpdates {
    /// Returns what a value of the field HAFDBS stands for.
    pub(crate) const fn of(field: u64) -> Self {
        match field {
            0 => Self::None,
            1 => Self::AccessFlag,
            2 => Self::DirtyState,
            _ => Self::Tables,
        }
    }

    /// Returns the bits of TCR_EL1 that let walkers write that: HA and HD.
    pub const fn tcr(self) -> u64 {
        match self {
            Self::None => 0,
            Self::AccessFlag => 1 << 39,
            Self::DirtyState | Self::Tables => 1 << 39 | 1 << 40,
        }
    }

    /// Returns the bit of TCR2_EL1: HAFT. All tables then have their access flag
    /// ([`TableAttributes::ACCESSED`](crate::arch::TableAttributes::ACCESSED)), or walkers set it.
    pub const fn tcr2(self) -> u64 {
        match self {
            Self::None | Self::AccessFlag | Self::DirtyState => 0,
            Self::Tables => 1 << 11,
        }
    }
}

/// Something that TCR2_EL1 has on and that gives descriptors another meaning than the library's (Arm ARM D24.2.190).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsupported {
    /// D128: descriptors have 128 bits.
    #[error("TCR2_EL1.D128 is set: descriptors have 128 bits, and the library's have 64")]
    Descriptors128,
    /// PnCH: bit 52 is the protected bit, and there are no contiguous runs.
    #[error("TCR2_EL1.PnCH is set: bit 52 is not the contiguous bit")]
    Protected,
    /// AIE: bit 59 is a part of the memory type's index.
    #[error("TCR2_EL1.AIE is set: the index of a memory type has four bits, and the library's has three")]
    AttributeIndex,
    /// PIE: permissions are an index into PIR_EL1 and PIRE0_EL1 (D8.4.2).
    #[error("TCR2_EL1.PIE is set: AP[2] and XN are a part of an index, and do not decide who may write")]
    IndirectPermissions,
    /// POE: an overlay takes permissions away, by bits 62:60.
    #[error("TCR2_EL1.POE is set: bits 62:60 take permissions away that the library does not see")]
    Overlays,
}

/// A value of TCR2_EL1, as a kernel finds it when it takes tables over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tcr2(pub u64);

impl Tcr2 {
    /// Checks that descriptors mean what the library takes them for. Where the CPU has no such register
    /// ([`Features::has_tcr2`](crate::cpu::Features::has_tcr2)), they do.
    ///
    /// A kernel that knows its indices may go on with [`IndirectPermissions`](Unsupported::IndirectPermissions) and
    /// [`Overlays`](Unsupported::Overlays): the library keeps all bits, and changes those that it is told to
    /// ([`Change::from_bits`](crate::Change::from_bits)). Its own judgement, of memory that is both writable and executable
    /// and of aliases, is then an upper bound if PIR_EL1 permits no write that AP\[2\] and DBM do not permit, as in Linux.
    ///
    /// ```
    /// use linmap::cpu::{Tcr2, Unsupported};
    ///
    /// assert_eq!(Tcr2(1 << 11).check(), Ok(()), "HAFT changes no meaning");
    /// assert_eq!(Tcr2(1 << 1).check(), Err(Unsupported::IndirectPermissions));
    /// ```
    ///
    /// # Errors
    ///
    /// What is on, the worst first.
    pub const fn check(self) -> Result<(), Unsupported> {
        Err(match self.0 {
            bits if bits & 1 << 5 != 0 => Unsupported::Descriptors128,
            bits if bits & 1 != 0 => Unsupported::Protected,
            bits if bits & 1 << 4 != 0 => Unsupported::AttributeIndex,
            bits if bits & 1 << 1 != 0 => Unsupported::IndirectPermissions,
            bits if bits & 1 << 3 != 0 => Unsupported::Overlays,
            _ => return Ok(()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_extension_has_its_bit() {
        use Unsupported::*;
        let of = |bit: u32| Tcr2(1 << bit).check();
        let found = [0, 1, 2, 3, 4, 5, 10, 11].map(of);
        let wanted = [
            Err(Protected),
            Err(IndirectPermissions),
            // E0POE is about EL0, PTTWI and HAFT are about walkers.
            Ok(()),
            Err(Overlays),
            Err(AttributeIndex),
            Err(Descriptors128),
            Ok(()),
            Ok(()),
        ];
        assert_eq!(found, wanted);
        assert_eq!(Tcr2(u64::MAX).check(), Err(Descriptors128));
        assert_eq!(Tcr2(0).check(), Ok(()));
    }

    #[test]
    fn updates_include_those_before() {
        use HardwareUpdates::*;
        assert_eq!(
            [0, 1, 2, 3, 4, 15].map(HardwareUpdates::of),
            [None, AccessFlag, DirtyState, Tables, Tables, Tables]
        );
        assert!(None < AccessFlag && AccessFlag < DirtyState && DirtyState < Tables);
        assert_eq!(
            [None, AccessFlag, DirtyState, Tables].map(HardwareUpdates::tcr),
            [0, 1 << 39, 3 << 39, 3 << 39]
        );
        assert_eq!([None, AccessFlag, DirtyState, Tables].map(HardwareUpdates::tcr2), [0, 0, 0, 1 << 11]);
    }
}
