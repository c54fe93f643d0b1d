//! Stale entries: those that TLBs may hold though they are not in the tables any more, until invalidations drop them.
//!
//! The entries in the tables need no record: any walker may cache them at any time. So the set of all entries that a
//! TLB can hold is the tables, and this.

use std::sync::Arc;

use linmap::Geometry;
use linmap::arch::{Entry, Level, TableLimits};

use crate::CpuId;
use crate::asid::Asid;
use crate::cached::Cached;
use crate::pages::Place;
use crate::space::{Dropped, Space};
use crate::stage2;
use crate::tlb::Invalidation;
use crate::waits::{Completion, Wait, Waits};

/// The last event at which a walker could have fetched an entry from the tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fetched {
    /// It still can: the store that replaced it, by this CPU, has had no DSB.
    Until(CpuId),
    /// Not after this event.
    Before(usize),
}

impl Fetched {
    /// Returns true if no walker can fetch the entry again after an invalidation that is issued at an event.
    const fn ended_before(self, event: usize) -> bool {
        matches!(self, Self::Before(end) if end < event)
    }
}

/// A leaf that was replaced.
#[derive(Clone, Debug)]
pub(crate) struct StaleLeaf {
    pub(crate) cached: Cached,
    /// The members of the run whose addresses it may still translate.
    pub(crate) members: u128,
    /// The CPUs that may hold it, as bits.
    pub(crate) holders: u8,
    /// The root of its tree.
    pub(crate) root: u64,
    pub(crate) asid: Asid,
    pub(crate) space: Space,
    /// Of an entry of stage 2: only what was combined with stage 1 is left, since the event of `fetched`.
    pub(crate) combined: bool,
    pub(crate) fetched: Fetched,
    /// The table that it was in.
    pub(crate) table: u64,
    /// If that table was unlinked before the store was visible: until when walks from the root come to it. Walk caches
    /// may lead there for longer.
    unlinked: Option<Fetched>,
    /// The CPU and the event that replaced it.
    pub(crate) by: CpuId,
    pub(crate) since: usize,
    /// The steps for which its invalidations wait, which are complete otherwise.
    pub(crate) waits: Waits,
}

/// A table that was unlinked.
#[derive(Clone, Debug)]
pub(crate) struct StaleTable {
    pub(crate) table: u64,
    /// The table above it, if both were unlinked at once.
    above: Option<u64>,
    /// The level of its entries, and the first address that the first one translates.
    pub(crate) level: Level,
    pub(crate) va: u64,
    pub(crate) root: u64,
    pub(crate) holders: u8,
    /// True while walk caches may lead to it.
    pub(crate) walkable: bool,
    /// Slots whose leaves may be held: from, to (not included).
    pub(crate) leaves: Vec<(usize, usize)>,
    /// Its contents when it was unlinked.
    pub(crate) words: Arc<[u64]>,
    /// True if some of them are members of contiguous runs.
    has_runs: bool,
    /// The ASID of its leaves that are not global.
    pub(crate) asid: Asid,
    pub(crate) space: Space,
    /// The restrictions in the descriptors of this table and of those above it.
    pub(crate) limits: TableLimits,
    /// Of a table of stage 2: only what was combined with stage 1 is left, since the event of `fetched`.
    pub(crate) combined: bool,
    pub(crate) fetched: Fetched,
    /// The CPU and the event that unlinked it.
    pub(crate) by: CpuId,
    pub(crate) since: usize,
    /// The event at which walk caches ceased to lead to it; or the steps for which that waits.
    walk_ended: Result<usize, Waits>,
    pub(crate) waits: Waits,
}

/// All entries that some TLB may hold though they are not in the tables.
#[derive(Default)]
pub(crate) struct Stale {
    pub(crate) leaves: Vec<StaleLeaf>,
    pub(crate) tables: Vec<StaleTable>,
}

/// A valid member of a contiguous run.
const CONTIGUOUS: u64 = 1 << 52 | 1;

/// An invalidation that was issued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Issued {
    pub(crate) what: Invalidation,
    pub(crate) at: usize,
}

