//! The rules for replacing one live descriptor by another (Arm ARM D8.17.1, D8.17.2).

use crate::format::attributes::Attributes;
use crate::format::descriptor::{Descriptor, Entry, Leaf};
use crate::format::geometry::{Geometry, Level};
use crate::format::table_limits::TableLimits;

/// The steps that are required to change a live descriptor into another (D8.17.1, D8.17.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// Nothing changes.
    Same,
    /// The old descriptor is invalid, so no TLB holds it: a store and a barrier.
    Fresh,
    /// In place, then TLBI: a change of permissions or software fields, or a leaf that becomes invalid.
    Tlbi,
    /// Only the size of the entry changes: in place where no CPU ever aborts, otherwise break-before-make. The caller
    /// ensures that a table translates as the block did.
    Resize,
    /// Break-before-make: an invalid entry and a TLBI come first.
    BreakBeforeMake,
}

impl Descriptor {
    /// Returns the steps that change this live descriptor at `level` into `new`.
    ///
    /// The caller ensures what one descriptor cannot show: all members of a contiguous run change together, and a table
    /// translates as the block that it replaces.
    pub fn transition(self, new: Self, geometry: Geometry, level: Level) -> Transition {
        if self == new {
            return Transition::Same;
        }
        if !self.is_valid() {
            return Transition::Fresh;
        }
        if !new.is_valid() {
            return Transition::Tlbi;
        }
        let limits = (TableLimits::of(self), TableLimits::of(new));
        match (self.decode(geometry, level), new.decode(geometry, level)) {
            (Entry::Reserved, _) => Transition::Fresh,
            (Entry::Leaf(old), Entry::Leaf(new)) => leaf_transition(old, new),
            (Entry::Leaf(_), Entry::Table(_)) | (Entry::Table(_), Entry::Leaf(_)) => Transition::Resize,
            // Restrictions do not change in use (D8.4.1.2).
            (Entry::Table(old), Entry::Table(new)) if old == new && limits.0 == limits.1 => Transition::Tlbi,
            _ => Transition::BreakBeforeMake,
        }
    }
}

/// Both leaves are valid and of the same level.
fn leaf_transition(old: Leaf, new: Leaf) -> Transition {
    let changed = old.attributes ^ new.attributes;
    let retyped = changed.intersects(Attributes::MEMORY_TYPE)
        && !(old.attributes.is_normal() && new.attributes.is_normal());
    let localised_to_global =
        changed.contains(Attributes::NOT_GLOBAL) && old.attributes.contains(Attributes::NOT_GLOBAL);
    // Another address space counts as another address (D8.17.1 IWZRHR).
    let moved = old.oa != new.oa || changed.intersects(Attributes::NON_SECURE);
    if moved || retyped || localised_to_global || changed.intersects(Attributes::INNER_SHAREABLE) {
        return Transition::BreakBeforeMake;
    }
    match (old.contiguous == new.contiguous, changed.is_empty()) {
        (true, _) => Transition::Tlbi,
        (false, true) => Transition::Resize,
        // Two changes at once cannot be one store. Make them one after the other.
        (false, false) => Transition::BreakBeforeMake,
    }
}
