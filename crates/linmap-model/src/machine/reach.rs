//! The translations that some CPU may use: those of the tables, and those that TLBs may still hold. For a range of
//! addresses of one tree, or for physical pages, whichever trees lead to them.

use linmap::arch::Entry;

use super::{Finding, Machine, lowest};
use crate::cached::Cached;
use crate::pages::{Place, is_member};
use crate::space::Space;
use crate::stale::{Stale, StaleLeaf, StaleTable};
use crate::{Rule, flat, stage2};

/// A translation that a CPU may use.
pub(super) struct Held<'a> {
    pub(super) cached: &'a Cached,
    /// The first and last address of those at hand that it translates.
    pub(super) part: (u64, u64),
    /// The CPUs that may use it.
    pub(super) cpus: u8,
    pub(super) by: By<'a>,
}

/// The reason why it may be used.
#[derive(Clone, Copy)]
pub(super) enum By<'a> {
    Tables,
    /// TLBs may hold it from before an event.
    Leaf(&'a StaleLeaf),
    /// TLBs may hold what an unlinked table said.
    Table(&'a StaleTable),
}

/// The trees that may lead to a physical page.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stages {
    /// Those of virtual addresses: what they say of a page is compared.
    First,
    /// Those of stage 2 too.
    Both,
}

/// Takes one translation after another, until one breaks a rule.
pub(super) type Each<'e> = &'e mut dyn FnMut(&Held<'_>) -> Result<(), Finding>;

impl Held<'_> {
    /// Returns the physical addresses of its part.
    pub(super) const fn pages(&self) -> (u64, u64) {
        let first = self.cached.oa_at(self.part.0);
        (first, first.saturating_add(self.part.1 - self.part.0))
    }

    pub(super) const fn is_writable(&self) -> bool {
        stage2::is_writable(self.cached.attributes)
    }
}

impl Machine {
    /// Returns the breach: a translation that a CPU may use contradicts a fact.
    pub(super) fn contradicts(&self, rule: Rule, fact: String, held: &Held<'_>) -> Finding {
        let cpu = lowest(held.cpus);
        let found = Finding::new(rule, fact).on(cpu).at(held.part.0);
        let (since, why) = match held.by {
            By::Tables => return found.and(format!("there is {}", held.cached.describe())),
            By::Leaf(stale) => (stale.since, self.why_leaf_remains(stale, cpu, held.part.0)),
            By::Table(stale) => (stale.since, self.why_table_remains(stale, cpu)),
        };
        let says = held.cached.describe();
        found.and(format!("cpu {cpu} may still use {says} (replaced by event {since})")).and(why)
    }

    /// Takes the translations of a range by the tables, slot by slot.
    pub(super) fn in_tables(
        &self,
        root: u64,
        (first, last): (u64, u64),
        each: Each<'_>,
    ) -> Result<(), Finding> {
        let (g, cpus) = (self.geometry(), self.holders(root));
        let Some(place) = self.root_place(root) else { return Ok(()) };
        if last < place.va || place.va + ((1 << g.va_bits()) - 1) < first {
            return Ok(());
        }
        self.pages.walk((root, place), (first, last), g, &mut |piece| {
            let Entry::Leaf(leaf) = piece.entry else { return Ok(()) };
            let Some(cached) = Cached::new(piece.start, leaf, piece.level, g) else { return Ok(()) };
            each(&Held { cached: &cached, part: (piece.va, piece.last), cpus, by: By::Tables })
        })
    }

    /// Takes the translations of slots that have none of their own, by the members of their contiguous runs
    /// (D8.7.1.1 RJQQTC and IPGVGZ).
    fn in_runs(&self, root: u64, (first, last): (u64, u64), each: Each<'_>) -> Result<(), Finding> {
        let (g, cpus) = (self.geometry(), self.holders(root));
        let Some(place) = self.root_place(root) else { return Ok(()) };
        if last < place.va || place.va + ((1 << g.va_bits()) - 1) < first {
            return Ok(());
        }
        self.pages.tables((root, place), (first, last), g, &mut |(table, place), slots| {
            let members = g.contiguous_entries(place.level);
            let group = slots.start - slots.start % members;
            for group in (group..slots.end).step_by(members).filter(|_| members > 1) {
                let words = self.words(table).get(group..group + members).unwrap_or_default();
                let va = |slot: usize| {
                    place.va.wrapping_add(((group + slot) as u64) << g.level_shift(place.level))
                };
                let Some(said) = member(words, (va(0), place), g) else { continue };
                for slot in (0..members).filter(|&slot| words[slot] & 1 == 0) {
                    let (from, to) = (va(slot), va(slot) + (g.level_size(place.level) - 1));
                    if from <= last && first <= to {
                        let part = (from.max(first), to.min(last));
                        each(&Held { cached: &said, part, cpus, by: By::Tables })?;
                    }
                }
            }
            Ok(())
        })
    }

