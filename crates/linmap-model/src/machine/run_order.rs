//! The order in which walkers see the stores into a contiguous run.
//!
//! While walkers may see the contiguous bit in some member, a look-up of any address of the run may use any member
//! (D8.7.1.1 RQTRPM, RNGLXZ, RJQQTC). Walkers may see stores without a DSB between them in any order (D8.2.6.1 RSPVBD).
//! So a member that changes after its run was dissolved may be seen before the run is dissolved. A table in the place
//! of a member is left out: the entries below it count for their own addresses alone.

use linmap::Pa;
use linmap::arch::Entry;

use super::{Finding, Machine, lowest};
use crate::cached::Cached;
use crate::pages::Place;
use crate::stale::Fetched;
use crate::{Rule, stage2};

impl Machine {
    /// Judges a store into a slot: while a contiguous bit may be seen in its run, every translation that may be seen in
    /// a member is right for the addresses of all.
    pub(super) fn run_may_be_seen(&self, (table, index): (u64, usize), place: Place) -> Result<(), Finding> {
        let walkers = self.walkers(place.root);
        let members = self.geometry().contiguous_entries(place.level);
        if walkers == 0 || members == 1 {
            return Ok(());
        }
        let first = index - index % members;
        let leaf = |slot| Some((slot, self.leaf_in(table, slot, place)?));
        let now: Vec<(usize, Cached)> = (first..first + members).filter_map(leaf).collect();
        let mut seen: Vec<Cached> = now.iter().map(|n| n.1).collect();
        let span = (self.slot(first, place).0, self.slot(first + members - 1, place).1);
        seen.extend(self.unsettled(table, place, span));
        let Some(run) = seen.iter().find(|s| s.contiguous).copied() else { return Ok(()) };
        let different = different(&seen);
        if different.len() == 1 {
            return Ok(());
        }
        for said in &different {
            for &(slot, _) in &now {
                self.may_translate_as(place.root, self.slot(slot, place), said).map_err(|va| {
                    let fact = format!("walkers may see {}", said.describe());
                    let run = format!("{}: either may be cached for the whole run", run.describe());
                    Finding::new(Rule::ContiguousRun, fact).on(lowest(walkers)).at(va).and(run)
                })?;
            }
        }
        Ok(())
    }

    /// Returns a member of the run that a slot would be part of.
    pub(super) fn member_beside(&self, (table, index): (u64, usize), place: Place) -> Option<Cached> {
        let members = self.geometry().contiguous_entries(place.level);
        let first = index - index % members;
        let mut mates = (first..first + members).filter(|&slot| slot != index);
        mates.find_map(|slot| self.leaf_in(table, slot, place).filter(|c| c.contiguous))
    }

    /// Returns the first and last address that a slot translates.
    fn slot(&self, slot: usize, place: Place) -> (u64, u64) {
        let shift = self.geometry().level_shift(place.level);
        let first = place.va.wrapping_add((slot as u64) << shift);
        (first, first | ((1 << shift) - 1))
    }

    /// Returns the entry that a TLB may hold of the leaf in a slot.
    pub(super) fn leaf_in(&self, table: u64, slot: usize, place: Place) -> Option<Cached> {
        let word = self.read(Pa(table), slot)?;
        match stage2::decode(word, self.geometry(), place) {
            Entry::Leaf(leaf) => Cached::new(self.slot(slot, place).0, leaf, place.level, self.geometry()),
            _ => None,
        }
    }

    /// Returns the leaves of a table that stores without a DSB have replaced, for some addresses.
    fn unsettled(&self, table: u64, place: Place, (first, last): (u64, u64)) -> impl Iterator<Item = Cached> {
        let replaced = self.stale_of(place.space).leaves.iter().filter(move |leaf| {
            leaf.table == table
                && matches!(leaf.fetched, Fetched::Until(_))
                && leaf.cached.overlaps(first, last)
        });
        replaced.map(|leaf| leaf.cached)
    }
}

/// Returns those that differ in more than their size, each extended to all addresses.
fn different(seen: &[Cached]) -> Vec<Cached> {
    let mut different: Vec<Cached> = Vec::new();
    for new in seen {
        let same = |old: &Cached| {
            old.attributes == new.attributes && old.oa_at(seen[0].first) == new.oa_at(seen[0].first)
        };
        if !different.iter().any(same) {
            different.push(*new);
        }
    }
    different
}
