//! The entries that CPUs may hold though the tables have them no more: indexed by the addresses that they translate and by those that
//! they lead to, as a kernel has a thousand of them under way.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::filter::{Asked, Filter};
use super::report::{Miss, Missed, Step, Stored};
use super::tree::TreeId;
use crate::asid::Asid;
use crate::cached::Cached;
use crate::space::Space;
use crate::tlb::Invalidation;
use crate::{CpuId, Tlb};

/// The fate of the addresses of an entry, the worst last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// They translate alike, by entries of another size.
    Same,
    /// The new entry permits more: a fault handler mends what is left.
    Stricter,
    /// The access flag was cleared.
    Aged,
    /// The new entry permits less, or is of another kind.
    Restricted,
    /// Nothing is there any more.
    Removed,
}

/// An entry that CPUs may hold.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The leaf; none for the way to a table, which walk caches hold.
    pub(super) leaf: Option<Cached>,
    /// The physical addresses that it leads to, the first and the last: those of the leaf, or of the table.
    pub(super) to: (u64, u64),
    /// The members of the run whose addresses it may still translate, as bits; 1 for what is no run.
    pub(super) members: u128,
    /// The addresses of its descriptor.
    pub(super) first: u64,
    pub(super) last: u64,
    /// The tree that it was in.
    pub(super) tree: TreeId,
    pub(super) asid: Asid,
    /// The CPUs, as bits; never 0.
    pub(super) holders: u64,
    pub(super) stored: Stored,
    /// The event from which on no walker can fetch it, and that from which on the walker of the CPU that stored cannot.
    pub(super) ordered: Option<usize>,
    pub(super) ordered_here: Option<usize>,
    pub(super) kind: Kind,
    pub(super) missed: Option<Missed>,
    /// True if it has been reported.
    pub(super) reported: bool,
    /// True if a use of what it leads to was looked at.
    pub(super) used_anew: bool,
}

/// An invalidation that has been issued.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    pub(super) step: Step,
    pub(super) op: Tlb,
    pub(super) operand: u64,
    pub(super) what: Invalidation,
}

impl Issued {
    pub(super) fn missed(&self, why: Miss) -> Missed {
        Missed { step: self.step, op: self.op, operand: self.operand, why }
    }
}

/// The effect of an invalidation.
pub(super) struct Completed {
    /// The entries that it should have dropped and came too early for.
    pub(super) early: Vec<Entry>,
    /// True if it dropped something.
    pub(super) dropped: bool,
}

impl Entry {
    /// The addresses that it may translate: those of its descriptor, or of the whole run.
    fn span(&self) -> (u64, u64) {
        self.leaf
            .map_or((self.first, self.last), |leaf| (leaf.first.min(self.first), leaf.last().max(self.last)))
    }

    /// Returns the members that translate some of these addresses, as bits.
    pub(super) fn members_in(&self, first: u64, last: u64) -> u128 {
        let of_table = u128::from(first <= self.last && self.first <= last);
        self.members & self.leaf.map_or(of_table, |leaf| leaf.members_in(first, last))
    }

    /// Returns true if an invalidation that came after the store drops it all, once a DSB completes it.
    pub(super) fn waits_for(&self, issued: &Issued) -> bool {
        issued.step.at > self.stored.step.at && self.is_for(&issued.what) == Ok(self.members)
    }

    /// Returns the members that an invalidation drops, whatever its order; or why it is not for the entry.
    fn is_for(&self, what: &Invalidation) -> Result<u128, Miss> {
        let hit = what.addresses.map_or(self.members, |(first, last)| self.members_in(first, last));
        if hit == 0 {
            return Err(Miss::Elsewhere);
        }
        if !what.target.has(Space::HOME) {
            return Err(Miss::OtherRegime);
        }
        if !self.asid.is_hit(what.asid, what.addresses.is_some()) {
            return Err(Miss::OtherAsid);
        }
        let at_other_level = |leaf: Cached| what.level.is_some_and(|level| level != leaf.level.number());
        if what.other_granule || self.leaf.is_some_and(at_other_level) {
            return Err(Miss::OtherLevel);
        }
        if self.leaf.is_none() && what.last_level {
            return Err(Miss::OtherKind);
        }
        if what.nxs && self.leaf.is_some_and(|leaf| leaf.has_xs()) {
            return Err(Miss::Xs);
        }
        Ok(hit)
    }
}

