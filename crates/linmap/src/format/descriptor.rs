//! One 64-bit descriptor: encode and decode.
//!
//! Pure: no memory, no CPU. Formats are those of Arm ARM D8.3.1.
//!
//! A *present-invalid* leaf has its valid bit clear and keeps its size, attributes and output address, so that it can
//! be made valid again. The software-present bit distinguishes it from a hole. That bit has the position of nG, so nG
//! moves to bit 1. In a valid leaf, bit 1 tells pages from blocks, which the level tells as well. In the
//! present-invalid leaf of a global mapping bit 1 stays as it was; in that of a mapping that is not global it is
//! inverted.

use crate::format::address::Pa;
use crate::format::address_format::{attribute_mask, decode_oa, encode_oa};
use crate::format::attributes::Attributes;
use crate::format::geometry::{Geometry, Level, OaFormat};

/// Bit 0: the entry is valid.
pub(crate) const VALID: u64 = 1 << 0;
/// Bit 1: a table above the last level, a page at the last; clear in a block.
pub(crate) const TABLE_OR_PAGE: u64 = 1 << 1;
/// Bit 11 of an invalid descriptor: it is a present-invalid leaf. Hardware ignores the bit.
const SOFTWARE_PRESENT: u64 = 1 << 11;
const TAKEN_OUT: u64 = Attributes::TAKEN_OUT.bits();
/// Bit 52: the entry is a member of a contiguous run.
const CONTIGUOUS: u64 = 1 << 52;

/// A translation table descriptor as hardware sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Descriptor(pub u64);

/// A mapping: the content of a page descriptor, a block descriptor or a member of a contiguous run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leaf {
    /// The output address, aligned to the size of the entry.
    pub oa: Pa,
    /// Permissions, memory type and the other fields.
    pub attributes: Attributes,
    /// True for a member of a contiguous run.
    pub contiguous: bool,
    /// True if accesses translate. If false, they fault, and the leaf is present-invalid.
    pub valid: bool,
}

/// The meaning of a descriptor at a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing is mapped.
    Hole,
    /// The table of the next level is at this address.
    Table(Pa),
    /// A mapping, valid or present-invalid.
    Leaf(Leaf),
    /// A valid encoding that has no meaning at this level; an access faults.
    Reserved,
}

impl Descriptor {
    /// The bits that all formats use for an address.
    pub(crate) const ADDRESS: u64 = (1 << 50) - (1 << 12);
    /// The bits in which pages with the same attributes and validity may differ.
    pub(crate) const PAGE: u64 = Self::ADDRESS | CONTIGUOUS;

    /// The bit of a member of a contiguous run.
    pub(crate) const CONTIGUOUS: u64 = CONTIGUOUS;

    /// A hole: invalid, all bits zero.
    pub const HOLE: Self = Self(0);

    /// Returns the descriptor of a table at `table`, without hierarchical restrictions.
    ///
    /// Address bits below the page size and beyond the format are dropped.
    #[inline]
    pub const fn table(table: Pa, geometry: Geometry) -> Self {
        Self::link(Pa(table.0 & (u64::MAX << geometry.page_shift())), geometry)
    }

    /// Returns the descriptor of a table that was a frame, and is therefore page-aligned.
    #[inline]
    pub(crate) const fn link(table: Pa, geometry: Geometry) -> Self {
        Self(encode_oa(table, geometry.oa_format()) | TABLE_OR_PAGE | VALID)
    }

    /// Returns the descriptor of `leaf` at `level`.
    ///
    /// Address bits below the entry's size and beyond the format are dropped. With LPA2 shareability is dropped, too.
    /// At a level without leaves the result is a reserved encoding or a hole.
    #[inline(always)]
    pub const fn leaf(leaf: Leaf, geometry: Geometry, level: Level) -> Self {
        let format = geometry.oa_format();
        let oa = Pa(leaf.oa.0 & geometry.level_mask(level));
        let mut bits = encode_oa(oa, format) | (leaf.attributes.bits() & attribute_mask(format));
        if level.number() == Level::PAGE.number() {
            bits |= TABLE_OR_PAGE;
        }
        if leaf.contiguous {
            bits |= CONTIGUOUS;
        }
        if leaf.valid {
            return Self(bits | VALID);
        }
        Self(Self(bits).made_invalid().0 | bits & TAKEN_OUT)
    }

