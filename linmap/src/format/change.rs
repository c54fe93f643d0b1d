//! A change of permissions, as a value.

use crate::format::attributes::Attributes;

/// A change of the permissions of a range: bits that are set, and bits that are cleared. All others stay.
///
/// ```
/// use linmap::{Attributes, Change};
///
/// let code = Change::READ_ONLY.and(Change::EXECUTABLE);
/// assert_eq!(code.of(Attributes::KERNEL_DATA), Attributes::KERNEL_TEXT);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    set: Attributes,
    clear: Attributes,
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

impl Change {
    /// Not writable, even by hardware management of the dirty state.
    pub const READ_ONLY: Self = Self { set: Attributes::READ_ONLY, clear: Attributes::DIRTY_MANAGED };
    /// Writable.
    pub const WRITABLE: Self = Self { set: Attributes::empty(), clear: Attributes::READ_ONLY };
    /// Executable at EL1.
    pub const EXECUTABLE: Self = Self { set: Attributes::empty(), clear: Attributes::PXN };
    /// Not executable anywhere.
    pub const NOT_EXECUTABLE: Self =
        Self { set: Attributes::PXN.union(Attributes::UXN), clear: Attributes::empty() };

    /// Returns the change that sets and clears these permissions and software bits. Returns `None` if other attributes
    /// are among them: those cannot change while an entry is in use.
    pub const fn new(set: Attributes, clear: Attributes) -> Option<Self> {
        if PERMISSIONS.contains(set.union(clear)) { Some(Self { set, clear }) } else { None }
    }

    /// Returns both changes as one. Where they conflict, `next` wins.
    #[must_use]
    pub const fn and(self, next: Self) -> Self {
        Self {
            set: self.set.difference(next.clear).union(next.set),
            clear: self.clear.difference(next.set).union(next.clear),
        }
    }

    /// Returns the attributes after the change.
    #[must_use]
    pub const fn of(self, attributes: Attributes) -> Attributes {
        attributes.difference(self.clear).union(self.set)
    }

    /// Returns the descriptor bits that are cleared, and those that are set.
    pub(crate) fn bits(self) -> (u64, u64) {
        (self.clear.bits(), self.set.bits())
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
        assert!(Change::new(Attributes::GUARDED, Attributes::USER).is_some());
    }
}
