//! The translation of one address, as far as a litmus test has it: one entry, its page, its validity, its permission to
//! write.

use linmap::arch::{Descriptor, Entry};
use linmap::{Attributes, Geometry};

use super::error::Why;
use super::tables::Found;

/// The translation of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Translation {
    /// Nothing: an access faults.
    Nothing,
    /// A page.
    Page(Page),
}

/// The page that an address translates to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub(super) pa: u64,
    pub(super) writable: bool,
    /// All other attributes.
    other: u64,
    pub(super) global: bool,
}

impl Translation {
    /// The translation of an address by the slot where its walk ends, if there is one.
    pub(super) fn of(found: Option<Found>, va: u64, g: Geometry) -> Self {
        let Some(found) = found else { return Self::Nothing };
        match Descriptor(found.word).decode(g, found.level) {
            Entry::Leaf(leaf) if leaf.valid => Self::Page(Page {
                pa: leaf.oa.0.wrapping_add(va - found.va),
                writable: leaf.attributes.is_writable(),
                other: leaf.attributes.difference(Attributes::READ_ONLY).bits(),
                global: !leaf.attributes.contains(Attributes::NOT_GLOBAL),
            }),
            _ => Self::Nothing,
        }
    }

    /// Fails if the step from one to the other is one of attributes that a litmus test has not.
    pub(super) fn expressible(self, next: Self, va: u64) -> Result<(), Why> {
        match (self, next) {
            (Self::Page(a), Self::Page(b)) if a.other != b.other => Err(Why::Attributes { va }),
            _ => Ok(()),
        }
    }
}
