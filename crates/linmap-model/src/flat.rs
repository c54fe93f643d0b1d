//! The translation that each page must have: a flat map, without tables.

use std::collections::BTreeMap;

use crate::{Expected, Mapping};

/// Ranges by their first address: the last address, and the mapping of the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat(BTreeMap<u64, (u64, Mapping)>);

impl Flat {
    /// Returns the mapping of an address, and the last address up to which it continues.
    pub(crate) fn at(&self, va: u64) -> (Option<Mapping>, u64) {
        if let Some((&first, &(last, to))) = self.0.range(..=va).next_back()
            && va <= last
        {
            return (Some(to.at(va - first)), last);
        }
        let next = self.0.range(va..).next().map_or(u64::MAX, |(&first, _)| first - 1);
        (None, next)
    }

    /// Returns the first address that is mapped.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.keys().next().copied()
    }

    /// Returns the addresses that are mapped to physical memory from `first` to `last`: the first and last of each range,
    /// and the mapping of the first.
    pub(crate) fn leading_to(
        &self,
        (first, last): (u64, u64),
    ) -> impl Iterator<Item = ((u64, u64), Mapping)> {
        self.0.iter().filter_map(move |(&va, &(end, to))| {
            let part = within((va, end), to.pa, (first, last))?;
            Some((part, to.at(part.0 - va)))
        })
    }

    /// Returns true if nothing is mapped.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Makes a change.
    pub(crate) fn apply(&mut self, change: &Expected) {
        let (first, last) = (change.va, change.last());
        self.cut(first);
        if let Some(after) = last.checked_add(1) {
            self.cut(after);
        }
        let inside: Vec<u64> = self.0.range(first..=last).map(|(&va, _)| va).collect();
        for va in inside {
            self.0.remove(&va);
        }
        if let Some(to) = change.to {
            self.insert(first, last, to);
        }
    }

    /// Adds a range where there is none, joined to the one before it if it continues that.
    fn insert(&mut self, first: u64, last: u64, to: Mapping) {
        if let Some((&before, &(end, mapping))) = self.0.range(..first).next_back()
            && end.wrapping_add(1) == first
            && mapping.at(first - before) == to
        {
            self.0.insert(before, (last, mapping));
        } else {
            self.0.insert(first, (last, to));
        }
    }

    /// Cuts the range that contains `va` before it.
    fn cut(&mut self, va: u64) {
        if let Some((&first, &(last, to))) = self.0.range(..va).next_back()
            && va <= last
        {
            self.0.insert(first, (va - 1, to));
            self.0.insert(va, (last, to.at(va - first)));
        }
    }
}

/// Returns the part of a range of addresses, mapped to consecutive memory from `pa` on, that leads to memory from
/// `first` to `last`.
pub(crate) fn within(range: (u64, u64), pa: u64, (first, last): (u64, u64)) -> Option<(u64, u64)> {
    let end = pa.saturating_add(range.1 - range.0);
    let (from, to) = (pa.max(first), end.min(last));
    (from <= to).then(|| (range.0 + (from - pa), range.0 + (to - pa)))
}