impl Issued {
    /// Returns true if it drops all entries of its regime.
    pub(crate) const fn is_of_everything(&self) -> bool {
        self.what.addresses.is_none() && self.what.asid.is_none() && !self.what.nxs
    }

    /// Returns the ASID whose entries it drops, all but global ones.
    pub(crate) const fn whole_asid(&self) -> Option<u16> {
        if self.what.addresses.is_some() || self.what.nxs { None } else { self.what.asid }
    }

    /// Returns true if it drops all entries of a space.
    pub(crate) const fn empties(&self, space: Space) -> bool {
        self.is_of_everything() && self.what.target.has(space)
    }
}

impl StaleLeaf {
    pub(crate) const fn new(
        cached: Cached,
        holders: u8,
        (root, table, asid): (u64, u64, Asid),
        writer: CpuId,
        now: usize,
    ) -> Self {
        Self {
            members: cached.all_members(),
            cached,
            holders,
            root,
            asid,
            space: Space::HOME,
            combined: false,
            fetched: Fetched::Until(writer),
            table,
            unlinked: None,
            by: writer,
            since: now,
            waits: Waits::NONE,
        }
    }

    /// Returns the last event at which it could be fetched, if no walk cache leads to its table.
    pub(crate) fn fetched(&self) -> Fetched {
        match (self.fetched, self.unlinked) {
            (Fetched::Before(own), Some(Fetched::Before(way))) => Fetched::Before(own.min(way)),
            (Fetched::Until(_), Some(way)) => way,
            (own, _) => own,
        }
    }

    /// Returns the members that an invalidation drops if it is issued in time.
    pub(crate) fn hit(&self, what: &Invalidation) -> u128 {
        if self.combined {
            return if of_all_addresses(what) { self.members } else { 0 };
        }
        let level = what.level.is_none_or(|l| l == self.cached.level.number());
        let asid = self.asid.is_hit(what.asid, what.addresses.is_some());
        if !level || !asid || what.other_granule || (what.nxs && self.cached.has_xs()) {
            return 0;
        }
        match what.addresses {
            Some((first, last)) => self.members & self.cached.members_in(first, last),
            None => self.members,
        }
    }
}

impl StaleTable {
    pub(crate) fn span(&self, g: Geometry) -> (u64, u64) {
        let bytes = (g.entries(self.level) as u64) << g.level_shift(self.level);
        (self.va, self.va + (bytes - 1))
    }

    /// Returns true if an invalidation makes walk caches drop it.
    pub(crate) fn walk_hit(&self, what: &Invalidation, g: Geometry) -> bool {
        self.walkable && self.way_hit(what, g)
    }

    /// Returns the ASID of the entries that lead to it. Those of the upper half may be cached as not global under
    /// whichever ASID was current.
    pub(crate) const fn way_asid(&self) -> Asid {
        if self.va >> 63 == 0 { self.asid } else { Asid::Unknown }
    }

    /// Returns the ASID of one of its leaves.
    pub(crate) const fn leaf_asid(&self, leaf: &Cached) -> Asid {
        if leaf.is_global() { Asid::Global } else { self.asid }
    }

    /// Returns true if an invalidation covers the entries that lead to it.
    fn way_hit(&self, what: &Invalidation, g: Geometry) -> bool {
        if self.combined {
            return false;
        }
        let level = what.level.is_none_or(|l| l == self.level.number());
        let asid = self.way_asid().is_hit(what.asid, what.addresses.is_some());
        if what.last_level || what.other_granule || !level || !asid {
            return false;
        }
        let (first, last) = self.span(g);
        what.addresses.is_none_or(|a| a.0 <= last && first <= a.1)
    }

