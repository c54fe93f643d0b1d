//! The naive model: for every CPU and every watched address all TLB contents that can come about, one by
//! one, by filling, by invalidating, in every order.
//!
//! The translation of an address by a TLB depends only on the tables and that TLB's entries for that
//! address. So each pair of CPU and address is explored alone, and nothing is lost by it. Entries for
//! level 0 and 1 tables never change here and are left out. No entry is dropped without a TLBI: a fill
//! needs no other entry to be absent, so all that a TLB can do after an eviction it can do without it.

use std::collections::{BTreeMap, BTreeSet};

use linmap_model::{Barrier, Core, Event, Expected, Mapping, Rule, Tlb};

use crate::descriptor::{
    ACCESSED, BLOCK, DIRTY_MANAGED, Leaf, MEMORY_TYPE, Meaning, NOT_GLOBAL, READ_ONLY, SHAREABILITY,
    SOFTWARE, meaning, span,
};
use crate::places::{L2, place};
use crate::tlb::{Entry, Hits, Invalidation, Reachable, Stage, hits};

/// The rules that an event breaks: none, mostly.
pub(crate) type Broken = BTreeSet<Rule>;

/// An event that this model does not know how to judge.
#[derive(Debug)]
pub(crate) struct OutOfScope;

/// A store that walkers may see, or will.
#[derive(Clone, Copy, Debug)]
struct Store {
    value: u64,
    /// The CPU that stored it, if no DSB of that CPU followed yet.
    by: Option<u8>,
}

/// The mapping of an address; `None` for a hole.
type Map = BTreeMap<u64, Option<Mapping>>;

#[derive(Clone)]
struct Cpu {
    core: Core,
    loaded: bool,
    operation: Option<Vec<Expected>>,
    /// The slots that it changed meanwhile.
    touched: BTreeSet<(u64, usize)>,
    /// It made something valid, and has had no DSB after it, or no ISB after that.
    awaits_dsb: bool,
    awaits_isb: bool,
    /// It issued a broadcast invalidation, and has had no DSB ISH after it.
    broadcasts: bool,
    /// For each watched address.
    tlb: Vec<Reachable>,
}

#[derive(Clone)]
pub(crate) struct Naive {
    watched: Vec<u64>,
    /// The ASID of all trees.
    asid: u64,
    cpus: Vec<Cpu>,
    /// Level 2 and 3 tables, watched slots only: what walkers may see, in the order of the stores. A slot
    /// of a fresh page is missing: its content is undefined.
    memory: BTreeMap<(u64, usize), Vec<Store>>,
    /// The pages that are taken.
    taken: BTreeSet<u64>,
    expected: Map,
}

impl Naive {
    /// The model after a prologue, which is taken to be right: a create operation, and CPUs loading the
    /// tree.
    pub(crate) fn new(cores: &[Core], watched: &[u64], prologue: &[Event]) -> Self {
        let cpu = |(number, core): (usize, &Core)| Cpu {
            core: *core,
            loaded: false,
            operation: None,
            touched: BTreeSet::new(),
            awaits_dsb: false,
            awaits_isb: false,
            broadcasts: false,
            tlb: watched.iter().map(|_| Reachable::new(number as u8)).collect(),
        };
        let mut naive = Self {
            watched: watched.to_vec(),
            asid: 0,
            cpus: cores.iter().enumerate().map(cpu).collect(),
            memory: BTreeMap::new(),
            taken: BTreeSet::new(),
            expected: watched.iter().map(|&va| (va, None)).collect(),
        };
        for event in prologue {
            match event {
                Event::Alloc { table, .. } => drop(naive.taken.insert(*table)),
                Event::Write { .. } => naive.store(event, None),
                Event::Begin { changes, .. } => naive.expected = naive.after(changes),
                Event::Msr { cpu, value, .. } => {
                    naive.cpus[usize::from(*cpu)].loaded = true;
                    naive.asid = value >> 48;
                }
                _ => {}
            }
        }
        naive.close();
        naive
    }

