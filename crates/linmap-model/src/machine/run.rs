//! Contiguous runs. A TLB may use one member for the addresses of all, as though the run were one leaf (D8.7.1 RCBXXM),
//! whatever the other members are (D8.7.1.1 RJQQTC), invalid ones included. So each member answers for all addresses of
//! its run, from its store on: at each of them its translation must be allowed, as the old mapping or as the one that
//! an operation under way will have made.

use linmap::arch::Entry;

use super::operation::{Moment, described};
use super::{Finding, Machine};
use crate::cached::Cached;
use crate::pages::{Place, is_member};
use crate::{Rule, stage2};

/// Entries that can be a run: the table and its place, and the first slot.
#[derive(Clone, Copy)]
struct Group {
    table: u64,
    place: Place,
    slot: usize,
}

impl Machine {
    /// Returns the runs of a tree that translate addresses of a range, or would if all members were equal.
    pub(super) fn runs_are_right(
        &self,
        (root, place): (u64, Place),
        span: (u64, u64),
        moment: Moment,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        self.pages.tables((root, place), span, g, &mut |(table, place), slots| {
            let members = g.contiguous_entries(place.level);
            if members == 1 {
                return Ok(());
            }
            let first = slots.start - slots.start % members;
            for slot in (first..slots.end).step_by(members) {
                let words = self.words(table).get(slot..slot + members).unwrap_or_default();
                if words.iter().any(|&w| is_member(w)) {
                    self.run_is_right(root, Group { table, place, slot }, words, moment)?;
                }
            }
            Ok(())
        })
    }

    fn run_is_right(&self, root: u64, group: Group, words: &[u64], moment: Moment) -> Result<(), Finding> {
        let g = self.geometry();
        let Group { table, place, slot: first } = group;
        let (mut said, mut within, mut without) = (None, None, None);
        for (slot, &word) in (first..).zip(words) {
            let va = place.va.wrapping_add((slot as u64) << g.level_shift(place.level));
            let leaf = match stage2::decode(word, g, place) {
                Entry::Leaf(leaf) => leaf,
                Entry::Table(_) => {
                    without = Some(slot);
                    continue;
                }
                _ => continue,
            };
            match Cached::new(va, leaf, place.level, g) {
                Some(cached) if cached.contiguous => {
                    within = Some(slot);
                    if said.replace(cached) != Some(cached) {
                        self.claim_is_right(root, &cached, (table, slot))?;
                    }
                }
                Some(_) => without = Some(slot),
                // A faulting entry is in no TLB, and invalid members do not make the others misprogrammed (IPGVGZ).
                None => {}
            }
        }
        match (moment, within, without) {
            (Moment::AtRest, Some(within), Some(without)) => {
                self.run_is_uniform(root, group, words.len(), [within, without])
            }
            _ => Ok(()),
        }
    }

    /// Judges that the translation of a member is allowed at all addresses of its run.
    fn claim_is_right(&self, root: u64, member: &Cached, (table, slot): (u64, usize)) -> Result<(), Finding> {
        let says = || format!("slot {slot} of the table at {table:#x} has {}", member.describe());
        let unaligned = member.oa & (member.last() - member.first);
        if unaligned != 0 {
            let found = Finding::new(Rule::ContiguousRun, says()).at(member.first);
            return Err(found.and("its output is not aligned to the run"));
        }
        let mut va = member.first;
        loop {
            let (end, states) = self.states(root, va);
            let mut mapped = states.iter().flatten();
            if !mapped.any(|m| m.valid && self.same(m, member.oa_at(va), member.attributes)) {
                return Err(Finding::new(Rule::ContiguousRun, says())
                    .at(va)
                    .and("it may be cached for the whole run")
                    .and(format!("here it must be {}", described(states.last().copied().flatten()))));
            }
            if end >= member.last() {
                return Ok(());
            }
            va = end + 1;
        }
    }

    /// Judges a run of members with and without the contiguous bit: it is misprogrammed (RQTRPM), unless an operation
    /// that stored into it is under way, which is judged later.
    fn run_is_uniform(
        &self,
        root: u64,
        Group { table, place, slot }: Group,
        members: usize,
        [within, without]: [usize; 2],
    ) -> Result<(), Finding> {
        let shift = self.geometry().level_shift(place.level);
        let va = |slot: usize| place.va.wrapping_add((slot as u64) << shift);
        let (first, last) = (va(slot), va(slot) + (((members as u64) << shift) - 1));
        let operations = self.cpus.iter().filter_map(|c| c.operation.as_ref());
        let mut touched = operations.filter(|o| o.root == self.current(root)).flat_map(|o| &o.touched);
        if touched.any(|s| s.0 <= last && first <= s.1) {
            return Ok(());
        }
        let fact = format!("slot {within} of the table at {table:#x} is a member of a run");
        Err(Finding::new(Rule::ContiguousRun, fact)
            .at(va(without))
            .and(format!("slot {without} is not one, but the run may be cached for its addresses")))
    }
}