    /// Returns the slots whose leaves an invalidation drops: from, to (not included).
    fn leaf_hit(&self, what: &Invalidation, at: usize, g: Geometry) -> Option<(usize, usize)> {
        if self.combined {
            return of_all_addresses(what).then_some((0, g.entries(self.level)));
        }
        let level = what.level.is_none_or(|l| l == self.level.number());
        // While walk caches lead here, a leaf that is dropped alone can be fetched again.
        let gone = !self.walkable && self.walk_ended.is_ok_and(|ended| ended < at);
        if what.other_granule || !level || !(gone || self.way_hit(what, g)) {
            return None;
        }
        let (first, last) = self.span(g);
        let (from, to) = what.addresses.unwrap_or((first, last));
        let shift = g.level_shift(self.level);
        let slot = |va: u64| ((va - first) >> shift) as usize;
        let slots = (from <= last && first <= to).then(|| (slot(from.max(first)), slot(to.min(last)) + 1))?;
        // By ASID alone, global entries stay.
        let by_address = what.addresses.is_some();
        let stays = |s: usize| {
            self.leaf(s, g).is_some_and(|leaf| !self.leaf_asid(&leaf).is_hit(what.asid, by_address))
        };
        let matches = what.asid.is_none() || !(slots.0..slots.1).any(stays);
        let xs = |s: usize| self.leaf(s, g).is_some_and(|c| c.has_xs());
        let sure = !what.nxs || !(slots.0..slots.1).any(xs);
        (matches && sure).then_some(slots)
    }

    /// Returns true if walkers may come to it after an invalidation that is issued at an event.
    fn is_walked_after(&self, event: usize) -> bool {
        self.walkable || !self.walk_ended.is_ok_and(|ended| ended < event)
    }

    /// Returns true if only walks that are under way on one CPU come to it, whose TLB has dropped it.
    const fn is_in_flight(&self) -> bool {
        self.waits.is_gone_but_for_isb()
    }

    fn is_gone(&self) -> bool {
        !self.walkable && self.leaves.is_empty()
    }

    /// Returns the first and last address that a slot translates.
    pub(crate) fn slot_span(&self, slot: usize, g: Geometry) -> (u64, u64) {
        let shift = g.level_shift(self.level);
        let first = self.va + ((slot as u64) << shift);
        (first, first + ((1 << shift) - 1))
    }

    /// Returns the leaf in a slot, as a TLB may hold it. For a slot without one that is a member of its contiguous run
    /// (D8.7.1.1 RJQQTC and IPGVGZ).
    pub(crate) fn leaf(&self, slot: usize, g: Geometry) -> Option<Cached> {
        self.own_leaf(slot, g).or_else(|| {
            let members = g.contiguous_entries(self.level);
            let first = slot - slot % members;
            let mut mates = (first..first + members).filter(|_| self.has_runs && members > 1);
            mates.find_map(|mate| self.own_leaf(mate, g).filter(|c| c.contiguous))
        })
    }

    fn own_leaf(&self, slot: usize, g: Geometry) -> Option<Cached> {
        let va = self.va + ((slot as u64) << g.level_shift(self.level));
        let (root, level, space, limits) = (self.root, self.level, self.space, self.limits);
        match stage2::decode(*self.words.get(slot)?, g, Place { root, level, va: self.va, space, limits }) {
            Entry::Leaf(leaf) => Cached::new(va, leaf, self.level, g),
            _ => None,
        }
    }

    /// Returns the slots that may be held and translate addresses from `first` to `last`.
    pub(crate) fn slots_in(&self, first: u64, last: u64, g: Geometry) -> Vec<usize> {
        let (start, end) = self.span(g);
        if last < start || end < first {
            return Vec::new();
        }
        let shift = g.level_shift(self.level);
        let from = ((first.max(start) - start) >> shift) as usize;
        let to = ((last.min(end) - start) >> shift) as usize + 1;
        let clipped = self.leaves.iter().map(|&(a, b)| a.max(from)..b.min(to));
        clipped.flatten().collect()
    }
}

/// Returns the CPUs that come to some tables by their walk caches; and those on which only a walk under way does, with
/// the steps that end that.
fn ways<'a>(tables: impl Iterator<Item = &'a StaleTable>) -> (u8, Vec<(u8, Waits)>) {
    let (mut cached, mut in_flight) = (0, Vec::new());
    for table in tables {
        if table.is_in_flight() {
            in_flight.push((table.holders, table.waits));
        } else {
            cached |= table.holders;
        }
    }
    (cached, in_flight)
}