/// A position in the index: the half or [`OUTPUT`], log2 of the size, and the first address.
type Key = (usize, u32, u64);

/// The physical addresses, beside the two halves.
const OUTPUT: usize = 2;

fn key(space: usize, (first, last): (u64, u64)) -> Key {
    let size = last.wrapping_sub(first).checked_add(1).map_or(63, u64::ilog2);
    // The output of a run can be misaligned, by mistake.
    (space, size, first & !((1 << size) - 1))
}

/// All entries.
#[derive(Default)]
pub(super) struct Held {
    /// The physical addresses to which a store is looked at: those that entries lead to.
    filter: Filter,
    /// The entries in it.
    filtered: HashSet<u64>,
    entries: HashMap<u64, Entry>,
    next: u64,
    index: BTreeMap<Key, Vec<u64>>,
    /// The sizes in the index and the number of entries of each, by half, and for physical addresses.
    sizes: [BTreeMap<u32, usize>; 3],
    /// The entries that stores of a CPU made, and that its barriers have not ordered.
    unordered: HashMap<CpuId, Vec<u64>>,
    /// The entries that stores of a CPU made and that were not reported, with the event of the store before the number.
    open: HashMap<CpuId, BTreeSet<(usize, u64)>>,
}

/// The entries of the same addresses; with more the oldest is forgotten. A kernel that never invalidates has been told of by then.
const SAME_ADDRESSES: usize = 64;
/// The number of a CPU's last open entries that its invalidations are compared with, though they are for other addresses.
const COMPARED: usize = 64;

impl Held {
    fn keys(entry: &Entry) -> [Key; 2] {
        [key(entry.tree.half, entry.span()), key(OUTPUT, entry.to)]
    }

    /// Adds an entry. One that is equal but for its store is the same to a TLB.
    pub(super) fn add(&mut self, mut entry: Entry) {
        let equal = |old: &Entry| {
            let parts = |e: &Entry| (e.leaf, e.to, e.first, e.last, e.members, e.tree, e.asid, e.kind);
            parts(old) == parts(&entry)
        };
        let keys = Self::keys(&entry);
        let here = self.index.get(&keys[0]).map(Vec::as_slice).unwrap_or_default();
        let same = here.iter().copied().find(|id| self.entries.get(id).is_some_and(equal));
        let oldest = here.first().copied().filter(|_| here.len() == SAME_ADDRESSES);
        if let Some(id) = same {
            entry.holders |= self.entries[&id].holders;
        }
        same.or(oldest).into_iter().for_each(|id| self.remove(id));
        let (id, cpu) = (self.next, entry.stored.step.cpu);
        self.next += 1;
        for key in keys {
            self.index.entry(key).or_default().push(id);
            *self.sizes[key.0].entry(key.1).or_default() += 1;
        }
        if entry.ordered.is_none() {
            self.unordered.entry(cpu).or_default().push(id);
        }
        if !entry.reported {
            self.open.entry(cpu).or_default().insert((entry.stored.step.at, id));
        }
        self.entries.insert(id, entry);
        self.filter_again(id);
    }

    /// Stores to what an entry leads to are looked at if they may be its use anew.
    fn filter_again(&mut self, id: u64) {
        let Some(entry) = self.entries.get(&id) else { return };
        let (_, shift, pa) = Self::keys(entry)[1];
        if entry.leaf.is_none() || entry.kind == Kind::Removed && !entry.used_anew {
            if self.filtered.insert(id) {
                self.filter.add(pa, shift);
            }
        } else if self.filtered.remove(&id) {
            self.filter.remove(pa, shift);
        }
    }

