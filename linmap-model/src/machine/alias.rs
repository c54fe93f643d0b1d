//! Pages with two addresses: a page that is read-only by one of them cannot be written through the linear map.
//!
//! TLBs count as tables do. Judged after each store into a live table: nothing else makes a page writable or read-only,
//! and invalidations only drop entries.

use linmap::Entry;

use super::{Finding, Machine, lowest};
use crate::Rule;
use crate::cached::Cached;

/// A translation that a CPU may use: from the tables, or because its TLB holds it from before an event.
struct Held<'a> {
    cached: &'a Cached,
    part: (u64, u64),
    cpus: u8,
    since: Option<usize>,
}

/// Consecutive addresses that are mapped to consecutive physical memory.
struct Made {
    first: u64,
    last: u64,
    oa: u64,
}

impl Machine {
    /// Judges the stores for a range of a tree: no page is read-only that can be written through the linear map.
    pub(super) fn aliases_agree(&self, root: u64, span: (u64, u64)) -> Result<(), Finding> {
        let (Some(offset), Some(place)) = (self.setup.linear_offset, self.root_place(root)) else {
            return Ok(());
        };
        let (g, walkers) = (self.geometry(), self.walkers(root));
        if walkers == 0 {
            return Ok(());
        }
        let half = (place.va, place.va + ((1 << g.va_bits()) - 1));
        let is_alias = |held: &Held<'_>| held.cached.oa_at(held.part.0).wrapping_add(offset) == held.part.0;
        let (mut aliases, mut areas) = (Vec::new(), Vec::new());
        self.in_tables(root, span, &mut |held| {
            let writable = held.cached.attributes.is_writable();
            match (is_alias(&held), writable) {
                (true, true) => join(&mut aliases, &held),
                (false, false) => join(&mut areas, &held),
                _ => {}
            }
            Ok(())
        })?;
        for made in aliases {
            self.held(root, half, &mut |held| {
                let oa = held.cached.oa_at(held.part.0);
                let apart =
                    oa > made.oa + (made.last - made.first) || made.oa > oa + (held.part.1 - held.part.0);
                if apart || is_alias(&held) || held.cached.attributes.is_writable() {
                    return Ok(());
                }
                let alias = oa.max(made.oa).wrapping_add(offset);
                let fact = format!("the tables make {alias:#x} writable, in the linear map");
                Err(held.contradicts(fact, alias))
            })?;
        }
        for made in areas {
            let alias = made.oa.wrapping_add(offset);
            let Some(last) = alias.checked_add(made.last - made.first) else { continue };
            self.held(root, (alias, last), &mut |held| {
                if !is_alias(&held) || !held.cached.attributes.is_writable() {
                    return Ok(());
                }
                let va = made.first + (held.part.0 - alias);
                Err(held.contradicts(format!("the tables make {va:#x} read-only"), held.part.0))
            })?;
        }
        Ok(())
    }

    /// Returns the translations of a range by the tables.
    fn in_tables(
        &self,
        root: u64,
        (first, last): (u64, u64),
        each: &mut impl FnMut(Held<'_>) -> Result<(), Finding>,
    ) -> Result<(), Finding> {
        let (g, cpus) = (self.geometry(), self.walkers(root));
        let Some(place) = self.root_place(root) else { return Ok(()) };
        if last < place.va || place.va + ((1 << g.va_bits()) - 1) < first {
            return Ok(());
        }
        self.pages.walk((root, place), (first, last), g, &mut |piece| {
            let Entry::Leaf(leaf) = piece.entry else { return Ok(()) };
            let Some(cached) = Cached::new(piece.start, leaf, piece.level, g) else { return Ok(()) };
            each(Held { cached: &cached, part: (piece.va, piece.last), cpus, since: None })
        })
    }

    /// Returns the same, and the stale translations that TLBs may hold.
    fn held(
        &self,
        root: u64,
        (first, last): (u64, u64),
        each: &mut impl FnMut(Held<'_>) -> Result<(), Finding>,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        self.in_tables(root, (first, last), each)?;
        for stale in self.stale.leaves.iter().filter(|l| l.holders != 0) {
            let members = stale.members & stale.cached.members_in(first, last);
            for member in (0..128).filter(|m| members & 1 << m != 0) {
                let start = stale.cached.first + (member << stale.cached.shift);
                let part = (start.max(first), (start | ((1 << stale.cached.shift) - 1)).min(last));
                each(Held { cached: &stale.cached, part, cpus: stale.holders, since: Some(stale.since) })?;
            }
        }
        for stale in self.stale.tables.iter().filter(|t| t.holders != 0) {
            for slot in stale.slots_in(first, last, g) {
                let Some(cached) = stale.leaf(slot, g) else { continue };
                let (from, to) = stale.slot_span(slot, g);
                let part = (from.max(first), to.min(last));
                each(Held { cached: &cached, part, cpus: stale.holders, since: Some(stale.since) })?;
            }
        }
        Ok(())
    }
}

impl Held<'_> {
    /// Returns the breach: this contradicts the result of a store.
    fn contradicts(&self, fact: String, alias: u64) -> Finding {
        let cpu = lowest(self.cpus);
        let says = match self.since {
            Some(event) => {
                format!("cpu {cpu} may still use {} (replaced by event {event})", self.cached.describe())
            }
            None => format!("there is {}", self.cached.describe()),
        };
        Finding::new(Rule::WritableAlias, fact).on(cpu).at(alias).and(says)
    }
}

/// Adds the next translation in address order.
fn join(all: &mut Vec<Made>, held: &Held<'_>) {
    let ((first, last), oa) = (held.part, held.cached.oa_at(held.part.0));
    match all.last_mut() {
        Some(before) if before.last + 1 == first && before.oa + (first - before.first) == oa => {
            before.last = last;
        }
        _ => all.push(Made { first, last, oa }),
    }
}
