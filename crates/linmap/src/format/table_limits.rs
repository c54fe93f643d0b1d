//! Hierarchical restrictions: the permissions that a table descriptor removes from everything below it (Arm ARM
//! D8.4.1.2).

use crate::format::attributes::Attributes;
use crate::format::descriptor::Descriptor;

bitflags::bitflags! {
    /// The hierarchical restrictions in a table descriptor, in their positions there.
    ///
    /// Hardware ignores those of permissions where TCR_EL1.HPD1 (or HPD0) is set, and with indirect permissions or
    /// permission overlays (D8.4.1.3 RJHSVW, D8.4.1.4 RBVXDG). No operation on live tables depends on whether it does.
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
    /// use linmap::arch::TableLimits;
    /// use linmap::Attributes;
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

impl TableLimits {
    /// Returns those of these restrictions that remove nothing from a leaf with these attributes.
    ///
    /// ```
    /// use linmap::arch::TableLimits;
    /// use linmap::Attributes;
    ///
    /// let limits = TableLimits::PXN | TableLimits::UXN;
    /// assert_eq!(limits.within(Attributes::RAM), limits);
    /// assert_eq!(limits.within(Attributes::KERNEL_TEXT), TableLimits::UXN);
    /// ```
    #[must_use]
    pub const fn within(self, attributes: Attributes) -> Self {
        // That the leaf has NS and is not global would have to be true as well (D8.4.6.1).
        let mut removing = Self::NON_SECURE;
        if !attributes.contains(Attributes::PXN) {
            removing = removing.union(Self::PXN);
        }
        if !attributes.contains(Attributes::UXN) {
            removing = removing.union(Self::UXN);
        }
        if attributes.contains(Attributes::USER) {
            removing = removing.union(Self::NO_EL0);
        }
        if attributes.is_writable() {
            removing = removing.union(Self::READ_ONLY);
        }
        self.difference(removing)
    }
}

bitflags::bitflags! {
    /// The bits that the descriptors of new tables have, besides the address
    /// ([`Tables::set_table_attributes`](crate::Tables::set_table_attributes)).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct TableAttributes: u64 {
        /// AF of the table, so that walkers need not set it where TCR2_EL1.HAFT is on (D8.5.1.3). Elsewhere hardware
        /// ignores it.
        const ACCESSED = 1 << 10;
        /// [`TableLimits::PXN`].
        const PXN = TableLimits::PXN.bits();
        /// [`TableLimits::UXN`].
        const UXN = TableLimits::UXN.bits();
        /// [`TableLimits::NO_EL0`].
        const NO_EL0 = TableLimits::NO_EL0.bits();
        /// [`TableLimits::READ_ONLY`].
        const READ_ONLY = TableLimits::READ_ONLY.bits();
    }
}

impl TableAttributes {
    /// Returns the restrictions among them.
    pub const fn limits(self) -> TableLimits {
        TableLimits::from_bits_truncate(self.bits())
    }

    /// Returns these attributes without the restrictions that would remove something from a leaf.
    #[must_use]
    pub const fn within(self, leaf: Attributes) -> Self {
        let removing = self.limits().difference(self.limits().within(leaf));
        Self::from_bits_retain(self.bits() & !removing.bits())
    }
}

impl Descriptor {
    /// The bits of a table descriptor that are neither address nor type in any format: the restrictions, AF, and what
    /// hardware ignores.
    const TABLE_ATTRIBUTES: u64 = u64::MAX << 50 | 0b1100_1111_1100;

    /// Returns this table descriptor with attributes in addition.
    #[inline(always)]
    pub(crate) const fn with(self, attributes: TableAttributes) -> Self {
        Self(self.0 | attributes.bits())
    }

    /// Returns this table descriptor with the attributes of another one.
    #[inline]
    pub(crate) const fn with_attributes_of(self, other: Self) -> Self {
        Self(self.0 & !Self::TABLE_ATTRIBUTES | other.0 & Self::TABLE_ATTRIBUTES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    proptest! {
        /// Restrictions that are within attributes are all that have no effect on them.
        #[test]
        fn restrictions_within_a_leaf_have_no_effect(limits: u64, attributes: u64) {
            let limits = TableLimits::from_bits_truncate(limits);
            let attributes = Attributes::from_bits_truncate(attributes);
            let within = limits.within(attributes);
            for limit in (limits - TableLimits::NON_SECURE).iter() {
                prop_assert_eq!(within.contains(limit), limit.restrict(attributes) == attributes);
            }
            prop_assert!(limits.contains(within) && !within.contains(TableLimits::NON_SECURE));
            prop_assert_eq!(within.restrict(attributes), attributes);
            let all = TableAttributes::from_bits_truncate(limits.bits()) | TableAttributes::ACCESSED;
            prop_assert_eq!(all.within(attributes).limits(), within);
            prop_assert!(all.within(attributes).contains(TableAttributes::ACCESSED));
        }
    }
}