    /// Takes a step, and names all rules that it breaks.
    pub(crate) fn step(&mut self, event: &Event) -> Result<Broken, OutOfScope> {
        let mut broken = Broken::new();
        let id = event.cpu();
        let at = usize::from(id);
        if at >= self.cpus.len() {
            return Err(OutOfScope);
        }
        match event {
            Event::Write { .. } => self.write(event, &mut broken)?,
            Event::Dsb { kind, .. } => self.dsb(id, *kind),
            Event::Isb { .. } => self.isb(at),
            Event::Tlbi { op, operand, .. } => self.tlbi(id, *op, *operand, &mut broken)?,
            Event::Alloc { table, .. } => {
                if !self.taken.insert(*table) {
                    return Err(OutOfScope);
                }
            }
            Event::Free { table, .. } => {
                if !self.taken.contains(table) || *table == L2 || *table < L2 {
                    return Err(OutOfScope);
                }
                if self.is_linked(*table) || self.is_held(*table) {
                    broken.insert(Rule::Freed);
                }
                self.taken.remove(table);
                self.memory.retain(|(t, _), _| t != table);
            }
            Event::Begin { changes, .. } => {
                let overlap = |a: &Expected, b: &Expected| a.va < b.va + b.bytes && b.va < a.va + a.bytes;
                let mut open = self.cpus.iter().filter_map(|c| c.operation.as_ref()).flatten();
                if self.cpus[at].operation.is_some() || open.any(|o| changes.iter().any(|c| overlap(o, c))) {
                    return Err(OutOfScope);
                }
                self.cpus[at].operation = Some(changes.clone());
                self.cpus[at].touched.clear();
            }
            Event::Done { ok, .. } => self.done(at, *ok, &mut broken),
            _ => return Err(OutOfScope),
        }
        self.close();
        self.judge_contents(&mut broken);
        self.judge_walks(&mut broken);
        self.judge_runs(&mut broken);
        Ok(broken)
    }

    // Memory.

    /// The values that walkers may see in a slot; none while its content is undefined.
    fn visible(&self, table: u64, slot: usize) -> impl Iterator<Item = u64> {
        self.memory.get(&(table, slot)).into_iter().flatten().map(|s| s.value)
    }

    fn newest(&self, table: u64, slot: usize) -> Option<u64> {
        self.visible(table, slot).last()
    }

    /// The slots that are watched, of level 2 and of level 3.
    fn slots(&self) -> BTreeSet<(u8, usize)> {
        let places = self.watched.iter().map(|&va| place(va));
        places.flat_map(|(slot2, slot3)| [(2, slot2), (3, slot3)]).collect()
    }

    /// The level 3 table that a level 2 slot leads to.
    fn child(&self, slot: usize) -> Option<u64> {
        match meaning(self.newest(L2, slot)?, 2) {
            Meaning::Table(child) => Some(child),
            _ => None,
        }
    }

    fn is_linked(&self, table: u64) -> bool {
        table == L2 || (0..512).any(|slot| self.child(slot) == Some(table))
    }

    /// Returns true if a walk cache may lead to a table.
    fn is_held(&self, table: u64) -> bool {
        let all = self.cpus.iter().flat_map(|c| &c.tlb);
        all.into_iter().any(|r| r.in_use().any(|c| r.entries_of(c).any(|e| *e == Entry::Table(table))))
    }

    /// Stores, by a CPU whose DSB must follow or by none.
    fn store(&mut self, event: &Event, by: Option<u8>) {
        let Event::Write { table, index, value, count, step, .. } = event else { return };
        let level = if *table == L2 { 2 } else { 3 };
        for (_, slot) in self.slots().into_iter().filter(|s| s.0 == level) {
            if (*index..index + count).contains(&slot) {
                let value = value.wrapping_add(step.wrapping_mul((slot - index) as u64));
                let seen = self.memory.entry((*table, slot)).or_default();
                if by.is_none() {
                    seen.clear();
                }
                seen.push(Store { value, by });
            }
        }
    }