    /// Takes the translations of a range, and those of all trees that TLBs may still hold for it.
    pub(super) fn held(&self, root: u64, range: (u64, u64), each: Each<'_>) -> Result<(), Finding> {
        self.in_tables(root, range, each)?;
        self.in_runs(root, range, each)?;
        let space = self.root_place(root).map_or(Space::HOME, |place| place.space);
        self.in_tlbs(self.stale_of(space), range, |_| Some(range), each)
    }

    /// Takes all translations that lead to physical pages.
    ///
    /// What the tables say was announced, so the announcements tell where to look.
    pub(super) fn leading_to(
        &self,
        stages: Stages,
        pages: (u64, u64),
        each: Each<'_>,
    ) -> Result<(), Finding> {
        let both = stages == Stages::Both;
        let only = &mut |held: &Held<'_>| {
            let Some(part) = flat::within(held.part, held.pages().0, pages) else { return Ok(()) };
            each(&Held { part, ..*held })
        };
        let mut maps: Vec<u64> = self.expected.keys().copied().collect();
        maps.sort_unstable();
        for map in maps {
            let ranges = self.announced_for(map, pages);
            let old = self.replaced.iter().map(|r| r.0).filter(|&old| self.current(old) == map);
            let in_use = |root: &u64| self.holders(*root) != 0 && (both || !self.is_of_stage_2(*root));
            for root in old.chain([map]).filter(in_use) {
                for &range in &ranges {
                    self.in_tables(root, range, only)?;
                    self.in_runs(root, range, only)?;
                }
            }
        }
        let part = |cached: &Cached| flat::within((cached.first, cached.last()), cached.oa, pages);
        let mut sets = self.all_stale().filter(|(space, _)| both || !space.is_stage_2());
        sets.try_for_each(|(_, stale)| self.in_tlbs(stale, (0, u64::MAX), part, &mut *only))
    }

    /// Returns the ranges that are announced, now or by an operation under way, to lead to physical pages.
    fn announced_for(&self, map: u64, pages: (u64, u64)) -> Vec<(u64, u64)> {
        let now = self.expected.get(&map).into_iter().flat_map(|flat| flat.leading_to(pages)).map(|r| r.0);
        let operations = self.cpus.iter().filter_map(|c| c.operation.as_ref()).filter(|o| o.root == map);
        let next = operations.flat_map(|o| &o.changes);
        let next = next.filter_map(|c| flat::within((c.va, c.last()), c.to?.pa, pages));
        now.chain(next).collect()
    }

    /// Takes the translations that TLBs may still hold, for the wanted addresses of each.
    fn in_tlbs(
        &self,
        all: &Stale,
        range: (u64, u64),
        wanted: impl Fn(&Cached) -> Option<(u64, u64)>,
        each: Each<'_>,
    ) -> Result<(), Finding> {
        let g = self.geometry();
        for stale in all.leaves.iter().filter(|l| l.holders != 0) {
            let Some((first, last)) = wanted(&stale.cached) else { continue };
            let members = stale.members & stale.cached.members_in(first, last);
            for member in (0..128).filter(|m| members & 1 << m != 0) {
                let start = stale.cached.first + (member << stale.cached.shift);
                let part = (start.max(first), (start | ((1 << stale.cached.shift) - 1)).min(last));
                let by = By::Leaf(stale);
                each(&Held { cached: &stale.cached, part, cpus: stale.holders, by })?;
            }
        }
        for stale in all.tables.iter().filter(|t| t.holders != 0) {
            for slot in stale.slots_in(range.0, range.1, g) {
                let Some(cached) = stale.leaf(slot, g) else { continue };
                let Some((first, last)) = wanted(&cached) else { continue };
                let (from, to) = stale.slot_span(slot, g);
                let part = (from.max(first), to.min(last));
                if part.0 <= part.1 {
                    each(&Held { cached: &cached, part, cpus: stale.holders, by: By::Table(stale) })?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the run of a group of entries that starts at `va`, if one of them is a member.
fn member(words: &[u64], (va, place): (u64, Place), g: linmap::Geometry) -> Option<Cached> {
    let whole = words.iter().all(|w| w & 1 == 1);
    let slot = words.iter().position(|&w| is_member(w)).filter(|_| !whole)?;
    let va = va.wrapping_add((slot as u64) << g.level_shift(place.level));
    match stage2::decode(words[slot], g, place) {
        Entry::Leaf(leaf) => Cached::new(va, leaf, place.level, g).filter(|c| c.contiguous),
        _ => None,
    }
}
