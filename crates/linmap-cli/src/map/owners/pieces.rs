//! Pure: pieces of memory that overlap become pieces with one owner each.

use std::collections::BTreeMap;
use std::ops::Range;

use linmap::Pa;

use super::{Owner, Owners};

/// The most pieces that are collected; one takes 24 bytes.
const MAX_PIECES: usize = 1 << 21;

/// Owners and their memory as they are found, in any order.
#[derive(Default)]
pub(super) struct Found {
    numbers: BTreeMap<Owner, u32>,
    pieces: Vec<(Range<Pa>, u32)>,
}

impl Found {
    /// Adds memory of an owner. Returns false if there is no room for more.
    pub(super) fn add(&mut self, memory: Range<Pa>, owner: &Owner) -> bool {
        let next = self.numbers.len() as u32;
        let number = match self.numbers.get(owner) {
            Some(number) => *number,
            None => *self.numbers.entry(owner.clone()).or_insert(next),
        };
        join(&mut self.pieces, memory, Some(number));
        self.pieces.len() < MAX_PIECES
    }

    /// Returns the owners, numbered in the order in which they count.
    pub(super) fn owners(self) -> Owners {
        let mut places = vec![0; self.numbers.len()];
        for (place, number) in self.numbers.values().enumerate() {
            places[*number as usize] = place as u32;
        }
        let pieces = self.pieces.into_iter().map(|(memory, number)| (memory, places[number as usize]));
        let pieces = flat(pieces.collect());
        Owners { list: self.numbers.into_keys().collect(), pieces }
    }
}

impl Owners {
    /// Returns the owners of these pieces.
    #[cfg(test)]
    pub(crate) fn from_found(pieces: impl IntoIterator<Item = (Range<Pa>, Owner)>) -> Self {
        let mut found = Found::default();
        pieces.into_iter().for_each(|(memory, owner)| assert!(found.add(memory, &owner), "too many pieces"));
        found.owners()
    }
}

/// Adds a piece, joined with the last one if it goes on there.
fn join(pieces: &mut Vec<(Range<Pa>, u32)>, range: Range<Pa>, owner: Option<u32>) {
    let Some(owner) = owner.filter(|_| !range.is_empty()) else { return };
    match pieces.last_mut() {
        Some((last, same)) if *same == owner && last.end == range.start => last.end = range.end,
        _ => pieces.push((range, owner)),
    }
}

/// Returns pieces without overlaps: where several cover an address, the lowest number counts.
fn flat(found: Vec<(Range<Pa>, u32)>) -> Vec<(Range<Pa>, u32)> {
    // An owner begins or ends at an address.
    let mut edges: Vec<(Pa, u32, bool)> = Vec::with_capacity(2 * found.len());
    for (range, owner) in found {
        edges.extend([(range.start, owner, true), (range.end, owner, false)]);
    }
    edges.sort_unstable_by_key(|edge| edge.0);
    let mut open: BTreeMap<u32, i64> = BTreeMap::new();
    let (mut flat, mut from) = (Vec::new(), Pa(0));
    for (at, owner, begins) in edges {
        join(&mut flat, from..at, open.first_key_value().map(|(owner, _)| *owner));
        from = at;
        let count = open.entry(owner).or_default();
        *count += if begins { 1 } else { -1 };
        if *count == 0 {
            open.remove(&owner);
        }
    }
    flat
}
