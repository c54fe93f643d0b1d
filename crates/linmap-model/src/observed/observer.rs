//! The observer: takes steps, keeps what CPUs have loaded and may hold, and reports.

use std::collections::{BTreeMap, HashMap, VecDeque};

use linmap::{Attributes, Geometry, Va};

use super::cpu::Cpu;
use super::held::{self, Held, Kind};
use super::memory::Memory;
use super::report::{Finding, Grade, Step, Stored};
use super::sites::Sites;
use super::tree::{Format, Moved, Tables, TreeId};
use crate::asid::Asid;
use crate::{CpuId, Event, Register, Rule, Setup, Update};

/// A tree that CPUs have loaded.
pub(super) struct Tree {
    /// The format of its tables, by the registers of the CPU that loaded it last.
    pub(super) format: Format,
    /// The CPUs that have it loaded, as bits.
    pub(super) users: u64,
    /// Of the upper half: the CPUs that had it and may hold entries of it. Those of the lower half know the ASIDs.
    pub(super) left: u64,
    /// The ASIDs that it was loaded under.
    pub(super) asids: Vec<u16>,
}

/// A tree that CPUs have loaded at any time.
#[derive(Default)]
struct Known {
    /// The number of times that a CPU came to it.
    loads: usize,
    /// A CPU has returned to a program in it.
    runs_programs: bool,
}

/// The events that are kept for findings, and those that are shown.
const KEPT: usize = 256;
const SHOWN: usize = 12;
/// The words of the largest table.
const MOST_WORDS: usize = 1 << 13;
/// The loads of a tree of the lower half after which a CPU has returned to a program in it, or it is no process but a map of the kernel's.
const LOADS: usize = 16;
/// The events after which a CPU that neither returned nor idled has ended what it did.
const LONG: usize = 4_000_000;

/// Judges what CPUs do.
pub struct Observer<M> {
    pub(super) memory: M,
    pub(super) geometry: Geometry,
    pub(super) cpus: Vec<Cpu>,
    pub(super) trees: HashMap<TreeId, Tree>,
    /// The trees that CPUs have loaded at any time.
    known: HashMap<TreeId, Known>,
    pub(super) tables: Tables,
    pub(super) held: Held,
    pub(super) now: usize,
    log: VecDeque<(usize, u64, Event)>,
    pub(super) found: BTreeMap<(Grade, Rule, u64), Finding>,
    pub(super) unknown: usize,
    /// The number of times that a tree was read whose root is known.
    pub(super) roots: usize,
    pub(super) sites: Sites,
    /// The first value of VBAR_EL1 in the upper half.
    pub(super) vectors: Option<u64>,
}

impl<M: Memory> Observer<M> {
    /// Returns an observer of a machine that has done nothing yet. The geometry of the setup is that of CPUs that write no TCR.
    ///
    /// # Errors
    ///
    /// The mistake in the setup; it has 1 to 64 CPUs.
    pub fn new(setup: &Setup, memory: M) -> Result<Self, String> {
        setup.check()?;
        Ok(Self {
            memory,
            geometry: setup.geometry,
            cpus: setup.cores.iter().map(|&core| Cpu::new(core)).collect(),
            trees: HashMap::new(),
            known: HashMap::new(),
            tables: Tables::default(),
            held: Held::default(),
            now: 0,
            log: VecDeque::with_capacity(KEPT),
            found: BTreeMap::new(),
            unknown: 0,
            roots: 0,
            sites: Sites::default(),
            vectors: None,
        })
    }

