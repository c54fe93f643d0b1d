//! Decodes the entries of a table. The values that are common to all entries are computed once.

use crate::format::address::Pa;
use crate::format::address_format::{attribute_mask, high_field, in_place};
use crate::format::attributes::Attributes;
use crate::format::descriptor::{Descriptor, Entry, Leaf};
use crate::format::geometry::{Geometry, Level};

/// The meaning of descriptors at one level of a geometry.
#[derive(Clone, Copy)]
pub(crate) struct Decoder {
    /// True at the last level, where the encoding of a table descriptor is that of a page.
    last: bool,
    /// True if there are leaves at this level.
    leaves: bool,
    /// The bits that hold the address of a table, and of a leaf, as far as they are in place.
    table: u64,
    leaf: u64,
    /// The address bits that the format moves: the lowest of them, the descriptor bit that holds it, and the mask.
    high: Option<(u32, u32, u64)>,
    attributes: u64,
}

impl Decoder {
    #[inline(always)]
    pub(crate) const fn new(geometry: Geometry, level: Level) -> Self {
        let format = geometry.oa_format();
        Self {
            last: level.number() == Level::PAGE.number(),
            leaves: geometry.may_be_leaf(level),
            table: in_place(format) & (u64::MAX << geometry.page_shift()),
            leaf: in_place(format) & geometry.level_mask(level),
            high: high_field(format),
            attributes: attribute_mask(format),
        }
    }

    /// Returns the meaning of a descriptor. Every value has one.
    #[inline(always)]
    pub(crate) const fn entry(&self, descriptor: Descriptor) -> Entry {
        let high = descriptor.is_table_or_page();
        match (descriptor.is_valid(), high) {
            (true, true) if !self.last => Entry::Table(self.oa(descriptor, self.table)),
            (true, _) if high == self.last && self.leaves => Entry::Leaf(self.valid_leaf(descriptor)),
            (true, _) => Entry::Reserved,
            (false, _) if descriptor.is_software_present() && self.leaves => {
                let leaf = self.valid_leaf(descriptor);
                // In an invalid descriptor, the bit of nG marks a present-invalid leaf. Bit 1 says whether it is
                // global.
                let global = if high == self.last { Attributes::NOT_GLOBAL } else { Attributes::empty() };
                let attributes = leaf.attributes.difference(global);
                Entry::Leaf(Leaf { attributes, valid: false, ..leaf })
            }
            (false, _) => Entry::Hole,
        }
    }

    #[inline(always)]
    const fn valid_leaf(&self, descriptor: Descriptor) -> Leaf {
        Leaf {
            oa: self.oa(descriptor, self.leaf),
            attributes: Attributes::from_bits_retain(descriptor.0 & self.attributes),
            contiguous: descriptor.is_contiguous(),
            valid: true,
        }
    }

    #[inline(always)]
    const fn oa(&self, descriptor: Descriptor, mask: u64) -> Pa {
        let low = descriptor.0 & mask;
        Pa(match self.high {
            Some((to, from, mask)) => low | ((descriptor.0 >> from) & mask) << to,
            None => low,
        })
    }
}

impl Descriptor {
    /// Returns the meaning at `level`. Every value has one.
    #[inline]
    pub const fn decode(self, geometry: Geometry, level: Level) -> Entry {
        Decoder::new(geometry, level).entry(self)
    }
}
