//! A change of permissions and validity, as a value, and the manner in which it is made.

use crate::format::attributes::Attributes;
use crate::format::descriptor::VALID;

/// A change of the leaves of a range: bits that are set, bits that are cleared, and whether the leaves become valid or
/// invalid. All other bits stay.
///
/// ```
/// use linmap::{Attributes, Change};
///
/// let code = Change::READ_ONLY.and(Change::EXECUTABLE);
/// assert_eq!(code.of(Attributes::KERNEL_DATA), Attributes::KERNEL_TEXT);
/// // The same in the bits of a descriptor, for a kernel that has those: AP[2] is set; DBM and PXN are cleared.
/// assert_eq!(Change::from_bits(1 << 7, 1 << 51 | 1 << 53), Ok(code));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// The bits that are set. With [`VALID`] leaves become valid.
    set: u64,
    /// The bits that are cleared, none of which is set. With [`VALID`] leaves become invalid.
    clear: u64,
}

bitflags::bitflags! {
    /// The manner in which a range changes. Without any flag a change invalidates at once and refuses holes. Whether it
    /// may wait for other callers is the platform's answer ([`Sharing::wait`](crate::Sharing::wait)), and each call may
    /// have a platform of its own.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
    pub struct ChangeFlags: u32 {
        /// Leaves the invalidations to a later [`flush`](crate::Live::flush) of the range, or of one that contains
        /// it. Until then CPUs may use the old translations and permissions. The range counts as *pending*: it is not
        /// collapsed, and another operation on any of its addresses invalidates first.
        const LATER = 1 << 0;
        /// Leaves out what is not mapped, instead of refusing the range.
        const SKIP_HOLES = 1 << 1;
    }
}

/// Bits that must not change in this way while a descriptor is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "the bits {bits:#x} of a descriptor cannot change in place; permissions, software bits and the valid bit can, and nG can \
     be set"
)]
pub struct FixedBits {
    /// The bits.
    pub bits: u64,
}

/// The attributes that may change while an entry is in use. Any other change requires break-before-make (Arm ARM
/// D8.17.1).
const PERMISSIONS: Attributes = Attributes::READ_ONLY
    .union(Attributes::DIRTY_MANAGED)
    .union(Attributes::USER)
    .union(Attributes::GUARDED)
    .union(Attributes::PXN)
    .union(Attributes::UXN)
    .union(Attributes::SOFTWARE);

/// nG, which may be set in use. A global entry that might overlap others takes break-before-make (D8.17.1 RWHZWS).
const NOT_GLOBAL: u64 = Attributes::NOT_GLOBAL.bits();

impl Change {
    /// Not writable, even by hardware management of the dirty state.
    pub const READ_ONLY: Self = Self::plain(Attributes::READ_ONLY, Attributes::DIRTY_MANAGED);
    /// Writable.
    pub const WRITABLE: Self = Self::plain(Attributes::empty(), Attributes::READ_ONLY);
    /// Executable at EL1.
    pub const EXECUTABLE: Self = Self::plain(Attributes::empty(), Attributes::PXN);
    /// Not executable anywhere.
    pub const NOT_EXECUTABLE: Self = Self::plain(Attributes::PXN.union(Attributes::UXN), Attributes::empty());
    /// Invalid, so that every access faults. The rest of the mapping is preserved.
    pub const INVALID: Self = Self { set: 0, clear: VALID };
    /// Valid again.
    pub const VALID: Self = Self { set: VALID, clear: 0 };

    /// Not global: the entry belongs to one ASID, as kernels without KASLR want it that hide themselves from user space
    /// (KPTI). There is no way back in place; a [`remake`](crate::Live::remake) or new tables can make leaves
    /// global.
    pub const NOT_GLOBAL: Self = Self::plain(Attributes::NOT_GLOBAL, Attributes::empty());

    const fn plain(set: Attributes, clear: Attributes) -> Self {
        Self { set: set.bits(), clear: clear.difference(set).bits() }
    }

    /// Returns the change that sets and clears these permissions and software bits. Returns `None` if other attributes
    /// are among them: those cannot change while an entry is in use. nG can be set, and cannot be cleared.
    pub const fn new(set: Attributes, clear: Attributes) -> Option<Self> {
        let permissions = set.difference(Attributes::NOT_GLOBAL).union(clear);
        if PERMISSIONS.contains(permissions) { Some(Self::plain(set, clear)) } else { None }
    }