    /// Takes a step that a CPU made at `pc`; 0 if that is not known. Events that only announce are passed over.
    pub fn step(&mut self, event: &Event, pc: u64) {
        let step = Step { cpu: event.cpu(), pc, at: self.now };
        if let Event::Link { table, words, unordered, .. } = event {
            // What a page has is no event of the code: a running machine has the memory itself.
            let known = unordered.iter().filter(|cpu| usize::from(**cpu) < self.cpus.len());
            return self.memory.link(*table, words, known.fold(0, |bits, cpu| bits | 1 << cpu));
        }
        self.now += 1;
        if usize::from(step.cpu) >= self.cpus.len() {
            return;
        }
        match *event {
            Event::Write { table, index, value, count, step: by, .. } => {
                for n in 0..count.min(MOST_WORDS) as u64 {
                    let pa = table.wrapping_add((index as u64).wrapping_add(n).wrapping_mul(8));
                    self.store(event, step, pa, value.wrapping_add(by.wrapping_mul(n)));
                }
            }
            Event::Cas { table, index, value, was, .. } => {
                let pa = table.wrapping_add((index as u64).wrapping_mul(8));
                if self.tables.slot(pa).is_none_or(|slot| self.tables.word(slot) == Some(was)) {
                    self.store(event, step, pa, value);
                }
            }
            Event::Update { table, index, what, .. } => {
                self.walker(table.wrapping_add((index as u64).wrapping_mul(8)), what);
            }
            Event::Access { va, .. } => self.access(event, step, va),
            _ => self.note(event, step),
        }
        match *event {
            Event::Dsb { kind, .. } => self.dsb(step, kind),
            Event::Release { .. } => self.memory.barrier(step.cpu),
            Event::Isb { .. } => {
                self.synchronise(step);
                self.cpu(step).last_isb = step.at;
            }
            Event::Exception { .. } => self.synchronise(step),
            Event::Tlbi { op, operand, .. } => self.tlbi(step, op, operand),
            Event::Msr { register, value, .. } => self.msr(step, register, value),
            Event::Reset { .. } => self.reset(step),
            // The return is a context synchronisation, and so is the interrupt that ends idling.
            Event::Leave { .. } => {
                self.ends(step);
                self.synchronise(step);
            }
            _ => {}
        }
    }

    /// All CPUs have ended what they did: what is left has no step any more that could mend it. Of a machine that was ended from outside
    /// that is not known.
    pub fn finish(&mut self) {
        for cpu in 0..self.cpus.len() as CpuId {
            self.cpus[usize::from(cpu)].process_since = 0;
            self.ends(Step { cpu, pc: 0, at: self.now });
        }
    }

    pub(super) fn note(&mut self, event: &Event, step: Step) {
        if self.log.len() == KEPT {
            self.log.pop_front();
        }
        self.log.push_back((step.at, step.pc, event.clone()));
    }

    pub(super) fn cpu(&mut self, step: Step) -> &mut Cpu {
        &mut self.cpus[usize::from(step.cpu)]
    }

    /// Reports a finding, or counts it if the same rule was broken at the same place.
    pub(super) fn report(&mut self, mut finding: Finding) {
        let place = match finding.step.pc {
            0 => finding.stored.map_or(0, |stored| stored.step.pc),
            pc => pc,
        };
        let key = (finding.grade, finding.rule, place);
        if let Some(known) = self.found.get_mut(&key) {
            known.count += 1;
            return;
        }
        let since = finding.stored.map_or(0, |stored| stored.step.at);
        let last = self.log.iter().filter(|(at, ..)| *at >= since);
        let shown: Vec<_> = last.cloned().collect();
        finding.events = shown[shown.len().saturating_sub(SHOWN)..].to_vec();
        self.found.insert(key, finding);
    }

    fn reset(&mut self, step: Step) {
        self.unload(step, 0);
        self.unload(step, 1);
        self.cpu(step).reset();
        self.held.forget(step.cpu);
        self.trees.values_mut().for_each(|tree| tree.left &= !(1 << step.cpu));
    }

    fn msr(&mut self, step: Step, register: Register, value: u64) {
        self.cpu(step).set(register, value);
        match register {
            Register::Ttbr0 => self.load(step, 0),
            Register::Ttbr1 => {
                self.load(step, 1);
                if self.cpu(step).is_asid_in_ttbr1() {
                    self.load(step, 0);
                }
            }
            Register::Tcr | Register::Mair | Register::Sctlr => {
                self.load(step, 1);
                self.load(step, 0);
            }
            // Kernels with KPTI change between several.
            Register::Vbar if value >> 55u32 & 1 == 1 => self.vectors = self.vectors.or(Some(value)),
            _ => {}
        }
    }