/// Returns true if an invalidation drops entries that combine both stages, whatever virtual address they are of.
fn of_all_addresses(what: &Invalidation) -> bool {
    what.addresses.is_none() && what.asid.is_none() && !what.nxs
}

/// Parts of intervals inside and outside of another.
fn split(intervals: &[(usize, usize)], (from, to): (usize, usize)) -> [Vec<(usize, usize)>; 2] {
    let mut parts = [Vec::new(), Vec::new()];
    for &(a, b) in intervals {
        let pieces = [(a.max(from), b.min(to)), (a, b.min(from)), (a.max(to), b)];
        for (i, piece) in pieces.into_iter().enumerate().filter(|(_, p)| p.0 < p.1) {
            parts[usize::from(i > 0)].push(piece);
        }
    }
    parts
}

impl Stale {
    /// Adds a leaf that was replaced.
    pub(crate) fn add_leaf(&mut self, new: StaleLeaf) {
        let same = |old: &&mut StaleLeaf| {
            (old.cached, old.holders, old.root, old.asid, old.waits, old.combined, old.by)
                == (new.cached, new.holders, new.root, new.asid, Waits::NONE, false, new.by)
                && (old.fetched == new.fetched || matches!(old.fetched, Fetched::Before(_)))
                && old.unlinked.is_none()
        };
        match self.leaves.iter_mut().find(same) {
            Some(old) => *old = new,
            None => self.leaves.push(new),
        }
    }

    /// Adds a table that was unlinked: walk caches lead to it, and its leaves may be held.
    pub(crate) fn add_table(
        &mut self,
        (table, place): (u64, Place),
        words: Arc<[u64]>,
        (holders, asid): (u8, Asid),
        above: Option<u64>,
        (writer, now): (CpuId, usize),
        g: Geometry,
    ) {
        let Place { root, level, va, space, limits } = place;
        let open = |l: &&mut StaleLeaf| l.table == table && matches!(l.fetched, Fetched::Until(_));
        self.leaves.iter_mut().filter(open).for_each(|l| l.unlinked = Some(Fetched::Until(writer)));
        self.tables.push(StaleTable {
            table,
            above,
            level,
            va,
            root,
            holders,
            walkable: true,
            leaves: vec![(0, g.entries(level))],
            has_runs: words.iter().any(|w| w & CONTIGUOUS == CONTIGUOUS),
            words,
            asid,
            space,
            limits,
            combined: false,
            fetched: Fetched::Until(writer),
            by: writer,
            since: now,
            walk_ended: Ok(0),
            waits: Waits::NONE,
        });
    }

    /// Notes a DSB of `cpu`: the entries that it replaced can be fetched no more. That holds as well where the table has
    /// been unlinked since: a walk that comes there finds the new entry (D8.2.6.1 RSPVBD).
    pub(crate) fn settle(&mut self, cpu: CpuId, now: usize) {
        let leaves = self.leaves.iter_mut().flat_map(|l| [Some(&mut l.fetched), l.unlinked.as_mut()]);
        for fetched in leaves.flatten().chain(self.tables.iter_mut().map(|t| &mut t.fetched)) {
            if *fetched == Fetched::Until(cpu) {
                *fetched = Fetched::Before(now);
            }
        }
    }

    /// Notes that a CPU uses a tree: it can fetch all that can still be fetched of it.
    pub(crate) fn newcomer(&mut self, cpu: CpuId, root: u64) {
        let open = |f: Fetched, of: u64| matches!(f, Fetched::Until(_)) && of == root;
        self.leaves.iter_mut().filter(|l| open(l.fetched(), l.root)).for_each(|l| l.holders |= 1 << cpu);
        self.tables.iter_mut().filter(|t| open(t.fetched, t.root)).for_each(|t| t.holders |= 1 << cpu);
    }

