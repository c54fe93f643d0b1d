//! Facts about physical pages, besides their places in trees: those that were given away, those that are mapped as
//! other than write-back memory, and what operations promised about the pages of a range.

use std::collections::{BTreeMap, HashMap};

use crate::flat::Flat;
use crate::{Expected, Mapping};

/// All of it.
#[derive(Default)]
pub(crate) struct Physical {
    /// Pages that were given to another owner.
    pub(crate) given: Ranges,
    /// Pages that were announced with a memory type other than write-back, or a shareability other than inner.
    pub(crate) typed: Ranges,
    /// Ranges whose pages no other address may make writable.
    pub(crate) nowhere_writable: Promises,
    /// Ranges whose users handle spurious faults.
    pub(crate) spurious_faults: Promises,
    /// Ranges whose invalidations were left for later.
    pub(crate) left: Promises,
}

impl Physical {
    /// Returns true if nothing is known that a new mapping could contradict.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.0.is_empty() && self.typed.0.is_empty() && self.nowhere_writable.0.is_empty()
    }
}

/// Ranges that do not overlap, by their first address: the last address, and the event that added it.
#[derive(Default)]
pub(crate) struct Ranges(BTreeMap<u64, (u64, usize)>);

impl Ranges {
    /// Returns the first range that has an address from `first` to `last`, clipped to these, and the event that added it.
    pub(crate) fn first_in(&self, first: u64, last: u64) -> Option<((u64, u64), usize)> {
        let before = self.0.range(..=first).next_back().filter(|(_, r)| r.0 >= first);
        let (&from, &(to, since)) = before.or_else(|| self.0.range(first..=last).next())?;
        Some(((from.max(first), to.min(last)), since))
    }

    /// Returns all ranges that have addresses from `first` to `last`, clipped to these.
    pub(crate) fn within(&self, (first, last): (u64, u64)) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut next = Some(first);
        std::iter::from_fn(move || {
            let (found, _) = self.first_in(next.filter(|&first| first <= last)?, last)?;
            next = found.1.checked_add(1);
            Some(found)
        })
    }

    /// Returns true if all addresses from `first` to `last` are in a range.
    pub(crate) fn has_all(&self, mut first: u64, last: u64) -> bool {
        while let Some(((from, to), _)) = self.first_in(first, last) {
            if from != first {
                return false;
            }
            if to == last {
                return true;
            }
            first = to + 1;
        }
        false
    }

    /// Adds a range, in the place of what was there.
    pub(crate) fn add(&mut self, first: u64, last: u64, now: usize) {
        self.remove(first, last);
        self.0.insert(first, (last, now));
    }

    /// Removes the addresses of a range.
    pub(crate) fn remove(&mut self, first: u64, last: u64) {
        while let Some(((from, _), since)) = self.first_in(first, last) {
            let Some((&start, &(end, _))) = self.0.range(..=from).next_back() else { return };
            self.0.remove(&start);
            if start < first {
                self.0.insert(start, (first - 1, since));
            }
            if end > last {
                self.0.insert(last + 1, (end, since));
            }
        }
    }
}

/// The promises of operations about ranges of addresses, by the roots of their trees.
#[derive(Default)]
pub(crate) struct Promises(HashMap<u64, Flat>);

impl Promises {
    /// Notes the changes of an operation on a tree: those that promise it, and those that lift it.
    pub(crate) fn note(&mut self, root: u64, changes: &[Expected], promises: impl Fn(&Expected) -> bool) {
        if !self.0.contains_key(&root) && !changes.iter().any(&promises) {
            return;
        }
        let flat = self.0.entry(root).or_default();
        for change in changes {
            flat.apply(&Expected { to: change.to.filter(|_| promises(change)), ..*change });
        }
        if flat.is_empty() {
            self.0.remove(&root);
        }
    }

    /// Returns the last address up to which it was promised, if it was for this one.
    pub(crate) fn until(&self, root: u64, va: u64) -> Option<u64> {
        let (promised, end) = self.0.get(&root)?.at(va);
        promised.map(|_| end)
    }

    /// Returns the ranges of all trees for whose physical pages it was promised, of those from `first` to `last`.
    pub(crate) fn leading_to(&self, pages: (u64, u64)) -> Vec<(u64, (u64, u64), Mapping)> {
        let all = self
            .0
            .iter()
            .flat_map(|(&root, flat)| flat.leading_to(pages).map(move |(va, to)| (root, va, to)));
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(|promise| (promise.0, promise.1));
        all
    }

    /// Notes that a tree has taken the place of another.
    pub(crate) fn succeed(&mut self, old: u64, new: u64) {
        if let Some(flat) = self.0.remove(&old) {
            self.0.insert(new, flat);
        }
    }

    pub(crate) fn forget(&mut self, root: u64) {
        self.0.remove(&root);
    }
}