    /// Takes what the registers say of a half.
    fn load(&mut self, step: Step, half: usize) {
        let default = self.geometry;
        let cpu = &self.cpus[usize::from(step.cpu)];
        let Some(format) = cpu.format(half, default) else {
            self.unknown += usize::from(cpu.has_tree(half));
            return self.unload(step, half);
        };
        let (wanted, asid) = (cpu.tree(half, &format), cpu.asid());
        let loaded = cpu.loaded[half];
        let is_same = |tree: &Tree| tree.format.geometry == format.geometry;
        let is_kept = loaded.is_some_and(|id| self.trees.get(&id).is_some_and(is_same));
        match wanted {
            Some(wanted) if half == 1 && is_kept && Some(wanted) != loaded => self.change_upper(step, wanted),
            _ if wanted != loaded || !is_kept => self.unload(step, half),
            _ => {}
        }
        let Some(id) = wanted else { return };
        let comes = self.trees.get(&id).is_none_or(|tree| tree.users >> step.cpu & 1 == 0);
        let known = self.trees.get(&id).map(|tree| tree.format);
        if known.is_none_or(|known| known.geometry != format.geometry) {
            // Tables that are in use are read anew, by the format of the CPU that comes.
            if let Some(old) = known {
                self.tables.unlink(id.root, old.root(id), &old, &mut Moved::default());
            }
            let mut moved = Moved::default();
            self.tables.link(id.root, format.root(id), &format, &mut self.memory, &mut moved);
            self.unknown += moved.unknown;
            let tree = Tree { format, users: 0, left: 0, asids: Vec::new() };
            self.trees.entry(id).or_insert(tree).format = format;
            let stored = Stored { step, slot: 0, old: 0, new: id.root };
            if half == 1 {
                self.changes_runs(stored, id, &[], &moved.leaves);
            }
            self.roots += usize::from(self.tables.get(id.root).is_some());
            // In a tree that CPUs have had before, the tables below the root were linked before: a page that another CPU maps in one of
            // them needs no barrier.
            if self.known.contains_key(&id) {
                moved
                    .unordered
                    .iter_mut()
                    .filter(|(table, _)| *table != id.root)
                    .for_each(|(_, cpus)| *cpus &= 1 << step.cpu);
            }
            self.not_filled(stored, id, &moved);
        }
        let Some(tree) = self.trees.get_mut(&id) else { return };
        tree.format = format;
        tree.users |= 1 << step.cpu;
        if !tree.asids.contains(&asid) {
            tree.asids.push(asid);
        }
        self.held.newcomer(step.cpu, id);
        let is_empty = self.is_empty(id);
        let cpu = self.cpu(step);
        cpu.loaded[half] = Some(id);
        if comes {
            self.comes_back(step, id, asid);
        }
        let known = self.known.entry(id).or_default();
        known.loads += usize::from(comes);
        let may_be_process = known.runs_programs || known.loads < LOADS;
        let cpu = self.cpu(step);
        if half == 0 && !is_empty && may_be_process && cpu.process != Some(id) {
            cpu.process = Some(id);
            cpu.process_since = step.at;
        }
        if half == 0 && !is_empty {
            let before = cpu.asids.insert(asid, id);
            if let Some(before) = before.filter(|before| *before != id) {
                self.report(Finding {
                    facts: vec![format!(
                        "ASID {asid:#x} was that of the tables at {:#x} on this CPU, and no invalidation came since",
                        before.root
                    )],
                    right: "TLBI ASIDE1 or VMALLE1, DSB and ISB before an ASID is used anew",
                    holders: 1 << step.cpu,
                    ..Finding::new(Grade::Breach, Rule::TtbrSwitch, step)
                });
            }
        }
    }

    /// Returns true if a tree translates nothing.
    fn is_empty(&self, id: TreeId) -> bool {
        self.tables.get(id.root).is_none_or(|table| table.words.iter().all(|word| word & 1 == 0))
    }

    /// A CPU goes from one tree of the upper half to another. Two that it goes back and forth between are both as if loaded: that of the
    /// kernel and that of its entry, with KPTI.
    fn change_upper(&mut self, step: Step, wanted: TreeId) {
        let cpu = self.cpu(step);
        let (left, twin, before) = (cpu.loaded[1], cpu.twin, cpu.before);
        // A root without entries is where a CPU waits while the kernel's tree changes.
        let waits = left.is_some_and(|left| self.is_empty(left)) || self.is_empty(wanted);
        let cpu = self.cpu(step);
        if [twin, before].contains(&Some(wanted)) && !waits {
            cpu.twin = left;
            cpu.before = None;
            cpu.loaded[1] = None;
            if let Some(third) = twin.filter(|twin| *twin != wanted) {
                self.leave(step, third);
            }
        } else {
            self.unload(step, 1);
            self.cpu(step).before = left;
        }
    }

    /// A CPU leaves the tree of a half, and the other one that it had in turn with it.
    fn unload(&mut self, step: Step, half: usize) {
        let cpu = self.cpu(step);
        let loaded = cpu.loaded[half].take();
        let twin = if half == 1 { cpu.twin.take() } else { None };
        // If the tree is empty and the CPU holds nothing of it, it holds nothing under its ASID either.
        if let Some(id) = loaded
            .filter(|id| half == 0 && self.is_empty(*id) && self.held.of_cpu(*id, step.cpu).next().is_none())
        {
            self.cpu(step).asids.retain(|_, tree| *tree != id);
        }
        [loaded, twin].into_iter().flatten().for_each(|id| self.leave(step, id));
    }