    /// Forgets what the TLB of a CPU may hold.
    pub(crate) fn forget(&mut self, cpu: CpuId) {
        self.leaves.iter_mut().for_each(|l| l.holders &= !(1 << cpu));
        self.tables.iter_mut().for_each(|t| t.holders &= !(1 << cpu));
        self.leaves.retain(|l| l.holders != 0);
        self.tables.retain(|t| t.holders != 0);
    }

    /// Notes a step for which some invalidations waited.
    pub(crate) fn arrived(&mut self, wait: Wait, now: usize) {
        self.leaves.retain(|l| !l.waits.has(wait));
        self.tables.retain(|t| !t.waits.has(wait));
        let waiting = self.tables.iter_mut().filter(|t| t.walk_ended.is_err_and(|w| w.has(wait)));
        waiting.for_each(|t| t.walk_ended = Ok(now));
    }

    /// Drops the entries of an invalidation that is complete on some CPUs.
    pub(crate) fn complete(&mut self, issued: &Issued, by: Completion, dropped: Dropped, g: Geometry) {
        let concerns = |combined: bool| match dropped {
            Dropped::Nothing => false,
            Dropped::Entries | Dropped::Both => true,
            Dropped::Stage2Alone => !combined,
            Dropped::Combined => combined,
        };
        for i in 0..self.leaves.len() {
            if concerns(self.leaves[i].combined) {
                self.complete_leaf(i, issued, by, dropped, g);
            }
        }
        self.leaves.retain(|l| l.members != 0);
        for i in 0..self.tables.len() {
            if concerns(self.tables[i].combined) {
                self.complete_table(i, issued, by, dropped, g);
            }
        }
        // The tables above others, and those of replaced leaves, are kept: the walk by way of them may end before or after
        // an invalidation.
        let below = self.tables.iter().filter(|t| !t.is_gone());
        let above: Vec<_> = below.filter_map(|t| Some((t.above?, t.since))).collect();
        let replaced: Vec<_> = self.leaves.iter().filter(|l| l.unlinked.is_some()).map(|l| l.table).collect();
        let leads = |t: &StaleTable| above.contains(&(t.table, t.since)) || replaced.contains(&t.table);
        let kept = |t: &StaleTable| !t.is_gone() || leads(t);
        self.tables.retain(|t| t.holders != 0 && kept(t));
    }

    /// Returns the CPUs whose walk caches lead to a replaced leaf, whatever an invalidation drops; and those on which only
    /// a walk under way comes to it, with the steps that end that.
    fn refills(&self, leaf: &StaleLeaf, issued: &Issued, g: Geometry) -> (u8, Vec<(u8, Waits)>) {
        if leaf.unlinked.is_none() || leaf.fetched.ended_before(issued.at) {
            return (0, Vec::new());
        }
        let lead = |t: &&StaleTable| {
            t.table == leaf.table && t.is_walked_after(issued.at) && !t.way_hit(&issued.what, g)
        };
        ways(self.tables.iter().filter(lead))
    }

    fn complete_leaf(&mut self, i: usize, issued: &Issued, by: Completion, dropped: Dropped, g: Geometry) {
        let leaf = &self.leaves[i];
        let (refilled, in_flight) = self.refills(leaf, issued, g);
        let hit = leaf.hit(&issued.what);
        let cpus = leaf.holders & by.cpus & !refilled;
        if hit == 0
            || cpus == 0
            || !leaf.fetched().ended_before(issued.at)
            || by.waits_already(cpus, leaf.waits)
        {
            return;
        }
        let under_way: Vec<_> = in_flight
            .into_iter()
            .map(|(holders, waits)| StaleLeaf {
                holders: holders & cpus,
                members: hit,
                waits,
                ..leaf.clone()
            })
            .collect();
        let leaf = &mut self.leaves[i];
        let rest = StaleLeaf { holders: leaf.holders & !cpus, ..leaf.clone() };
        let late = by.late(cpus).map(|(holders, wait)| StaleLeaf {
            holders,
            members: hit,
            waits: leaf.waits.and(wait),
            ..leaf.clone()
        });
        // What was combined with stage 1 stays, and the other cannot be combined any more.
        let combined = (dropped == Dropped::Stage2Alone).then(|| StaleLeaf {
            holders: cpus,
            members: hit,
            combined: true,
            fetched: Fetched::Before(by.now),
            unlinked: None,
            ..leaf.clone()
        });
        leaf.holders = cpus;
        leaf.members &= !hit;
        let late = combined.is_none().then_some(late).into_iter().flatten();
        let more = late.chain([rest]).chain(combined).chain(under_way);
        self.leaves.extend(more.filter(|l| l.holders != 0));
    }

