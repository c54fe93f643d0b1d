//! The ranges that are pinned, of all trees.

use std::collections::HashMap;

use crate::physical::Ranges;

/// Pinned ranges, by the roots of their trees.
#[derive(Default)]
pub(crate) struct Pins(HashMap<u64, Pinned>);

/// The pinned ranges of a tree.
#[derive(Default)]
pub(crate) struct Pinned {
    /// First and last address of each, and the event that pinned it.
    pub(crate) ranges: Vec<(u64, u64, usize)>,
    /// The sizes of leaves that were made holes, by their addresses. While the addresses are in use the leaves that
    /// come there are no larger.
    pub(crate) broken: Ranges,
}

impl Pins {
    pub(crate) fn of(&self, root: u64) -> Option<&Pinned> {
        self.0.get(&root)
    }

    pub(crate) fn of_mut(&mut self, root: u64) -> &mut Pinned {
        self.0.entry(root).or_default()
    }

    /// Lifts a pin of exactly these addresses. Returns false if there is none.
    pub(crate) fn unpin(&mut self, root: u64, (first, last): (u64, u64)) -> bool {
        let Some(pinned) = self.0.get_mut(&root) else { return false };
        let Some(at) = pinned.ranges.iter().position(|r| (r.0, r.1) == (first, last)) else { return false };
        pinned.ranges.swap_remove(at);
        if pinned.ranges.is_empty() {
            self.forget(root);
        }
        true
    }

    /// Notes that a tree has taken the place of another.
    pub(crate) fn succeed(&mut self, old: u64, new: u64) {
        if let Some(pinned) = self.0.remove(&old) {
            self.0.insert(new, pinned);
        }
    }

    pub(crate) fn forget(&mut self, root: u64) {
        self.0.remove(&root);
    }
}