    /// A CPU leaves a tree. Trees that no CPU has loaded are forgotten.
    fn leave(&mut self, step: Step, id: TreeId) {
        let Some(tree) = self.trees.get_mut(&id) else { return };
        tree.users &= !(1 << step.cpu);
        tree.left |= 1 << step.cpu;
        if tree.users != 0 {
            return;
        }
        for (entry, old) in self.held.open(id) {
            let kind = self.present(&old);
            self.held.settle(entry, kind);
        }
        if let Some(Tree { format, .. }) = self.trees.remove(&id) {
            self.tables.unlink(id.root, format.root(id), &format, &mut Moved::default());
        }
    }

    /// The walker of a CPU writes to a descriptor.
    fn walker(&mut self, pa: u64, what: Update) {
        let Some(slot) = self.tables.slot(pa) else { return };
        let Some(old) = self.tables.word(slot) else { return };
        let new = match what {
            Update::Accessed => old | Attributes::ACCESSED.bits(),
            Update::Dirty => (old | Attributes::ACCESSED.bits()) & !Attributes::READ_ONLY.bits(),
        };
        self.tables.set(slot, new);
        self.memory.update(pa, new);
    }

    /// A CPU uses an address. What it made valid itself has to be visible to its own walker. Most accesses concern nothing, and cost
    /// next to nothing.
    fn access(&mut self, event: &Event, step: Step, va: u64) {
        if self.cpu(step).fresh.is_empty() {
            return;
        }
        let half = usize::from(va >> 55u32 & 1 == 1);
        let fresh = &self.cpus[usize::from(step.cpu)].fresh;
        let Some(fresh) =
            fresh.iter().rev().find(|f| f.half == half && f.first <= va && va <= f.last).copied()
        else {
            return;
        };
        self.note(event, step);
        let lacks = if fresh.visible { "no ISB" } else { "no DSB" };
        self.report(Finding {
            va: Some(Va(va)),
            facts: vec![format!("event {} made it valid, and there was {lacks} since", fresh.step.at)],
            right: "DSB ISHST and ISB before what was mapped is used",
            ..Finding::new(
                Grade::Breach,
                if fresh.visible { Rule::Unsynchronised } else { Rule::NotVisible },
                step,
            )
        });
    }

    /// A CPU returns to a lower level, or idles: it has ended what it did since it runs this process. What it began before is that of
    /// another one, which may have been interrupted and goes on later.
    fn ends(&mut self, step: Step) {
        self.runs_agree(step);
        if let Some(tree) = self.cpu(step).loaded[0] {
            self.known.entry(tree).or_default().runs_programs = true;
        }
        let long = self.now.saturating_sub(LONG);
        let since = self.cpu(step).process_since;
        let open = self.held.report(step.cpu, since, long);
        open.iter().for_each(|entry| self.left_behind(entry, step));
    }

    fn left_behind(&mut self, entry: &held::Entry, step: Step) {
        let Some(kind) = self.present(entry) else { return };
        let (grade, fact) = match kind {
            Kind::Same | Kind::Stricter => {
                (Grade::Hint, "the new entry permits no less, and the old one may be held")
            }
            Kind::Aged => (Grade::Hint, "the access flag was cleared, and the entry may be held"),
            Kind::Removed | Kind::Restricted if entry.leaf.is_none() => {
                (Grade::Suspect, "walk caches may lead to a table that was unlinked")
            }
            Kind::Removed => (Grade::Suspect, "the old entry may be held, and nothing is there any more"),
            Kind::Restricted => (Grade::Suspect, "the old entry may be held, and the new one differs"),
        };
        let mut facts = vec![fact.to_owned()];
        facts.extend(entry.leaf.map(|leaf| leaf.describe()));
        let missed = self.missed(entry);
        facts.push(match missed {
            Some(_) => "an invalidation came, and missed it".to_owned(),
            None => "no invalidation came".to_owned(),
        });
        let stored = Some(entry.stored);
        self.report(Finding {
            va: Some(Va(entry.first)),
            facts,
            right: "DSB, a TLBI of these addresses on all CPUs, DSB and ISB after the store",
            stored,
            missed,
            holders: entry.holders,
            ..Finding::new(grade, Rule::Stale, Step { pc: entry.stored.step.pc, ..step })
        });
    }

    /// The ASIDs of a leaf of a tree.
    pub(super) fn asids(&self, tree: TreeId, is_global: bool) -> Vec<Asid> {
        let of = self.trees.get(&tree).map(|tree| &tree.asids[..]).unwrap_or_default();
        if is_global { vec![Asid::Global] } else { of.iter().map(|&asid| Asid::Of(asid)).collect() }
    }
}
