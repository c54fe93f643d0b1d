//! Whether one live descriptor may become another in place (Arm ARM D8.17.1, D8.17.2).

use crate::format::attributes::{Attributes, MemoryType};
use crate::format::descriptor::{Descriptor, Entry, Leaf};
use crate::format::geometry::{Geometry, Level};

/// What it takes to change a live descriptor into another (D8.17.1, D8.17.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transition {
    /// Nothing changes.
    Same,
    /// The old one is not valid, so no TLB holds it: a store and a barrier.
    Fresh,
    /// In place, then TLBI: permissions, software fields, and becoming invalid.
    Tlbi,
    /// The entry's size changes and nothing else: in place where no CPU ever aborts, otherwise
    /// break-before-make. That a table translates as the block did is the caller's to ensure.
    Resize,
    /// Only by way of an invalid entry and a TLBI.
    BreakBeforeMake,
}

impl Descriptor {
    /// What it takes to change this live descriptor at `level` into `new`.
    ///
    /// The caller answers for what one descriptor can not show: that all members of a contiguous run
    /// change together, and that a table translates as the block that it replaces.
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
        match (self.decode(geometry, level), new.decode(geometry, level)) {
            (Entry::Reserved, _) => Transition::Fresh,
            (Entry::Leaf(old), Entry::Leaf(new)) => leaf_transition(old, new),
            (Entry::Leaf(_), Entry::Table(_)) | (Entry::Table(_), Entry::Leaf(_)) => Transition::Resize,
            (Entry::Table(old), Entry::Table(new)) if old == new => Transition::Tlbi,
            _ => Transition::BreakBeforeMake,
        }
    }
}

/// Both leaves are valid and of the same level.
fn leaf_transition(old: Leaf, new: Leaf) -> Transition {
    let changed = old.attributes ^ new.attributes;
    let normal = |a: Attributes| [MemoryType::NORMAL, MemoryType::NORMAL_TAGGED].contains(&a.memory_type());
    let retyped =
        changed.intersects(Attributes::MEMORY_TYPE) && !(normal(old.attributes) && normal(new.attributes));
    let localised_to_global =
        changed.contains(Attributes::NOT_GLOBAL) && old.attributes.contains(Attributes::NOT_GLOBAL);
    if old.oa != new.oa || retyped || localised_to_global || changed.intersects(Attributes::INNER_SHAREABLE) {
        return Transition::BreakBeforeMake;
    }
    match (old.contiguous == new.contiguous, changed.is_empty()) {
        (true, _) => Transition::Tlbi,
        (false, true) => Transition::Resize,
        // Two changes at once: as one store this is neither; make them one after the other.
        (false, false) => Transition::BreakBeforeMake,
    }
}