    /// Returns the change that sets and clears these bits of a valid descriptor; `set` wins. Bit 0 says whether the
    /// leaves become valid or invalid. In an invalid leaf the other bits change as they would in a valid one, and show when
    /// it becomes valid.
    ///
    /// # Errors
    ///
    /// Bits that the library must know, or that cannot change while an entry is in use (Arm ARM D8.17.1): all but
    /// bit 0, the permissions, the software bits, and nG in `set`.
    pub const fn from_bits(set: u64, clear: u64) -> Result<Self, FixedBits> {
        let bits = (set & !NOT_GLOBAL | clear) & !(PERMISSIONS.bits() | VALID);
        if bits != 0 {
            return Err(FixedBits { bits });
        }
        Ok(Self { set, clear: clear & !set })
    }

    /// Returns both changes as one. Where they conflict, `next` wins.
    #[must_use]
    pub const fn and(self, next: Self) -> Self {
        Self { set: self.set & !next.clear | next.set, clear: self.clear & !next.set | next.clear }
    }

    /// Returns the attributes after the change.
    #[must_use]
    pub const fn of(self, attributes: Attributes) -> Attributes {
        Attributes::from_bits_retain(attributes.bits() & !self.clear | self.set & !VALID)
    }

    /// Returns [`VALID`](Self::VALID) or [`INVALID`](Self::INVALID).
    #[inline]
    pub const fn of_validity(valid: bool) -> Self {
        if valid { Self::VALID } else { Self::INVALID }
    }

    /// Returns true if the leaves are valid afterwards, false if they are invalid, and `None` if they stay as they are.
    pub const fn validity(self) -> Option<bool> {
        if (self.set | self.clear) & VALID == 0 { None } else { Some(self.set & VALID != 0) }
    }

    /// Returns true if it may make a leaf writable-clean: it sets AP\[2\] and leaves DBM as it is, or the other way round.
    #[inline(always)]
    pub(crate) const fn may_make_clean(self) -> bool {
        const READ_ONLY: u64 = Attributes::READ_ONLY.bits();
        const DBM: u64 = Attributes::DIRTY_MANAGED.bits();
        self.set & READ_ONLY != 0 && self.clear & DBM == 0
            || self.set & DBM != 0 && self.clear & READ_ONLY == 0
    }

    /// Returns the bits that are cleared, and those that are set, [`VALID`] among them.
    pub(crate) const fn bits(self) -> (u64, u64) {
        (self.clear, self.set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_change_wins() {
        let back = Change::READ_ONLY.and(Change::WRITABLE);
        assert_eq!(back.of(Attributes::KERNEL_RODATA), Attributes::KERNEL_DATA);
        let dirty = Attributes::KERNEL_RODATA | Attributes::DIRTY_MANAGED;
        assert!(!Change::READ_ONLY.of(dirty).is_writable());
    }

    #[test]
    fn only_permissions_change() {
        assert!(Change::new(Attributes::MEMORY_TYPE, Attributes::empty()).is_none());
        assert!(Change::new(Attributes::empty(), Attributes::NOT_GLOBAL).is_none());
        assert_eq!(Change::new(Attributes::NOT_GLOBAL, Attributes::empty()), Some(Change::NOT_GLOBAL));
        assert!(Change::new(Attributes::GUARDED, Attributes::USER).is_some());
    }

    #[test]
    fn bits_are_those_of_a_valid_descriptor() {
        let invalid = Change::from_bits(1 << 7, 1);
        assert_eq!(invalid, Ok(Change { set: 1 << 7, clear: 1 }));
        assert_eq!(Change::from_bits(1 << 7, 1 << 7 | 1 << 51), Ok(Change { set: 1 << 7, clear: 1 << 51 }));
        assert_eq!(Change::from_bits(1, 1), Ok(Change::VALID));
        assert_eq!([true, false].map(Change::of_validity), [Change::VALID, Change::INVALID]);
        assert_eq!(Change::INVALID.and(Change::VALID).validity(), Some(true));
        assert_eq!(Change::INVALID.and(Change::WRITABLE).validity(), Some(false));
        assert_eq!(Change::from_bits(NOT_GLOBAL, 0), Ok(Change::NOT_GLOBAL));
        // Bit 1, the memory type, shareability, AF, nG, addresses, contiguous.
        for bit in [1, 2, 8, 10, 11, 12, 47, 49, 52] {
            let set = Change::from_bits(1 << bit | 1, 0);
            assert_eq!(set.is_err(), bit != 11, "{set:?}");
            assert_eq!(Change::from_bits(0, 1 << bit), Err(FixedBits { bits: 1 << bit }));
        }
    }
}