    fn remove(&mut self, id: u64) {
        let Some(entry) = self.entries.remove(&id) else { return };
        let keys = Self::keys(&entry);
        for key in keys {
            if let Some(ids) = self.index.get_mut(&key) {
                ids.retain(|&other| other != id);
                if ids.is_empty() {
                    self.index.remove(&key);
                }
            }
            if let Some(count) = self.sizes[key.0].get_mut(&key.1) {
                *count -= 1;
                if *count == 0 {
                    self.sizes[key.0].remove(&key.1);
                }
            }
        }
        if self.filtered.remove(&id) {
            self.filter.remove(keys[1].2, keys[1].1);
        }
        if let Some(open) = self.open.get_mut(&entry.stored.step.cpu) {
            open.remove(&(entry.stored.step.at, id));
        }
    }

    /// Returns the numbers of the entries that translate some of these addresses of a half, or lead to them.
    fn ids(&self, space: usize, first: u64, last: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for &shift in self.sizes[space].keys() {
            let from = first & !((1 << shift) - 1);
            let range = self.index.range((space, shift, from)..=(space, shift, last));
            found.extend(range.flat_map(|(_, ids)| ids));
        }
        found
    }

    /// Returns the entries of a half that translate some of these addresses.
    pub(super) fn overlapping(&self, half: usize, first: u64, last: u64) -> impl Iterator<Item = &Entry> {
        let ids = self.ids(half, first, last).into_iter();
        ids.filter_map(|id| self.entries.get(&id)).filter(move |entry| entry.members_in(first, last) != 0)
    }

    /// A store changes addresses that entries of another size may translate, too: for these they are as stale as what it
    /// replaced.
    pub(super) fn restrict(&mut self, tree: TreeId, (first, last): (u64, u64), stored: Stored, kind: Kind) {
        let same = |entry: &&Entry| entry.tree == tree && entry.leaf.is_some() && entry.kind == Kind::Same;
        let others: Vec<_> = self.overlapping(tree.half, first, last).filter(same).cloned().collect();
        let mut seen = Vec::new();
        for old in others {
            // Those of the members of a run are one.
            if !seen.contains(&(old.leaf, old.asid)) {
                seen.push((old.leaf, old.asid));
                let ordered = old.ordered.map(|_| stored.step.at);
                let members = old.members_in(first, last);
                let new = Entry { members, first, last, kind, stored, ordered, ordered_here: ordered, ..old };
                self.add(Entry { missed: None, reported: false, ..new });
            }
        }
    }

    /// A table was taken out of a tree by a store of `cpu`: what was stored to it before can be seen once that is ordered.
    pub(super) fn unlink(&mut self, table: (u64, u64), cpu: CpuId) {
        let within = |entry: &Entry| (table.0..table.1).contains(&entry.stored.slot);
        let others = self.unordered.iter().filter(|(by, _)| **by != cpu);
        let open: Vec<_> = others.flat_map(|(_, ids)| ids).copied().collect();
        let open: Vec<_> = open.into_iter().filter(|id| self.entries.get(id).is_some_and(within)).collect();
        self.unordered.entry(cpu).or_default().extend(open);
    }

    /// Returns the filter of what entries may lead to, for other threads.
    pub(super) fn asked(&self) -> Asked {
        self.filter.asked()
    }

    /// Returns true if an entry may lead to a physical address. It costs next to nothing.
    pub(super) fn may_lead_to(&self, pa: u64) -> bool {
        self.filter.may_have(pa)
    }

    /// Returns the way to the table with a physical address that walk caches may hold.
    pub(super) fn way_to(&self, pa: u64) -> Option<&Entry> {
        let ids = self.ids(OUTPUT, pa, pa).into_iter();
        ids.filter_map(|id| self.entries.get(&id)).find(|entry| entry.leaf.is_none())
    }

