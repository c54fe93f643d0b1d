//! The naive model: for every CPU and every watched address all TLB contents that can come about, one by
//! one, by filling, by invalidating, in every order.
//!
//! The translation of an address by a TLB depends only on the tables and that TLB's entries for that
//! address. So each pair of CPU and address is explored alone, and nothing is lost by it. Entries for
//! level 0 and 1 tables never change here and are left out. No entry is dropped without a TLBI: a fill
//! needs no other entry to be absent, so all that a TLB can do after an eviction it can do without it.
//!
//! A step is explored and judged at the addresses that it stirs: what TLBs can fetch, hold or may hold changes there.
//! At the others nothing was wrong before it, and nothing has changed.

use std::collections::BTreeSet;

use linmap_model::{Barrier, Core, Event, Expected, Mapping, Rule, Tlb};

use crate::descriptor::{DIRTY_MANAGED, Leaf, Meaning, READ_ONLY, SOFTWARE, span};
use crate::memory::{Memory, level_of};
use crate::places::{L2, place};
use crate::promise::in_hardware;
use crate::tlb::{Entry, Hits, Invalidation, Reachable, Stage, hits};

/// The rules that an event breaks: none, mostly.
pub(crate) type Broken = BTreeSet<Rule>;

/// An event that this model does not know how to judge.
#[derive(Debug)]
pub(crate) struct OutOfScope;

pub(crate) struct Cpu {
    pub(crate) core: Core,
    pub(crate) loaded: bool,
    pub(crate) operation: Option<Vec<Expected>>,
    /// The first and last addresses that slots translated when it changed them meanwhile: it answers for them also if another
    /// CPU unlinks the table.
    pub(crate) answers_for: Vec<(u64, u64)>,
    /// It made something valid, and has had no DSB after it, or no ISB after that.
    pub(crate) awaits_dsb: bool,
    pub(crate) awaits_isb: bool,
    /// It issued a broadcast invalidation, and has had no DSB ISH after it.
    broadcasts: bool,
    /// Its sections of reading that are open, and the tables that it may have come to since the first began.
    reads: usize,
    came_to: BTreeSet<u64>,
    /// For each watched address.
    pub(crate) tlb: Vec<Reachable>,
}

/// A watched address.
pub(crate) struct Watched {
    pub(crate) va: u64,
    /// Its slots at levels 2 and 3.
    pub(crate) slots: (usize, usize),
    /// The mapping that it has; `None` for a hole.
    pub(crate) expected: Option<Mapping>,
    /// The step at hand concerns it.
    pub(crate) stirred: bool,
}

pub(crate) struct Naive {
    pub(crate) watched: Vec<Watched>,
    /// The ASID of all trees.
    asid: u64,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) memory: Memory,
    /// The pages that are taken.
    taken: BTreeSet<u64>,
}

