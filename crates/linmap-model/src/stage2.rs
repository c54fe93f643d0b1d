//! Leaves of stage 2: what their descriptors say, and why a TLB may not hold two of them together.
//!
//! Bits 5:2 are the memory type itself, bits 7:6 permit to write and to read, bit 11 is FnXS and bits 54:53 are XN
//! (D8.3.1.2, table D8-53). An announced mapping has these bits where they are in the descriptor.

use linmap::arch::{Descriptor, Entry, Leaf};
use linmap::{Attributes, Geometry};

use crate::Mapping;
use crate::place::Place;
use crate::space::Space;

/// The mark of a leaf of stage 2: the bit says that a descriptor is valid, and is no attribute.
const MARK: Attributes = Attributes::from_bits_retain(1);
/// MemAttr, bits 5:2.
const MEMORY_TYPE: Attributes = Attributes::from_bits_retain(0b1111 << 2);
/// The bit of MemAttr that no attribute of stage 1 has.
const OUTER: Attributes = Attributes::from_bits_retain(1 << 5);

/// S2AP: bit 6 permits to read, and bit 7 to write (D8.4 RHBFHL). At stage 1 bit 7 forbids to write.
const S2AP: Attributes = Attributes::from_bits_retain(0b11 << 6);
/// XN, bits 54:53: none but 0 permits all code.
const XN: Attributes = Attributes::from_bits_retain(0b11 << 53);

/// Returns the meaning of a descriptor in a table, with the permissions that the descriptors of tables leave it.
pub(crate) fn decode(word: u64, g: Geometry, place: Place) -> Entry {
    let entry = Descriptor(word).decode(g, place.level);
    match (place.space, entry) {
        (Space::Stage2(_), Entry::Leaf(leaf)) => {
            let more = MARK.bits() | word & OUTER.bits();
            Entry::Leaf(Leaf { attributes: leaf.attributes | Attributes::from_bits_retain(more), ..leaf })
        }
        (_, Entry::Leaf(leaf)) => {
            Entry::Leaf(Leaf { attributes: place.limits.restrict(leaf.attributes), ..leaf })
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

/// Returns the mapping with the mark of stage 2 if a leaf has it: an announcement does not name its stage.
pub(crate) fn marked_as(mapping: Option<Mapping>, leaf: Attributes) -> Option<Mapping> {
    let mark = (leaf & MARK).bits();
    mapping.map(|m| Mapping { attributes: m.attributes | mark, ..m })
}

/// Returns true if a leaf of either stage permits to write.
pub(crate) const fn is_writable(leaf: Attributes) -> bool {
    if is_of_stage_2(leaf) { leaf.bits() >> 7 & 1 == 1 } else { leaf.is_writable() }
}

/// Returns true if an old leaf of stage 2 differs from a new one in permissions alone, and permits no more.
pub(crate) fn is_stricter(old: Attributes, new: Attributes, ignored: Attributes) -> bool {
    let ignored = ignored | MARK;
    old - ignored - S2AP - XN == new - ignored - S2AP - XN
        && new.contains(old & S2AP)
        && (!new.intersects(XN) || old & XN == new & XN)
}

/// Returns true if two leaves of stage 2 differ in their memory type.
pub(crate) const fn type_changes(changed: Attributes) -> bool {
    changed.intersects(MEMORY_TYPE)
}

/// Describes the permissions and the memory type of a leaf.
pub(crate) fn describe(attributes: Attributes) -> String {
    let may = |bit: u32, what: &'static str| if attributes.bits() >> bit & 1 == 1 { what } else { "" };
    let execute = if attributes.bits() >> 53u32 & 0b11 == 0 { ", executable" } else { "" };
    let memory = attributes.bits() >> 2u32 & 0b1111;
    format!("{}{}{execute}, memory {memory:#06b}, stage 2", may(6, "readable"), may(7, ", writable"))
}