    fn write(&mut self, event: &Event, broken: &mut Broken) -> Result<(), OutOfScope> {
        let &Event::Write { cpu, table, index, value, count, was, .. } = event else {
            return Err(OutOfScope);
        };
        if table < L2 || !self.taken.contains(&table) {
            return Err(OutOfScope);
        }
        if self.is_linked(table) {
            let level = if table == L2 { 2 } else { 3 };
            let Some(old) = self.newest(table, index) else { return Err(OutOfScope) };
            if count > 1 {
                return Err(OutOfScope);
            }
            if was.is_some_and(|w| w != old) {
                broken.insert(Rule::LostUpdate);
            }
            if value == old {
                return Ok(());
            }
            let now = meaning(value, level);
            ill_formed(now, broken);
            if let Meaning::Table(child) = now
                && now != meaning(old, level)
            {
                self.link(child, broken)?;
            }
            let faults = |value| match meaning(value, level) {
                Meaning::Leaf(leaf) => !leaf.translates(),
                Meaning::Table(_) => false,
                Meaning::Hole | Meaning::Reserved => true,
            };
            if faults(old) && !faults(value) {
                self.cpus[usize::from(cpu)].awaits_dsb = true;
            }
            self.cpus[usize::from(cpu)].touched.insert((table, index));
        } else if self.is_held(table) {
            broken.insert(Rule::Freed);
        }
        // Nothing orders stores of two CPUs without a barrier between them.
        let races = |((t, slot), seen): (&(u64, usize), &Vec<Store>)| {
            (*t, (index..index + count).contains(slot)) == (table, true)
                && seen.iter().any(|s| s.by.is_some_and(|by| by != cpu))
        };
        if self.memory.iter().any(races) {
            return Err(OutOfScope);
        }
        self.store(event, Some(cpu));
        if self.is_linked(table) && self.run_disagrees(table, index) {
            broken.insert(Rule::ContiguousRun);
        }
        Ok(())
    }

    /// Returns true if walkers may see a contiguous bit in the run of a slot, and in some slot of it a leaf that is
    /// wrong for another one: any of them may be used for all (RNGLXZ, RJQQTC).
    fn run_disagrees(&self, table: u64, slot: usize) -> bool {
        let level = if table == L2 { 2 } else { 3 };
        let (run, bytes) = (slot & !15, span(level));
        let leaf = |value| match meaning(value, level) {
            Meaning::Leaf(leaf) if leaf.translates() => Some(leaf),
            _ => None,
        };
        let seen: Vec<(usize, Leaf)> = (run..run + 16)
            .flat_map(|mate| self.visible(table, mate).filter_map(leaf).map(move |leaf| (mate, leaf)))
            .collect();
        let at = |va: u64| if level == 2 { place(va).0 } else { place(va).1 };
        let in_table = |va: &&u64| level == 2 || self.child(place(**va).0) == Some(table);
        let mapped = |va: &&u64| self.newest(table, at(**va)).is_some_and(|value| leaf(value).is_some());
        let in_run = |va: &&u64| (run..run + 16).contains(&at(**va));
        let wrong = |va: &u64| {
            let allowed: Vec<_> = self.allowed(*va).into_iter().filter_map(|m| in_hardware(m?)).collect();
            seen.iter().any(|(mate, leaf)| {
                let apart = (at(*va) as u64).wrapping_sub(*mate as u64).wrapping_mul(bytes);
                let oa = leaf.oa.wrapping_add(apart).wrapping_add(va & (bytes - 1));
                !allowed.contains(&(oa, leaf.attributes & !SOFTWARE))
            })
        };
        seen.iter().any(|(_, leaf)| leaf.contiguous)
            && self.watched.iter().filter(in_table).filter(in_run).filter(mapped).any(wrong)
    }

    /// A table is about to become reachable.
    fn link(&self, child: u64, broken: &mut Broken) -> Result<(), OutOfScope> {
        if child <= L2 || !self.taken.contains(&child) || self.is_linked(child) {
            return Err(OutOfScope);
        }
        for (_, slot) in self.slots().into_iter().filter(|s| s.0 == 3) {
            let seen: Vec<_> = self.memory.get(&(child, slot)).into_iter().flatten().collect();
            if seen.is_empty() || seen.iter().any(|s| s.by.is_some()) {
                broken.insert(Rule::Unfilled);
            }
            if seen.is_empty() {
                // The content of a fresh page can be whatever breaks a rule.
                broken.extend([Rule::Translation, Rule::BreakBeforeMake, Rule::SizeConflict, Rule::InUse]);
            }
            seen.iter().for_each(|s| ill_formed(meaning(s.value, 3), broken));
        }
        Ok(())
    }

