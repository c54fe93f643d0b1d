//! Hierarchical restrictions: the permissions that a table descriptor removes from everything below it (Arm ARM
//! D8.4.1.2).

use crate::format::attributes::Attributes;
use crate::format::descriptor::{Descriptor, TABLE_OR_PAGE, VALID};

bitflags::bitflags! {
    /// The hierarchical restrictions in a table descriptor, in their positions there. The library never sets one.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TableLimits: u64 {
        /// PXNTable: EL1 may not execute.
        const PXN = 1 << 59;
        /// UXNTable: EL0 may not execute.
        const UXN = 1 << 60;
        /// APTable\[0\]: EL0 may not access.
        const NO_EL0 = 1 << 61;
        /// APTable\[1\]: not writable.
        const READ_ONLY = 1 << 62;
        /// NSTable: Secure state goes to the Non-secure address space.
        const NON_SECURE = 1 << 63;
    }
}

impl TableLimits {
    /// Returns the restrictions in a table descriptor.
    #[inline]
    pub const fn of(table: Descriptor) -> Self {
        Self::from_bits_truncate(table.0)
    }

    /// Returns the permissions of a leaf below tables with these restrictions (table D8-64).
    ///
    /// ```
    /// use linmap::{Attributes, TableLimits};
    ///
    /// assert!(Attributes::RAM.is_writable());
    /// assert!(!TableLimits::READ_ONLY.restrict(Attributes::RAM).is_writable());
    /// ```
    pub const fn restrict(self, attributes: Attributes) -> Attributes {
        let mut a = attributes;
        if self.contains(Self::PXN) {
            a = a.union(Attributes::PXN);
        }
        if self.contains(Self::UXN) {
            a = a.union(Attributes::UXN);
        }
        if self.contains(Self::NO_EL0) {
            a = a.difference(Attributes::USER);
        }
        if self.contains(Self::READ_ONLY) {
            a = a.union(Attributes::READ_ONLY).difference(Attributes::DIRTY_MANAGED);
        }
        a
    }
}

impl Descriptor {
    /// Returns true for a table descriptor above the last level that restricts nothing.
    #[inline]
    pub(crate) const fn is_plain_table(self) -> bool {
        self.0 & (TableLimits::all().bits() | TABLE_OR_PAGE | VALID) == TABLE_OR_PAGE | VALID
    }
}