    /// Returns the first entry that leads to a physical address though nothing is where it was, and whose use was not reported.
    pub(super) fn old_way_to(&self, pa: u64) -> Option<(u64, &Entry)> {
        let leads = |entry: &Entry| {
            let Some(leaf) = entry.leaf.filter(|_| entry.kind == Kind::Removed && !entry.used_anew) else {
                return false;
            };
            let va = leaf.first.wrapping_add(pa.wrapping_sub(leaf.oa));
            entry.members_in(va, va) != 0
        };
        let id = self.ids(OUTPUT, pa, pa).into_iter().find(|id| self.entries.get(id).is_some_and(leads))?;
        self.entries.get(&id).map(|entry| (id, entry))
    }

    /// Marks that a use of what an entry leads to was looked at.
    pub(super) fn mark_used_anew(&mut self, id: u64) {
        if let Some(entry) = self.entries.get_mut(&id) {
            entry.used_anew = true;
        }
        self.filter_again(id);
    }

    /// Returns the entries of a tree, with their numbers.
    fn of_tree(&self, tree: TreeId) -> impl Iterator<Item = (u64, &Entry)> {
        let of_half = self.index.range((tree.half, 0, 0)..(tree.half + 1, 0, 0)).flat_map(|(_, ids)| ids);
        let entries = of_half.filter_map(|&id| Some((id, self.entries.get(&id)?)));
        entries.filter(move |(_, entry)| entry.tree == tree)
    }

    /// Returns the entries of a tree that are not reported, with their numbers.
    pub(super) fn open(&self, tree: TreeId) -> Vec<(u64, Entry)> {
        self.of_tree(tree)
            .filter(|(_, entry)| !entry.reported)
            .map(|(id, entry)| (id, entry.clone()))
            .collect()
    }

    /// Takes what has become of the addresses of an entry: `None` if it is in the tables again.
    pub(super) fn settle(&mut self, id: u64, kind: Option<Kind>) {
        match (self.entries.get_mut(&id), kind) {
            (Some(entry), Some(kind)) => {
                entry.kind = kind;
                self.filter_again(id);
            }
            (Some(_), None) => self.remove(id),
            (None, _) => {}
        }
    }

    /// Returns the entries of a tree that a CPU may hold.
    pub(super) fn of_cpu(&self, tree: TreeId, cpu: CpuId) -> impl Iterator<Item = &Entry> {
        self.of_tree(tree).map(|(_, entry)| entry).filter(move |entry| entry.holders >> cpu & 1 == 1)
    }

    /// A barrier orders what a CPU stored: for the walkers of all CPUs, or for its own alone. Returns true if there was something.
    pub(super) fn order(&mut self, cpu: CpuId, alone: bool, now: usize) -> bool {
        let Some(ids) = self.unordered.get_mut(&cpu) else { return false };
        let entries = &mut self.entries;
        let mut orders = false;
        ids.retain(|id| {
            let Some(entry) = entries.get_mut(id) else { return false };
            let ordered = !alone || entry.holders & !(1 << cpu) == 0;
            orders |= ordered || entry.ordered_here.is_none();
            entry.ordered = entry.ordered.or(ordered.then_some(now));
            entry.ordered_here = entry.ordered_here.or(Some(now));
            !ordered
        });
        orders
    }

    /// A CPU comes to a tree: it may fetch what can still be fetched of it.
    pub(super) fn newcomer(&mut self, cpu: CpuId, tree: TreeId) {
        for id in self.unordered.values().flatten() {
            if let Some(entry) = self.entries.get_mut(id).filter(|entry| entry.tree == tree) {
                entry.holders |= 1 << cpu;
            }
        }
    }