    // Barriers and invalidations.

    fn dsb(&mut self, id: u8, kind: Barrier) {
        let at = usize::from(id);
        // A CPU's own walker sees its stores after any DSB.
        if matches!(kind, Barrier::Ish | Barrier::Ishst) || self.cpus.len() == 1 {
            for seen in self.memory.values_mut() {
                // What this CPU stored is what walkers see, or something newer.
                if let Some(last) = seen.iter().rposition(|s| s.by == Some(id)) {
                    seen.drain(..last);
                    seen[0].by = None;
                }
            }
            let cpu = &mut self.cpus[at];
            cpu.awaits_isb |= std::mem::take(&mut cpu.awaits_dsb);
        }
        let completes = |i: &Invalidation| match kind {
            Barrier::Ish => true,
            Barrier::Nsh => !i.broadcast,
            Barrier::Ishst | Barrier::Nshst => false,
        };
        let another = kind == Barrier::Ish && std::mem::take(&mut self.cpus[at].broadcasts);
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            for tlb in &mut cpu.tlb {
                if another {
                    tlb.act(|i| i.by == id && i.stage == Stage::AwaitsAnother);
                }
                let due = |i: &Invalidation| i.by == id && i.stage == Stage::Issued && completes(i);
                if number != at && cpu.core.repeat_tlbi {
                    tlb.advance(due, Stage::AwaitsAnother);
                } else {
                    tlb.act(due);
                }
            }
        }
    }

    fn isb(&mut self, at: usize) {
        let cpu = &mut self.cpus[at];
        cpu.awaits_isb = false;
        cpu.tlb.iter_mut().for_each(Reachable::synchronise);
    }

    fn tlbi(&mut self, id: u8, op: Tlb, operand: u64, broken: &mut Broken) -> Result<(), OutOfScope> {
        let core = self.cpus[usize::from(id)].core;
        let Some((broadcast, reach)) = hits(op, operand, &core, self.asid) else {
            broken.insert(Rule::TlbiOperand);
            return Ok(());
        };
        self.cpus[usize::from(id)].broadcasts |= broadcast;
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            if !broadcast && number != usize::from(id) {
                continue;
            }
            for (&va, tlb) in self.watched.iter().zip(&mut cpu.tlb) {
                let hits = reach(va);
                if hits != Hits::default() {
                    tlb.issue(Invalidation { hits, by: id, broadcast, stage: Stage::Issued });
                }
            }
        }
        Ok(())
    }

    // What TLBs may hold.

    /// The leaves at `level` that a walker which has come to a table may cache for an address.
    fn leaves(&self, va: u64, table: u64, level: u8) -> Vec<Entry> {
        let (slot2, slot3) = place(va);
        let slot = if level == 2 { slot2 } else { slot3 };
        let within = va & (span(level) - 1);
        let mut entries = Vec::new();
        let mut add = |leaf: Leaf, oa: u64| {
            let attributes = leaf.attributes & !SOFTWARE;
            entries.push(Entry::Leaf { level, run: leaf.contiguous, oa: oa + within, attributes });
        };
        let run = slot & !15;
        for mate in run..run + 16 {
            for value in self.visible(table, mate) {
                let Meaning::Leaf(leaf) = meaning(value, level) else { continue };
                if !leaf.translates() {
                    continue;
                }
                if mate == slot {
                    add(leaf, leaf.oa);
                }
                // As though the whole run were one leaf, aligned as a whole.
                if leaf.contiguous {
                    add(leaf, (leaf.oa & !(16 * span(level) - 1)) + (slot - run) as u64 * span(level));
                }
            }
        }
        entries
    }

    /// Adds all contents that fills and invalidations can bring about, in every order.
    fn close(&mut self) {
        for index in 0..self.watched.len() {
            let va = self.watched[index];
            let (slot2, _) = place(va);
            // By walking from the root: level 2 leaves, tables, and what is in these.
            let mut from_root = self.leaves(va, L2, 2);
            for value in self.visible(L2, slot2) {
                if let Meaning::Table(child) = meaning(value, 2) {
                    from_root.push(Entry::Table(child));
                    from_root.extend(self.leaves(va, child, 3));
                }
            }
            // By walking on from a walk cache.
            let known = self.cpus.iter().flat_map(|c| c.tlb[index].entries());
            let children: BTreeSet<u64> = known.filter_map(Entry::table).collect();
            let from_table: Vec<_> = children.into_iter().map(|t| (t, self.leaves(va, t, 3))).collect();
            for cpu in self.cpus.iter_mut().filter(|c| c.loaded) {
                cpu.tlb[index].close(&from_root, &from_table);
            }
        }
    }

    // The rules.

    /// Two entries for one address.
    fn judge_contents(&self, broken: &mut Broken) {
        for cpu in &self.cpus {
            for (&va, tlb) in self.watched.iter().zip(&cpu.tlb) {
                let becomes_global = self.leaf_now(va).is_some_and(|l| l.attributes & NOT_GLOBAL == 0);
                for content in tlb.contents() {
                    let entries: Vec<Entry> = tlb.entries_of(content).copied().collect();
                    for (i, a) in entries.iter().enumerate() {
                        for b in &entries[..i] {
                            conflict(*a, *b, cpu.core.never_aborts, becomes_global, broken);
                        }
                    }
                }
            }
        }
    }

    /// The leaf that the newest stores give an address.
    fn leaf_now(&self, va: u64) -> Option<Leaf> {
        let (slot2, slot3) = place(va);
        let leaf = match meaning(self.newest(L2, slot2)?, 2) {
            Meaning::Leaf(leaf) => Leaf { oa: leaf.oa + (va & (BLOCK - 1)), ..leaf },
            Meaning::Table(child) => match meaning(self.newest(child, slot3)?, 3) {
                Meaning::Leaf(leaf) => leaf,
                _ => return None,
            },
            _ => return None,
        };
        Some(leaf)
    }

    /// Returns the mapping of each address after these changes.
    fn after(&self, changes: &[Expected]) -> Map {
        let mut map = self.expected.clone();
        for change in changes {
            for (&va, mapping) in &mut map {
                let offset = va.wrapping_sub(change.va);
                if offset < change.bytes {
                    *mapping = change.to.map(|to| Mapping { pa: to.pa + offset, ..to });
                }
            }
        }
        map
    }

    /// Returns the mappings that an address may have: the old one, and those that operations under way will have made.
    fn allowed(&self, va: u64) -> Vec<Option<Mapping>> {
        let operations = self.cpus.iter().filter_map(|c| c.operation.as_ref());
        operations.map(|changes| self.after(changes)[&va]).chain([self.expected[&va]]).collect()
    }

    /// Every walk from the root that a CPU may make now.
    fn judge_walks(&self, broken: &mut Broken) {
        if !self.cpus.iter().any(|c| c.loaded) {
            return;
        }
        for &va in &self.watched {
            let allowed: Vec<_> = self.allowed(va).into_iter().map(|m| m.and_then(in_hardware)).collect();
            for found in self.walks(va) {
                match found {
                    None if allowed.iter().all(Option::is_some) => drop(broken.insert(Rule::InUse)),
                    None => {}
                    found if allowed.contains(&found) => {}
                    Some(found) => {
                        broken.insert(Rule::Translation);
                        // An access flag fault is a fault too.
                        if found.1 & ACCESSED == 0 {
                            broken.insert(Rule::InUse);
                        }
                    }
                }
            }
        }
    }

    /// Judges that every entry that a TLB may hold of a run, of whichever member, is allowed at each address that it
    /// translates (RCBXXM, RJQQTC), from its store on, whether or not the operation ever returns.
    fn judge_runs(&self, broken: &mut Broken) {
        for (index, &va) in self.watched.iter().enumerate() {
            let tlbs = self.cpus.iter().map(|c| &c.tlb[index]);
            let held = |tlb: &Reachable| tlb.contents().fold(0, |all, content| all | content);
            let runs: Vec<_> = tlbs
                .flat_map(|tlb| tlb.entries_of(held(tlb)))
                .filter_map(|entry| match *entry {
                    Entry::Leaf { run: true, oa, attributes, .. } => Some(Some((oa, attributes))),
                    _ => None,
                })
                .collect();
            if runs.is_empty() {
                continue;
            }
            let allowed: Vec<_> = self.allowed(va).into_iter().map(|m| m.and_then(in_hardware)).collect();
            if !runs.iter().all(|run| allowed.contains(run)) {
                broken.insert(Rule::ContiguousRun);
            }
        }
    }

    /// Returns the entries that walks from the root may find for an address: `None` for a hole.
    fn walks(&self, va: u64) -> Vec<Option<(u64, u64)>> {
        let (slot2, slot3) = place(va);
        let found = |value, level| match meaning(value, level) {
            Meaning::Leaf(Leaf { oa, attributes, valid, .. }) => {
                in_hardware(Mapping { pa: oa + (va & (span(level) - 1)), attributes, valid })
            }
            _ => None,
        };
        let mut outcomes = Vec::new();
        for value in self.visible(L2, slot2) {
            match meaning(value, 2) {
                Meaning::Table(child) => outcomes.extend(self.visible(child, slot3).map(|v| found(v, 3))),
                _ => outcomes.push(found(value, 2)),
            }
        }
        outcomes
    }

    /// The slots of a run of which some valid members have the contiguous bit and others do not (RQTRPM).
    fn misprogrammed(&self, (table, slot): (u64, usize)) -> bool {
        let level = if table == L2 { 2 } else { 3 };
        let contiguous = |mate: usize| match meaning(self.newest(table, mate)?, level) {
            Meaning::Leaf(leaf) if leaf.translates() => Some(leaf.contiguous),
            Meaning::Table(_) => Some(false),
            Meaning::Leaf(_) | Meaning::Hole | Meaning::Reserved => None,
        };
        let run = slot & !15;
        let members: BTreeSet<_> = (run..run + 16).filter_map(contiguous).collect();
        members.len() == 2 && !self.is_being_resized((table, run))
    }

    /// Returns true if an operation that has not returned stored into a run, or linked its table: it answers for it.
    fn is_being_resized(&self, (table, run): (u64, usize)) -> bool {
        let open = self.cpus.iter().filter(|c| c.operation.is_some());
        open.flat_map(|c| &c.touched).any(|&(touched, slot)| {
            (touched == table && slot & !15 == run) || (touched == L2 && self.child(slot) == Some(table))
        })
    }

    fn done(&mut self, at: usize, ok: bool, broken: &mut Broken) {
        let Some(changes) = self.cpus[at].operation.take() else {
            broken.insert(Rule::Sequence);
            return;
        };
        if ok {
            self.expected = self.after(&changes);
        }
        // The addresses that it is about: named, or translated by a slot that it changed.
        let touched = &self.cpus[at].touched;
        let concerns =
            |va: &u64| named(&changes, *va) || self.path(*va).iter().any(|slot| touched.contains(slot));
        let about: BTreeSet<u64> = self.watched.iter().copied().filter(concerns).collect();
        let slots: BTreeSet<_> = about.iter().flat_map(|&va| self.path(va)).collect();

        // What it stored itself, and what a walker may still find of another CPU's stores.
        let unseen = |((table, _), seen): (&(u64, usize), &Vec<Store>)| {
            self.is_linked(*table) && seen.iter().any(|s| s.by.is_some_and(|by| usize::from(by) == at))
        };
        let found = |va: &u64| {
            let allowed: Vec<_> = self.allowed(*va).into_iter().map(|m| m.and_then(in_hardware)).collect();
            self.path(*va).iter().any(|slot| self.memory[slot].iter().any(|s| s.by.is_some()))
                && self.walks(*va).iter().any(|found| !allowed.contains(found))
        };
        let cpu = &self.cpus[at];
        if self.memory.iter().any(unseen) || about.iter().any(found) || cpu.awaits_dsb || cpu.awaits_isb {
            broken.insert(Rule::NotVisible);
        }
        if slots.iter().any(|slot| self.misprogrammed(*slot)) {
            broken.insert(Rule::ContiguousRun);
        }
        for (index, va) in self.watched.iter().enumerate() {
            let allowed = self.allowed(*va);
            // What hardware ignores no operation promises.
            let letter = |m: Mapping| Mapping { attributes: m.attributes & !SOFTWARE, ..m };
            let have = self.leaf_now(*va);
            let have = have.map(|l| letter(Mapping { pa: l.oa, attributes: l.attributes, valid: l.valid }));
            if about.contains(va) && !allowed.iter().any(|m| m.map(letter) == have) {
                broken.insert(Rule::Promised);
            }
            for cpu in &self.cpus {
                let tlb = &cpu.tlb[index];
                for entry in tlb.in_use().flat_map(|c| tlb.entries_of(c)) {
                    let Entry::Leaf { run, oa, attributes, .. } = *entry else { continue };
                    if !allowed.iter().any(|m| m.and_then(in_hardware) == Some((oa, attributes))) {
                        broken.insert(Rule::Stale);
                        if run {
                            broken.insert(Rule::ContiguousRun);
                        }
                    }
                }
            }
        }
    }

    /// The slots that translate an address.
    fn path(&self, va: u64) -> Vec<(u64, usize)> {
        let (slot2, slot3) = place(va);
        let child = self.child(slot2).map(|child| (child, slot3));
        child.into_iter().chain([(L2, slot2)]).collect()
    }
}