    /// Returns the descriptor of a valid block less its output address. It is the same for all addresses that differ only in
    /// bits that the format keeps in place.
    #[inline]
    pub(crate) const fn block_less_oa(oa: u64, attributes: Attributes, format: OaFormat) -> u64 {
        let bits = encode_oa(Pa(oa), format) | (attributes.bits() & attribute_mask(format)) | VALID;
        bits.wrapping_sub(oa)
    }

    /// Returns the descriptor of a leaf at `level`, given that of a block with its address and attributes.
    #[inline]
    pub(crate) const fn leaf_of_block(block: u64, level: Level, contiguous: bool) -> Self {
        let page = if level.number() == Level::PAGE.number() { TABLE_OR_PAGE } else { 0 };
        Self(block | page | if contiguous { CONTIGUOUS } else { 0 })
    }

    /// Returns true if the valid bit is set.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.0 & VALID != 0
    }

    /// Returns true for the descriptor of a table, at a level above the last.
    #[inline(always)]
    pub(crate) const fn is_link(self) -> bool {
        self.0 & (TABLE_OR_PAGE | VALID) == TABLE_OR_PAGE | VALID
    }

    /// Returns true if bit 1 is set. In a valid descriptor that means a table above the last level and a page at the
    /// last.
    #[inline(always)]
    pub(crate) const fn is_table_or_page(self) -> bool {
        self.0 & TABLE_OR_PAGE != 0
    }

    /// Returns true if the software-present bit is set. In an invalid descriptor that means a present-invalid leaf.
    #[inline(always)]
    pub(crate) const fn is_software_present(self) -> bool {
        self.0 & SOFTWARE_PRESENT != 0
    }

    /// Returns true for a table descriptor at `level`.
    #[inline]
    pub(crate) const fn is_table(self, level: Level) -> bool {
        self.is_link() && level.number() != Level::PAGE.number()
    }

    /// Returns the address of the table that a table descriptor points to.
    #[inline]
    pub(crate) const fn next_table(self, geometry: Geometry) -> Pa {
        match geometry.oa_format() {
            OaFormat::Bits48 => Pa(self.0 & ((1 << 48) - (1 << geometry.page_shift()))),
            _ => self.next_table_of_52_bits(geometry),
        }
    }

    /// A separate function, so that it costs nothing where addresses have 48 bits.
    #[cold]
    #[inline(never)]
    const fn next_table_of_52_bits(self, geometry: Geometry) -> Pa {
        decode_oa(self.0, geometry, geometry.page_shift())
    }

    /// Returns true for a leaf at `level`, valid or present-invalid.
    #[inline]
    pub(crate) const fn is_leaf(self, geometry: Geometry, level: Level) -> bool {
        self.is_leaf_from(geometry.first_leaf_level(), level)
    }

    /// Returns the same as [`is_leaf`](Self::is_leaf), for a geometry whose first level with leaves is known.
    #[inline(always)]
    pub(crate) const fn is_leaf_from(self, first: Level, level: Level) -> bool {
        let page = level.number() == Level::PAGE.number();
        let shape = if self.is_valid() {
            (self.0 & TABLE_OR_PAGE != 0) == page
        } else {
            self.0 & SOFTWARE_PRESENT != 0
        };
        shape && level.number() >= first.number()
    }

    /// Returns the output address of a leaf at `level`.
    pub(crate) const fn oa(self, geometry: Geometry, level: Level) -> Pa {
        decode_oa(self.0, geometry, geometry.level_shift(level))
    }

    /// Returns it without its address: leaves of one level that are the same so change in the same bits.
    #[inline(always)]
    pub(crate) const fn kind(self) -> Self {
        Self(self.0 & !Self::ADDRESS)
    }

    /// Returns true for a leaf in a contiguous run.
    #[inline]
    pub(crate) const fn is_contiguous(self) -> bool {
        self.0 & CONTIGUOUS != 0
    }

    /// Returns true for a leaf that nothing merges with others.
    #[inline]
    pub(crate) fn stays_split(self) -> bool {
        self.0 & Attributes::STAYS_SPLIT.bits() != 0
    }

    /// Returns this leaf without the contiguous bit.
    #[inline]
    pub(crate) const fn without_contiguous(self) -> Self {
        Self(self.0 & !CONTIGUOUS)
    }

    /// Returns this leaf with the contiguous bit.
    #[inline]
    pub(crate) const fn with_contiguous(self) -> Self {
        Self(self.0 | CONTIGUOUS)
    }

    /// Returns true if the memory that it maps can be both written and executed.
    #[inline]
    pub(crate) const fn is_write_execute(self) -> bool {
        self.is_valid() && Attributes::from_bits_retain(self.0).is_write_execute()
    }

    /// Returns the first of the leaves one level below that map the same as this block at `level`, as contiguous runs
    /// or not.
    pub(crate) const fn child(self, level: Level, contiguous: bool) -> Self {
        // In a present-invalid leaf the bit may be inverted, and stays so.
        let becomes_page = if level.number() + 1 == Level::PAGE.number() { TABLE_OR_PAGE } else { 0 };
        let bits = self.0 & !CONTIGUOUS ^ becomes_page;
        Self(if contiguous { bits | CONTIGUOUS } else { bits })
    }

    /// Returns the block one level above that maps the same as a table at `level` whose first leaf is this one.
    pub(crate) const fn parent(self, level: Level) -> Self {
        let was_page = if level.number() == Level::PAGE.number() { TABLE_OR_PAGE } else { 0 };
        Self(self.0 & !CONTIGUOUS ^ was_page)
    }

    /// Returns this leaf at `level`, made valid or present-invalid.
    #[inline]
    pub(crate) const fn with_validity(self, valid: bool, level: Level) -> Self {
        match (self.is_valid(), valid) {
            (true, false) => self.made_invalid(),
            (false, true) => self.made_valid(level),
            _ => self,
        }
    }

    /// Returns this leaf, valid or not, as a present-invalid one that a remake has taken out.
    #[inline]
    pub(crate) const fn taken_out(self) -> Self {
        let invalid = if self.is_valid() { self.made_invalid() } else { self };
        Self(invalid.0 | TAKEN_OUT)
    }

    /// Returns true for a leaf that a remake has taken out and not brought back.
    #[inline]
    pub(crate) const fn is_taken_out(self) -> bool {
        self.0 & (VALID | SOFTWARE_PRESENT | TAKEN_OUT) == SOFTWARE_PRESENT | TAKEN_OUT
    }

    /// Returns a valid leaf as a present-invalid one.
    const fn made_invalid(self) -> Self {
        let inverted = if self.0 & Attributes::NOT_GLOBAL.bits() == 0 { 0 } else { TABLE_OR_PAGE };
        Self((self.0 & !(VALID | TAKEN_OUT) | SOFTWARE_PRESENT) ^ inverted)
    }

    /// Returns a present-invalid leaf as a valid one.
    const fn made_valid(self, level: Level) -> Self {
        let page = level.number() == Level::PAGE.number();
        let bits = self.0 & !(TABLE_OR_PAGE | SOFTWARE_PRESENT | TAKEN_OUT) | VALID;
        let type_bit = if page { TABLE_OR_PAGE } else { 0 };
        let not_global = if self.is_table_or_page() == page { 0 } else { Attributes::NOT_GLOBAL.bits() };
        Self(bits | type_bit | not_global)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Transition;
    use crate::format::geometry::Granule;
    use crate::tests::geometries;
    use test_support::prelude::*;
    extern crate std;

    fn levels(g: Geometry) -> impl Iterator<Item = Level> {
        (g.root().number()..=3).map(Level::new)
    }

    fn any_attributes() -> impl Strategy<Value = Attributes> {
        any::<u64>().prop_map(Attributes::from_bits_truncate)
    }

    proptest! {
        /// Every leaf decodes to itself, at every level of every geometry that can express it.
        #[test]
        fn leaves_come_back(oa: u64, a in any_attributes(), contiguous: bool, valid: bool) {
            for g in geometries() {
                for level in levels(g).filter(|&l| g.may_be_leaf(l)) {
                    let oa = oa & ((1 << g.oa_bits()) - 1) & !(g.level_size(level) - 1);
                    let mut attributes = a;
                    if g.oa_format() == OaFormat::Lpa2 { attributes.remove(Attributes::INNER_SHAREABLE) }
                    let leaf = Leaf { oa: Pa(oa), attributes, contiguous, valid };
                    let d = Descriptor::leaf(leaf, g, level);
                    prop_assert_eq!(d.decode(g, level), Entry::Leaf(leaf));
                    prop_assert_eq!(d.is_valid(), valid);
                }
            }
        }

        /// A leaf that becomes invalid, is split, is collapsed and becomes valid again is the leaf it was.
        #[test]
        fn invalid_leaves_keep_what_they_say(oa: u64, a in any_attributes(), contiguous: bool) {
            let a = a - Attributes::TAKEN_OUT;
            for g in geometries() {
                for level in levels(g).filter(|&l| g.may_be_leaf(l)) {
                    let leaf = Leaf { oa: Pa(oa), attributes: a, contiguous, valid: true };
                    let valid = Descriptor::leaf(leaf, g, level);
                    let invalid = valid.with_validity(false, level);
                    prop_assert_eq!(invalid.with_validity(false, level), invalid);
                    prop_assert_eq!(invalid.with_validity(true, level), valid);
                    prop_assert_eq!(valid.with_validity(true, level), valid);
                    let Entry::Leaf(said) = valid.decode(g, level) else { panic!("{valid:x?}") };
                    prop_assert_eq!(invalid.decode(g, level), Entry::Leaf(Leaf { valid: false, ..said }));
                    prop_assert!(!invalid.is_table(level) && !invalid.is_link());
                    prop_assert_eq!(valid.transition(invalid, g, level), Transition::Tlbi);
                    prop_assert_eq!(invalid.transition(valid, g, level), Transition::Fresh);
                    let out = valid.taken_out();
                    prop_assert_eq!(invalid.taken_out(), out);
                    prop_assert!(out.is_taken_out() && !invalid.is_taken_out() && !valid.is_taken_out());
                    prop_assert_eq!(out.with_validity(true, level), valid);
                    if level == Level::PAGE { continue }
                    let below = invalid.child(level, contiguous);
                    prop_assert_eq!(below.with_validity(true, level.next()), valid.child(level, contiguous));
                    prop_assert_eq!(below.parent(level.next()), invalid.without_contiguous());
                }
            }
        }

        #[test]
        fn tables_come_back(pa: u64) {
            for g in geometries() {
                let pa = Pa(pa & ((1 << g.oa_bits()) - 1) & !(g.page_size() - 1));
                for level in levels(g).filter(|&l| l != Level::PAGE) {
                    prop_assert_eq!(Descriptor::table(pa, g).decode(g, level), Entry::Table(pa));
                }
            }
        }

        /// Any value decodes, and leaves and tables have addresses within the format.
        #[test]
        fn every_value_has_a_meaning(bits: u64) {
            for g in geometries() {
                for level in levels(g) {
                    match Descriptor(bits).decode(g, level) {
                        Entry::Leaf(l) => prop_assert!(l.oa.0 < 1 << g.oa_bits() && g.may_be_leaf(level)),
                        Entry::Table(t) => prop_assert!(t.0 < 1 << g.oa_bits() && level != Level::PAGE),
                        Entry::Hole => prop_assert!(bits & 1 == 0),
                        Entry::Reserved => prop_assert!(bits & 1 == 1),
                    }
                }
            }
        }
    }

    #[test]
    fn known_descriptors() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let ram = Leaf { oa: Pa(0x4000_0000), attributes: Attributes::RAM, contiguous: false, valid: true };
        // UXN, PXN, AF, inner shareable, AttrIndx 1, block; then the same as a page and as a run member.
        assert_eq!(Descriptor::leaf(ram, g, Level::new(1)).0, 0x0060_0000_4000_0705);
        assert_eq!(Descriptor::leaf(ram, g, Level::PAGE).0, 0x0060_0000_4000_0707);
        let run = Leaf { contiguous: true, ..ram };
        assert_eq!(Descriptor::leaf(run, g, Level::new(2)).0, 0x0070_0000_4000_0705);
        let kept = Leaf { valid: false, ..ram };
        assert_eq!(Descriptor::leaf(kept, g, Level::PAGE).0, 0x0060_0000_4000_0f06);
        assert_eq!(Descriptor::leaf(kept, g, Level::new(1)).0, 0x0060_0000_4000_0f04);
        // Bit 1 is inverted if the mapping is not global: a page, a block.
        let local = Leaf { attributes: Attributes::RAM | Attributes::NOT_GLOBAL, ..kept };
        assert_eq!(Descriptor::leaf(local, g, Level::PAGE).0, 0x0060_0000_4000_0f04);
        assert_eq!(Descriptor::leaf(local, g, Level::new(1)).0, 0x0060_0000_4000_0f06);
    }

    #[test]
    fn high_addresses_move_to_where_the_format_has_them() {
        let lpa = Geometry::new(Granule::K64, 48, OaFormat::Lpa).unwrap();
        assert_eq!(Descriptor::table(Pa(0xa_0000_0001_0000), lpa).0, 0x1_a003);
        let lpa2 = Geometry::new(Granule::K4, 48, OaFormat::Lpa2).unwrap();
        assert_eq!(Descriptor::table(Pa(0xd_0000_0000_1000), lpa2).0, 0x0001_0000_0000_1303);
    }

    /// The rows of the break-before-make table.
    #[test]
    fn transitions() {
        use Attributes as A;
        use Transition::*;
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
        let at = Level::new(2);
        let ram = Leaf { oa: Pa(0x4000_0000), attributes: A::RAM, contiguous: false, valid: true };
        let with = |attributes| Leaf { attributes, ..ram };
        let d = |leaf| Descriptor::leaf(leaf, g, at);
        let table = Descriptor::table(Pa(0x5000), g);
        let local = A::RAM | A::NOT_GLOBAL;
        let rows = [
            (d(ram), d(ram), Same),
            (Descriptor::HOLE, d(ram), Fresh),
            (d(Leaf { valid: false, ..ram }), d(ram), Fresh),
            (d(ram), Descriptor::HOLE, Tlbi),
            (d(ram), d(Leaf { valid: false, ..ram }), Tlbi),
            (d(ram), d(with(A::RAM | A::READ_ONLY)), Tlbi),
            (d(ram), d(with(A::RAM - A::PXN)), Tlbi),
            (d(ram), d(with(A::KERNEL_DATA)), Tlbi),
            (d(ram), d(with(local)), Tlbi),
            (d(with(local)), d(ram), BreakBeforeMake),
            (d(ram), d(with(A::DEVICE)), BreakBeforeMake),
            (d(ram), d(with(A::RAM - A::INNER_SHAREABLE)), BreakBeforeMake),
            (d(ram), d(Leaf { oa: Pa(0x4020_0000), ..ram }), BreakBeforeMake),
            (d(ram), d(Leaf { contiguous: true, ..ram }), Resize),
            (d(ram), d(Leaf { contiguous: true, ..with(A::RAM | A::READ_ONLY) }), BreakBeforeMake),
            (d(ram), table, Resize),
            (table, d(ram), Resize),
            (table, Descriptor(table.0 | 1 << 10), Tlbi),
            (table, Descriptor(table.0 | 1 << 59), BreakBeforeMake),
            (Descriptor(table.0 | 1 << 62), table, BreakBeforeMake),
            (table, Descriptor::table(Pa(0x6000), g), BreakBeforeMake),
            (table, Descriptor::HOLE, Tlbi),
        ];
        for (old, new, expected) in rows {
            assert_eq!(old.transition(new, g, at), expected, "{old:x?} -> {new:x?}");
        }
    }
}