    /// Completes an invalidation on some CPUs.
    pub(super) fn complete(&mut self, issued: &Issued, cpus: u64) -> Completed {
        let Issued { what, step, .. } = issued;
        let mut ids = match what.addresses {
            Some((first, last)) => [0, 1].iter().flat_map(|&half| self.ids(half, first, last)).collect(),
            None => self.entries.keys().copied().collect::<Vec<_>>(),
        };
        if what.addresses.is_some() {
            let open = self.open.get(&step.cpu).into_iter().flatten();
            ids.extend(open.rev().take(COMPARED).map(|(_, id)| id));
        }
        let (mut early, mut rest, mut dropped) = (Vec::new(), Vec::new(), false);
        for id in ids {
            let Some(entry) = self.entries.get_mut(&id) else { continue };
            // What is stored after a TLBI has nothing to do with it.
            if entry.stored.step.at > step.at {
                continue;
            }
            let is_own = entry.stored.step.cpu == step.cpu;
            let ordered = if what.broadcast || !is_own { entry.ordered } else { entry.ordered_here };
            let miss = match entry.is_for(what) {
                Ok(hit) if ordered.is_some_and(|at| at < step.at) => {
                    let (left, others) = (entry.members & !hit, entry.holders & !cpus);
                    dropped |= entry.holders & cpus != 0;
                    if others != 0 && left != 0 {
                        rest.push(Entry { members: left, holders: entry.holders & cpus, ..entry.clone() });
                    }
                    match others {
                        0 => entry.members = left,
                        _ => entry.holders = others,
                    }
                    match (others, left) {
                        (0, 0) => None,
                        (0, _) => Some(Miss::Elsewhere),
                        _ => Some(Miss::LocalOnly),
                    }
                }
                Ok(_) => Some(Miss::TooEarly),
                Err(miss) => Some(miss),
            };
            if let Some(why) = miss.filter(|_| is_own) {
                // What is nearer to a hit says more.
                let says_more = entry.missed.is_none_or(|known| known.why == Miss::Elsewhere);
                if says_more {
                    entry.missed = Some(issued.missed(why));
                }
                if why == Miss::TooEarly && !entry.reported && entry.kind > Kind::Aged {
                    entry.reported = true;
                    self.open.get_mut(&step.cpu).map(|open| open.remove(&(entry.stored.step.at, id)));
                    early.push(entry.clone());
                }
            }
            if miss.is_none() {
                self.remove(id);
            }
        }
        rest.into_iter().filter(|entry| entry.holders != 0).for_each(|entry| self.add(entry));
        Completed { early, dropped }
    }

    /// Forgets what the TLB of a CPU may hold.
    pub(super) fn forget(&mut self, cpu: CpuId) {
        let mut gone = Vec::new();
        for (&id, entry) in &mut self.entries {
            entry.holders &= !(1 << cpu);
            if entry.holders == 0 {
                gone.push(id);
            }
        }
        gone.into_iter().for_each(|id| self.remove(id));
    }

    /// Marks as reported, and returns, the open entries that a CPU has ended with: those that it stored from an event on, and those
    /// that it stored or may hold and that any CPU stored before another event.
    pub(super) fn report(&mut self, cpu: CpuId, since: usize, before: usize) -> Vec<Entry> {
        let mut found = Vec::new();
        for (&by, ids) in &mut self.open {
            let holds = |id: &u64| self.entries.get(id).is_some_and(|entry| entry.holders >> cpu & 1 == 1);
            let old = ids.range(..(before, 0)).filter(|(_, id)| by == cpu || holds(id));
            let own = ids.range((since, 0)..).filter(|_| by == cpu);
            for key in old.chain(own).copied().collect::<Vec<_>>() {
                ids.remove(&key);
                if let Some(entry) = self.entries.get_mut(&key.1).filter(|entry| !entry.reported) {
                    entry.reported = true;
                    found.push(entry.clone());
                }
            }
        }
        found.sort_by_key(|entry| (entry.stored.step.at, entry.first));
        found
    }
}