    /// Returns the CPUs whose walks come to a table by way of the one above it, whatever an invalidation drops, as
    /// [`refills`](Self::refills) does. One without a level hint drops the way to both at once.
    fn led_to(&self, table: &StaleTable, issued: &Issued, g: Geometry) -> (u8, Vec<(u8, Waits)>) {
        let lead = |t: &&StaleTable| {
            Some(t.table) == table.above
                && t.since == table.since
                && t.is_walked_after(issued.at)
                && !t.way_hit(&issued.what, g)
        };
        ways(self.tables.iter().filter(lead))
    }

    fn complete_table(&mut self, i: usize, issued: &Issued, by: Completion, dropped: Dropped, g: Geometry) {
        let (led_to, in_flight) = self.led_to(&self.tables[i], issued, g);
        let table = &mut self.tables[i];
        let cpus = table.holders & by.cpus & !led_to;
        if cpus == 0 || !table.fetched.ended_before(issued.at) || by.waits_already(cpus, table.waits) {
            return;
        }
        let walk = table.walk_hit(&issued.what, g);
        // Walk caches drop it later, by an invalidation of another CPU; or by this one.
        let fetching = match table.walk_ended {
            Err(waits) if table.way_hit(&issued.what, g) => Some(waits),
            _ => walk.then_some(Waits::NONE),
        };
        let slots = table.leaf_hit(&issued.what, issued.at, g);
        if fetching.is_none() && slots.is_none() {
            return;
        }
        let [taken, left] = split(&table.leaves, slots.unwrap_or((0, 0)));
        let rest = StaleTable { holders: table.holders & !cpus, ..table.clone() };
        let late = by.late(cpus);
        let under_way: Vec<_> = in_flight
            .into_iter()
            .map(|(holders, waits)| StaleTable { holders: holders & cpus, waits, ..table.clone() })
            .collect();
        // If walk caches drop it later, its leaves can be fetched until then.
        let fetching = fetching.map(|waits| StaleTable {
            holders: late[0].0,
            walkable: false,
            walk_ended: Err(waits.and(late[0].1)),
            leaves: left.clone(),
            ..table.clone()
        });
        // What was combined with stage 1 stays, and the others cannot be combined any more.
        let combined = (dropped == Dropped::Stage2Alone).then(|| StaleTable {
            holders: cpus,
            above: None,
            walkable: false,
            leaves: taken.clone(),
            combined: true,
            fetched: Fetched::Before(by.now),
            ..table.clone()
        });
        let taken = if combined.is_some() { Vec::new() } else { taken };
        let late = late.map(|(holders, wait)| StaleTable {
            holders,
            walkable: walk,
            // A walk of this CPU that went on from the table may have read none of its leaves yet.
            leaves: if walk && wait == Wait::Isb(by.issuer) { table.leaves.clone() } else { taken.clone() },
            waits: table.waits.and(wait),
            ..table.clone()
        });
        table.holders = cpus & !fetching.as_ref().map_or(0, |t| t.holders);
        table.leaves = left;
        if fetching.is_some() {
            table.walkable = false;
            table.walk_ended = Ok(by.now);
        }
        let more = late.into_iter().chain([rest]).chain(fetching).chain(combined).chain(under_way);
        self.tables.extend(more.filter(|t| t.holders != 0));
    }
}