impl Naive {
    /// The model after a prologue, which is taken to be right: a create operation, and CPUs loading the
    /// tree.
    pub(crate) fn new(cores: &[Core], watched: &[u64], prologue: &[Event]) -> Self {
        let cpu = |(number, core): (usize, &Core)| Cpu {
            core: *core,
            loaded: false,
            operation: None,
            answers_for: Vec::new(),
            awaits_dsb: false,
            awaits_isb: false,
            broadcasts: false,
            reads: 0,
            came_to: BTreeSet::new(),
            tlb: watched.iter().map(|_| Reachable::new(number as u8)).collect(),
        };
        let address = |&va| Watched { va, slots: place(va), expected: None, stirred: true };
        let mut naive = Self {
            watched: watched.iter().map(address).collect(),
            asid: 0,
            cpus: cores.iter().enumerate().map(cpu).collect(),
            memory: Memory::new(watched),
            taken: BTreeSet::new(),
        };
        for event in prologue {
            match event {
                Event::Alloc { table, .. } => drop(naive.taken.insert(*table)),
                Event::Write { .. } => naive.store(event, None),
                Event::Begin { changes, .. } => naive.promise(changes),
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
        self.watched.iter_mut().for_each(|w| w.stirred = false);
        match event {
            Event::Write { .. } => self.write(event, &mut broken)?,
            Event::Dsb { kind, .. } => self.dsb(id, *kind)?,
            Event::Isb { .. } => self.isb(at),
            Event::Tlbi { op, operand, .. } => self.tlbi(id, *op, *operand, &mut broken)?,
            Event::Alloc { table, .. } => {
                if !self.taken.insert(*table) {
                    return Err(OutOfScope);
                }
            }
            Event::Free { table, .. } => self.free(*table, &mut broken)?,
            Event::Begin { changes, .. } => self.begin(at, changes)?,
            Event::Done { ok, .. } => self.done(at, *ok, &mut broken),
            Event::ReadBegin { .. } => self.cpus[at].reads += 1,
            Event::ReadEnd { .. } => self.read_ends(at)?,
            _ => return Err(OutOfScope),
        }
        self.note_readers();
        self.close();
        self.judge(&mut broken);
        Ok(broken)
    }

    // Readers.

    fn read_ends(&mut self, at: usize) -> Result<(), OutOfScope> {
        self.cpus[at].reads = self.cpus[at].reads.checked_sub(1).ok_or(OutOfScope)?;
        if self.cpus[at].reads == 0 {
            self.cpus[at].came_to.clear();
        }
        Ok(())
    }

    /// Who reads may come to every table that is linked.
    fn note_readers(&mut self) {
        for cpu in self.cpus.iter_mut().filter(|c| c.reads > 0) {
            cpu.came_to.extend(self.taken.iter().filter(|&&table| self.memory.is_linked(table)));
        }
    }

    fn is_read(&self, table: u64) -> bool {
        self.cpus.iter().any(|c| c.came_to.contains(&table))
    }

    // Memory.

    fn free(&mut self, table: u64, broken: &mut Broken) -> Result<(), OutOfScope> {
        if !self.taken.contains(&table) || table <= L2 {
            return Err(OutOfScope);
        }
        if self.memory.is_linked(table) || self.is_held(table) {
            broken.insert(Rule::Freed);
        }
        if self.is_read(table) {
            broken.insert(Rule::UnderReader);
        }
        self.taken.remove(&table);
        self.cpus.iter_mut().for_each(|c| _ = c.came_to.remove(&table));
        self.memory.forget(table);
        self.watched.iter_mut().for_each(|w| w.stirred = true);
        Ok(())
    }

    /// Returns true if a walk cache may lead to a table.
    fn is_held(&self, table: u64) -> bool {
        (0..self.watched.len()).any(|index| self.is_held_for(index, table))
    }

    /// Returns true if a walk cache may lead to a table for an address that is not below it.
    fn is_held_elsewhere(&self, table: u64) -> bool {
        let below = |w: &Watched| self.memory.child(w.slots.0) == Some(table);
        let mut watched = self.watched.iter().enumerate();
        watched.any(|(index, w)| !below(w) && self.is_held_for(index, table))
    }

    fn is_held_for(&self, index: usize, table: u64) -> bool {
        let mut all = self.cpus.iter().map(|c| &c.tlb[index]);
        all.any(|tlb| tlb.entries_of(tlb.used()).any(|e| *e == Entry::Table(table)))
    }

    /// Stores, by a CPU whose DSB must follow or by none.
    fn store(&mut self, event: &Event, by: Option<u8>) {
        let Event::Write { table, index, value, count, step, .. } = event else { return };
        let stored = *index..index + count;
        for slot in self.memory.watched(*table).to_vec() {
            if stored.contains(&slot) {
                let value = value.wrapping_add(step.wrapping_mul((slot - index) as u64));
                self.memory.store((*table, slot), value, by);
            }
        }
        // A slot answers for the whole run that it may be in.
        let runs = index >> 4..=(index + count - 1) >> 4;
        for w in &mut self.watched {
            let slot = if level_of(*table) == 2 { w.slots.0 } else { w.slots.1 };
            w.stirred |= runs.contains(&(slot >> 4));
        }
    }

    fn write(&mut self, event: &Event, broken: &mut Broken) -> Result<(), OutOfScope> {
        let &Event::Write { cpu, table, index, value, count, was, .. } = event else {
            return Err(OutOfScope);
        };
        if table < L2 || !self.taken.contains(&table) || count == 0 {
            return Err(OutOfScope);
        }
        if !self.memory.is_linked(table) && self.is_read(table) {
            broken.insert(Rule::UnderReader);
        }
        if self.memory.is_linked(table) {
            let level = level_of(table);
            let Some((old_value, old)) = self.memory.newest((table, index)) else { return Err(OutOfScope) };
            if count > 1 {
                return Err(OutOfScope);
            }
            if was.is_some_and(|w| w != old_value) {
                broken.insert(Rule::LostUpdate);
            }
            if value == old_value {
                return Ok(());
            }
            let now = crate::descriptor::meaning(value, level);
            ill_formed(now, broken);
            if let Meaning::Table(child) = now
                && now != old
            {
                self.link(child, broken)?;
            }
            let faults = |m: Meaning| m.translating().is_none() && !matches!(m, Meaning::Table(_));
            if faults(old) && !faults(now) {
                self.cpus[usize::from(cpu)].awaits_dsb = true;
            }
            let translated = self.translated((table, index), 1);
            self.cpus[usize::from(cpu)].answers_for.extend(translated);
        }
        if self.is_held_elsewhere(table) {
            broken.insert(Rule::Freed);
        }
        self.store(event, Some(cpu));
        if self.memory.is_linked(table) && self.run_disagrees(table, index) {
            broken.insert(Rule::ContiguousRun);
        }
        Ok(())
    }

    /// Returns true if walkers may see a contiguous bit in the run of a slot, and in some slot of it a leaf that is
    /// wrong for another one: any of them may be used for all (RNGLXZ, RJQQTC).
    fn run_disagrees(&self, table: u64, slot: usize) -> bool {
        let level = level_of(table);
        let (run, bytes) = (slot & !15, span(level));
        let seen: Vec<(usize, Leaf)> = (run..run + 16)
            .flat_map(|mate| {
                let seen = self.memory.visible((table, mate));
                seen.filter_map(Meaning::translating).map(move |leaf| (mate, leaf))
            })
            .collect();
        if !seen.iter().any(|(_, leaf)| leaf.contiguous) {
            return false;
        }
        for w in &self.watched {
            let at = if level == 2 { w.slots.0 } else { w.slots.1 };
            let in_table = level == 2 || self.memory.child(w.slots.0) == Some(table);
            let in_run = (run..run + 16).contains(&at);
            if !in_table || !in_run || self.memory.newest_leaf((table, at)).is_none() {
                continue;
            }
            let allowed = self.allowed(w);
            let wrong = |&(mate, leaf): &(usize, Leaf)| {
                let apart = (at as u64).wrapping_sub(mate as u64).wrapping_mul(bytes);
                let oa = leaf.oa.wrapping_add(apart).wrapping_add(w.va & (bytes - 1));
                let said = (oa, leaf.attributes & !SOFTWARE);
                !allowed.iter().any(|m| m.and_then(in_hardware) == Some(said))
            };
            if seen.iter().any(wrong) {
                return true;
            }
        }
        false
    }

    /// A table is about to become reachable.
    fn link(&self, child: u64, broken: &mut Broken) -> Result<(), OutOfScope> {
        if child <= L2 || !self.taken.contains(&child) || self.memory.is_linked(child) {
            return Err(OutOfScope);
        }
        for &slot in self.memory.watched(child) {
            let seen = self.memory.seen((child, slot));
            if seen.is_empty() || seen.iter().any(|s| s.by.is_some()) {
                broken.insert(Rule::Unfilled);
            }
            if seen.is_empty() {
                // The content of a fresh page can be whatever breaks a rule.
                broken.extend([Rule::Translation, Rule::BreakBeforeMake, Rule::SizeConflict, Rule::InUse]);
            }
            seen.iter().for_each(|s| ill_formed(s.meaning, broken));
        }
        Ok(())
    }

    // Barriers and invalidations.

    fn dsb(&mut self, id: u8, kind: Barrier) -> Result<(), OutOfScope> {
        let at = usize::from(id);
        // A CPU's own walker sees its stores after any DSB.
        if matches!(kind, Barrier::Ish | Barrier::Ishst) || self.cpus.len() == 1 {
            if !self.memory.settle(id) {
                return Err(OutOfScope);
            }
            let cpu = &mut self.cpus[at];
            cpu.awaits_isb |= std::mem::take(&mut cpu.awaits_dsb);
        }
        let completes = |i: &Invalidation| match kind {
            Barrier::Ish => true,
            Barrier::Nsh => !i.broadcast,
            // It is given no others.
            _ => false,
        };
        let another = kind == Barrier::Ish && std::mem::take(&mut self.cpus[at].broadcasts);
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            for (w, tlb) in self.watched.iter_mut().zip(&mut cpu.tlb).filter(|(_, tlb)| tlb.waits()) {
                w.stirred = true;
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
        Ok(())
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
        let by_range = op.to_string().starts_with('r');
        self.cpus[usize::from(id)].broadcasts |= broadcast;
        for (index, w) in self.watched.iter_mut().enumerate() {
            let hits = reach(w.va);
            if hits == Hits::default() {
                continue;
            }
            w.stirred = true;
            for (number, cpu) in self.cpus.iter_mut().enumerate() {
                // A TLBI by range need not reach a CPU that has none.
                let reaches = cpu.core.range_tlbi || !by_range;
                if (broadcast && reaches) || number == usize::from(id) {
                    cpu.tlb[index].issue(Invalidation { hits, by: id, broadcast, stage: Stage::Issued });
                }
            }
        }
        Ok(())
    }

    // What TLBs may hold.

    /// Adds the leaves of a table that a walker which has come to it may cache for an address.
    fn leaves(&self, w: &Watched, table: u64, entries: &mut Vec<Entry>) {
        let level = level_of(table);
        let slot = if level == 2 { w.slots.0 } else { w.slots.1 };
        let within = w.va & (span(level) - 1);
        let mut add = |leaf: Leaf, oa: u64| {
            let attributes = leaf.attributes & !SOFTWARE;
            entries.push(Entry::Leaf { level, run: leaf.contiguous, oa: oa + within, attributes });
        };
        let run = slot & !15;
        for mate in run..run + 16 {
            for leaf in self.memory.visible((table, mate)).filter_map(Meaning::translating) {
                if mate == slot {
                    add(leaf, leaf.oa);
                }
                // As though the whole run were one leaf, aligned as a whole.
                if leaf.contiguous {
                    add(leaf, (leaf.oa & !(16 * span(level) - 1)) + (slot - run) as u64 * span(level));
                }
            }
        }
    }

    /// Adds all contents that fills and invalidations can bring about, in every order.
    fn close(&mut self) {
        for index in (0..self.watched.len()).filter(|&index| self.watched[index].stirred).collect::<Vec<_>>()
        {
            let w = &self.watched[index];
            // By walking from the root: level 2 leaves, tables, and what is in these.
            let mut from_root = Vec::new();
            self.leaves(w, L2, &mut from_root);
            for meaning in self.memory.visible((L2, w.slots.0)) {
                if let Meaning::Table(child) = meaning {
                    from_root.push(Entry::Table(child));
                    self.leaves(w, child, &mut from_root);
                }
            }
            // By walking on from a walk cache.
            let known = self.cpus.iter().flat_map(|c| c.tlb[index].entries());
            let children: BTreeSet<u64> = known.filter_map(Entry::table).collect();
            let from_table = |child| {
                let mut leaves = Vec::new();
                self.leaves(w, child, &mut leaves);
                (child, leaves)
            };
            let from_table: Vec<_> = children.into_iter().map(from_table).collect();
            for cpu in self.cpus.iter_mut().filter(|c| c.loaded) {
                cpu.tlb[index].close(&from_root, &from_table);
            }
        }
    }
}

/// Notes a descriptor that no live table may have.
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
