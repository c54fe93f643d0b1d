//! Leaves of stage 2: what their descriptors say, and why a TLB may not hold two of them together.
//!
//! Bits 5:2 are the memory type itself, bits 7:6 permit to write and to read, bit 11 is FnXS and bits 54:53 are XN
//! (D8.3.1.2, table D8-53). An announced mapping has these bits where they are in the descriptor.

use linmap::{Attributes, Descriptor, Entry, Geometry, Leaf, Level};

use crate::space::Space;

/// The mark of a leaf of stage 2: the bit says that a descriptor is valid, and is no attribute.
const MARK: Attributes = Attributes::from_bits_retain(1);
/// MemAttr, bits 5:2.
const MEMORY_TYPE: Attributes = Attributes::from_bits_retain(0b1111 << 2);
/// The bit of MemAttr that no attribute of stage 1 has.
const OUTER: Attributes = Attributes::from_bits_retain(1 << 5);

/// Returns the meaning of a descriptor in a tree of this space.
pub(crate) fn decode(word: u64, g: Geometry, level: Level, space: Space) -> Entry {
    let entry = Descriptor(word).decode(g, level);
    match (space, entry) {
        (Space::Stage2(_), Entry::Leaf(leaf)) => {
            let more = MARK.bits() | word & OUTER.bits();
            Entry::Leaf(Leaf { attributes: leaf.attributes | Attributes::from_bits_retain(more), ..leaf })
        }
        _ => entry,
    }
}

/// Returns true for the attributes of a leaf of stage 2.
pub(crate) const fn is_of_stage_2(attributes: Attributes) -> bool {
    attributes.contains(MARK)
}

/// Returns the bits that an announced mapping need not have as a leaf has them. Of a tree that no CPU has loaded it is
/// not known whether it is of stage 2.
pub(crate) const fn unannounced(leaf: Attributes) -> Attributes {
    if is_of_stage_2(leaf) { MARK } else { OUTER }
}

/// Returns true if two leaves of stage 2 differ in their memory type.
pub(crate) const fn type_changes(changed: Attributes) -> bool {
    changed.intersects(MEMORY_TYPE)
}

/// Describes the permissions and the memory type of a leaf.
pub(crate) fn describe(attributes: Attributes) -> String {
    let may = |bit: u32, what: &'static str| if attributes.bits() >> bit & 1 == 1 { what } else { "" };
    let execute = if attributes.bits() >> 53 & 0b11 == 0 { ", executable" } else { "" };
    let memory = attributes.bits() >> 2 & 0b1111;
    format!("{}{}{execute}, memory {memory:#06b}, stage 2", may(6, "readable"), may(7, ", writable"))
}