/// Returns true if one of the changes covers an address.
fn named(changes: &[Expected], va: u64) -> bool {
    changes.iter().any(|c| va.wrapping_sub(c.va) < c.bytes)
}

/// Returns true for a descriptor that no live table may have.
fn ill_formed(descriptor: Meaning, broken: &mut Broken) {
    match descriptor {
        Meaning::Reserved => drop(broken.insert(Rule::Reserved)),
        Meaning::Leaf(Leaf { attributes, valid: true, .. })
            if attributes & READ_ONLY != 0 && attributes & DIRTY_MANAGED != 0 =>
        {
            broken.insert(Rule::DirtyManaged);
        }
        _ => {}
    }
}

/// Returns the parts of a mapping that hardware reads; `None` if it is not valid.
fn in_hardware(mapping: Mapping) -> Option<(u64, u64)> {
    mapping.valid.then_some((mapping.pa, mapping.attributes & !SOFTWARE))
}

/// Two entries for one address in one TLB.
fn conflict(a: Entry, b: Entry, never_aborts: bool, becomes_global: bool, broken: &mut Broken) {
    let resized = match (a, b) {
        (Entry::Leaf { level, run, .. }, Entry::Leaf { level: l, run: r, .. }) => (level, run) != (l, r),
        (Entry::Table(_), Entry::Leaf { level, .. }) | (Entry::Leaf { level, .. }, Entry::Table(_)) => {
            level == 2
        }
        (Entry::Table(_), Entry::Table(_)) => true,
    };
    if resized && !never_aborts {
        broken.insert(Rule::SizeConflict);
    }
    let (Entry::Leaf { run, oa, attributes, .. }, Entry::Leaf { run: r, oa: o, attributes: other, .. }) =
        (a, b)
    else {
        return;
    };
    let changed = attributes ^ other;
    // Index 0 and 1 are one type: the second has allocation tags where the CPU has such.
    let normal = |a: u64| a & MEMORY_TYPE <= 1 << 2;
    let retyped = changed & MEMORY_TYPE != 0 && !(normal(attributes) && normal(other));
    let globalised = changed & NOT_GLOBAL != 0 && becomes_global;
    if oa != o || retyped || changed & SHAREABILITY != 0 || globalised {
        broken.insert(Rule::BreakBeforeMake);
        if run || r {
            broken.insert(Rule::ContiguousRun);
        }
    }
}
