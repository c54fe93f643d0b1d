//! The machine: CPUs, tables, and everything that TLBs may hold. One event after another, each judged.
//!
//! TLB fills are passive and happen whenever they can. So for each CPU the set of all entries that its TLB can hold is
//! exact, and no interleaving of fills is explored: it is the entries of the tables, which any walker may have cached,
//! and the earlier ones that no invalidation has dropped since (`stale.rs`).
//!
//! The files below this one take the events: stores (`store.rs`), barriers and invalidations (`maintenance.rs`),
//! registers and parking (`switch.rs`, with what they say in `registers.rs` and `control.rs`), reset and translation
//! that is turned on and off (`power.rs`), registers of EL2 and the entries of each regime (`regime.rs`), tables that
//! are written meanwhile (`uncached.rs`), trees that replace others (`succession.rs`), their ASIDs (`asids.rs`),
//! CPUs that share TLB entries (`common.rs`), table pages (`frames.rs`), pages with two addresses (`alias.rs`),
//! the translations that lead to a page (`reach.rs`) and what is known of it (`known.rs`, `given.rs`,
//! `elsewhere.rs`, `memory_types.rs`), permissions that TLBs may keep (`spurious.rs`), the use of addresses
//! (`access.rs`), walkers that store (`hardware_update.rs`), the members of contiguous runs (`run.rs`), the order
//! in which walkers see stores into them (`run_order.rs`), walks of several levels (`walk_order.rs`), operations with
//! their promises (`operation.rs`), and the contract of callers at the same time: those that have not invalidated yet
//! (`pending.rs`), leaves that stay split (`stays_split.rs`), and readers without a lock (`readers.rs`).

mod access;
mod alias;
mod asids;
mod common;
mod control;
mod elsewhere;
mod frames;
mod given;
mod hardware_update;
mod known;
mod maintenance;
mod memory_types;
mod operation;
mod pending;
mod power;
mod reach;
mod readers;
mod regime;
mod registers;
mod run;
mod run_order;
mod spurious;
mod stays_split;
mod store;
mod succession;
mod switch;
mod uncached;
mod walk_order;

use std::collections::{HashMap, VecDeque};

use linmap::{Geometry, Half, Pa, Va};

use self::registers::Registers;
use crate::cache_lines::Uncached;
use crate::code::Code;
use crate::flat::Flat;
use crate::pages::{Pages, Place};
use crate::physical::{Physical, Ranges};
use crate::space::{Context, Space};
use crate::stale::{Issued, Stale};
use crate::{Breach, Core, CpuId, Event, Expected, Register, Rule, Setup};

/// A machine that judges every step.
pub struct Machine {
    setup: Setup,
    pages: Pages,
    cpus: Vec<Cpu>,
    /// The stale entries of EL1&0 with VMID 0, and those of other regimes and VMIDs.
    stale: Stale,
    other_stale: Vec<(Space, Stale)>,
    /// Facts about physical pages.
    physical: Physical,
    /// The translations that each tree must have, by its root.
    expected: HashMap<u64, Flat>,
    /// Roots that others have replaced: the old one and the new one.
    replaced: Vec<(u64, u64)>,
    code: Code,
    /// True if some CPU's walkers update descriptors.
    hardware_updates: bool,
    uncached: Uncached,
    /// True if CPUs may use one another's TLB entries.
    shared_entries: bool,
    /// Stores that made something valid, until their CPU's next DSB.
    fresh: Vec<Fresh>,
    /// The sizes of leaves that stay split and were made holes, by the roots of their trees. While their addresses are in use
    /// the leaves that come there are no larger.
    broken: HashMap<u64, Ranges>,
    /// The trees that CPUs used and none does any more, by their roots: the event at which the last one left.
    left_at: HashMap<u64, usize>,
    /// The number of the event at hand.
    now: usize,
    /// The last events, with their numbers.
    log: VecDeque<(usize, Event)>,
    breach: Option<Box<Breach>>,
}

/// One CPU.
struct Cpu {
    core: Core,
    reported: bool,
    parked: bool,
    /// The values that it wrote to its registers.
    registers: Registers,
    /// The trees that it walks for each half, once loaded.
    ttbr: [Option<Ttbr>; Register::SLOTS],
    /// The last trees before these with an announced operation.
    came_from: [Option<u64>; Register::SLOTS],
    /// Trees that were loaded before, with entries that no invalidation has dropped.
    left: Vec<Left>,
    /// The fields of its EL2 registers that an invalidation depends on.
    context: Context,
    /// Invalidations since the last DSB, and those that wait for this CPU's ISB.
    issued: Vec<Issued>,
    awaiting_isb: Vec<Issued>,
    /// The last ISB, and the last DSB that made visible what was stored to make something valid.
    isb_at: usize,
    settled_at: usize,
    operation: Option<Operation>,
    /// The events at which it began to read, of sections that it has not ended, and the tables that it has come to.
    reads_since: Vec<usize>,
    came_to: Vec<u64>,
}

/// A translation table base register.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ttbr {
    root: u64,
    asid: u16,
    space: Space,
}

/// A tree that a CPU uses no more.
struct Left {
    half: usize,
    ttbr: Ttbr,
    /// The ISB after which it walks it no more.
    until: Option<usize>,
}

/// An operation that has begun.
struct Operation {
    root: u64,
    name: String,
    changes: Vec<Expected>,
    /// The addresses that its stores touched.
    touched: Vec<(u64, u64)>,
    /// The addresses of its stores that made a leaf valid or linked a table. Whether anything is valid there is asked at the end, since a
    /// table may lead to nothing valid.
    made_valid: Vec<(u64, u64)>,
    since: usize,
}

/// A store that made something valid and that walkers may not see yet.
struct Fresh {
    cpu: CpuId,
    root: u64,
    /// The table and the slot; `None` once the table has been given back.
    slot: Option<(u64, usize)>,
    span: (u64, u64),
}

/// The number of events that are kept for the report of a breach, and the number that are shown.
const KEPT: usize = 1024;
const SHOWN: usize = 24;

type Verdict = Result<(), Box<Breach>>;

/// A fault under construction.
struct Finding {
    rule: Rule,
    cpu: Option<CpuId>,
    va: Option<u64>,
    facts: Vec<String>,
}

impl Finding {
    fn new(rule: Rule, fact: impl Into<String>) -> Self {
        Self { rule, cpu: None, va: None, facts: vec![fact.into()] }
    }

    fn on(self, cpu: CpuId) -> Self {
        Self { cpu: Some(cpu), ..self }
    }

    fn at(self, va: u64) -> Self {
        Self { va: Some(va), ..self }
    }

    fn and(mut self, fact: impl Into<String>) -> Self {
        self.facts.push(fact.into());
        self
    }
}

impl Machine {
    /// Returns a machine before its first event: no tables, and no CPU on a tree. Translation is on in all CPUs, as the
    /// setup says. Only the first has reported its features.
    ///
    /// # Errors
    ///
    /// The mistake in the setup.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        setup.check()?;
        if setup.cores.len() > 8 {
            return Err(format!("{} CPUs: the model has 1 to 8", setup.cores.len()));
        }
        let cpu = |(number, &core): (usize, &Core)| Cpu {
            core,
            reported: number == 0,
            parked: false,
            registers: Registers::new(),
            ttbr: [None; Register::SLOTS],
            came_from: [None; Register::SLOTS],
            left: Vec::new(),
            context: Context::default(),
            issued: Vec::new(),
            awaiting_isb: Vec::new(),
            isb_at: 0,
            settled_at: 0,
            operation: None,
            reads_since: Vec::new(),
            came_to: Vec::new(),
        };
        Ok(Self {
            pages: Pages::new(setup),
            cpus: setup.cores.iter().enumerate().map(cpu).collect(),
            stale: Stale::default(),
            physical: Physical::default(),
            other_stale: Vec::new(),
            expected: HashMap::new(),
            replaced: Vec::new(),
            code: Code::default(),
            hardware_updates: setup.cores.iter().any(|c| c.hardware_access_flag || c.hardware_dirty_state),
            uncached: Uncached::default(),
            shared_entries: setup.cores.iter().any(|c| c.cnp),
            fresh: Vec::new(),
            broken: HashMap::default(),
            left_at: HashMap::new(),
            now: 0,
            log: VecDeque::new(),
            breach: None,
            setup: setup.clone(),
        })
    }

    /// Returns the description of this machine.
    pub const fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Returns the number of events so far.
    pub const fn events(&self) -> usize {
        self.now
    }

    /// Returns the contents of a slot, if there is such a slot and its page is taken.
    pub fn read(&self, table: Pa, index: usize) -> Option<u64> {
        self.pages.get(table.0)?.words.get(index).copied()
    }

    /// Returns the words of a table page that is taken.
    pub(crate) fn words(&self, table: u64) -> &[u64] {
        self.pages.get(table).map_or(&[], |page| &page.words)
    }

    /// Returns true if a page is taken and no walker reaches it.
    pub(crate) fn is_offline(&self, table: u64) -> bool {
        self.pages.get(table).is_some_and(|p| p.state == crate::pages::State::Offline)
    }

    /// Judges a CPU's read of a table. That is no event, but the address must translate.
    pub(crate) fn reads(&mut self, cpu: CpuId, table: u64) -> Verdict {
        self.verdict()?;
        match self.can_read(cpu, table) {
            Ok(()) => self.note_read(cpu, table),
            Err(finding) => self.breach = Some(self.breach_of(finding)),
        }
        self.verdict()
    }

    /// Judges a CPU that is about to wait for the lock.
    pub(crate) fn locks(&mut self, cpu: CpuId) -> Verdict {
        self.verdict()?;
        if let Err(finding) = self.not_while_parked(cpu, "takes the lock") {
            self.breach = Some(self.breach_of(finding));
        }
        self.verdict()
    }

    /// The CPUs that use tables in the upper half, and the values of their TTBR1.
    pub(crate) fn users_of_upper_half(&self) -> Vec<(CpuId, u64)> {
        let loaded = self.cpus.iter().enumerate().filter_map(|(n, c)| Some((n as CpuId, c.ttbr[1]?)));
        loaded.map(|(n, t)| (n, (t.root & ((1 << 48u32) - 1)) | (t.root >> 48u32) << 2u32)).collect()
    }

    /// Takes a step. After a breach the machine stays where it is: every step returns that breach.
    ///
    /// # Errors
    ///
    /// The rule that the step breaks.
    pub fn step(&mut self, event: Event) -> Result<(), Box<Breach>> {
        self.verdict()?;
        if self.log.len() == KEPT {
            self.log.pop_front();
        }
        self.log.push_back((self.now, event.clone()));
        let roots = self.roots_before(&event);
        let judged = self.judge(event);
        self.note_left(&roots);
        let verdict = judged.map_err(|f| self.breach_of(f));
        if let Err(breach) = &verdict {
            self.breach = Some(breach.clone());
        }
        self.now += 1;
        verdict
    }

    /// Returns the verdict so far.
    ///
    /// # Errors
    ///
    /// The first breach.
    pub fn verdict(&self) -> Verdict {
        self.breach.clone().map_or(Ok(()), Err)
    }

    /// Returns true after a breach.
    pub(crate) const fn has_stopped(&self) -> bool {
        self.breach.is_some()
    }

    /// Judges the machine at rest: every page of every tree in use translates as it must, no operation
    /// is open, and no table page is lost.
    ///
    /// # Errors
    ///
    /// The first breach.
    pub fn finish(&self) -> Verdict {
        self.verdict()?;
        self.at_rest().map_err(|f| self.breach_of(f))
    }

    fn breach_of(&self, finding: Finding) -> Box<Breach> {
        let Finding { rule, cpu, va, facts } = finding;
        let shown = self.log.len().saturating_sub(SHOWN);
        let events = self.log.iter().skip(shown).cloned().collect();
        let at = self.log.back().map_or(0, |(number, _)| *number);
        Box::new(Breach { rule, at, cpu, va: va.map(Va), facts, events })
    }

    fn judge(&mut self, event: Event) -> Result<(), Finding> {
        let cpu = event.cpu();
        if usize::from(cpu) >= self.cpus.len() {
            let fact = format!("there are {} CPUs, and no CPU {cpu}", self.cpus.len());
            return Err(Finding::new(Rule::Sequence, fact));
        }
        match event {
            Event::Write { table, index, value, count, step, was, .. } => {
                self.no_update_lost(cpu, (table, index), value)?;
                self.write(cpu, (table, index), (value, count, step), was)
            }
            Event::Cas { table, index, was, value, .. } => {
                self.compare_and_swap(cpu, (table, index), [was, value])
            }
            Event::Update { table, index, what, .. } => self.update(cpu, (table, index), what),
            Event::Dsb { kind, .. } => self.dsb(cpu, kind),
            Event::Isb { .. } | Event::Exception { .. } => self.isb(cpu),
            Event::Tlbi { op, operand, .. } => self.tlbi(cpu, op, operand),
            Event::Msr { register, value, .. } => self.msr(cpu, register, value),
            Event::Reset { .. } => self.reset(cpu),
            Event::Park { .. } => self.park(cpu),
            Event::Unpark { .. } => self.unpark(cpu),
            Event::Report { .. } => {
                self.cpu_mut(cpu).reported = true;
                Ok(())
            }
            Event::Alloc { table, .. } => self.alloc(cpu, table),
            Event::Free { table, .. } => self.free(cpu, table),
            Event::Begin { root, name, changes, .. } => self.begin(cpu, root, name, changes),
            Event::Done { ok, .. } => self.done(cpu, ok),
            Event::Give { pa, bytes, .. } => self.give(cpu, pa, bytes),
            Event::Take { pa, bytes, .. } => self.take(cpu, pa, bytes),
            Event::Code { pa, .. } => {
                self.code.store(pa);
                Ok(())
            }
            Event::Cache { op, pa, .. } => {
                self.code.maintain(cpu, op, pa);
                self.uncached.maintain(cpu, op, pa);
                Ok(())
            }
            Event::Execute { pa, .. } => self.executes(cpu, pa),
            Event::Access { va, how, .. } => self.access(cpu, va, how),
            Event::ReadBegin { .. } => {
                let now = self.now;
                self.cpu_mut(cpu).reads_since.push(now);
                Ok(())
            }
            Event::ReadEnd { .. } => self.read_ends(cpu),
            // They tell what is watched more than what is announced.
            Event::Link { .. } | Event::Release { .. } | Event::Leave { .. } => Ok(()),
        }
    }

    /// Judges that a CPU may execute a line of code.
    fn executes(&self, cpu: CpuId, pa: u64) -> Result<(), Finding> {
        self.code.execute(cpu, pa).map_err(|missing| {
            Finding::new(Rule::Code, format!("the instructions at {pa:#x} lack {missing}")).on(cpu)
        })
    }

    const fn geometry(&self) -> Geometry {
        self.setup.geometry
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[usize::from(cpu)]
    }

    fn cpu_mut(&mut self, cpu: CpuId) -> &mut Cpu {
        &mut self.cpus[usize::from(cpu)]
    }

    /// The CPUs for which something holds, as bits.
    fn cpus_that(&self, holds: impl Fn(&Cpu) -> bool) -> u8 {
        self.cpus.iter().enumerate().filter(|(_, c)| holds(c)).fold(0, |bits, (n, _)| bits | 1 << n)
    }

    /// The CPUs whose walkers may fetch from a tree.
    fn walkers(&self, root: u64) -> u8 {
        self.cpus_that(|c| {
            c.ttbr.iter().flatten().any(|t| self.leads(t.root, root))
                || c.left.iter().any(|l| self.leads(l.ttbr.root, root) && l.until.is_none())
        })
    }

    /// The CPUs whose TLBs may hold something of a tree because they walk it or did.
    fn holders(&self, root: u64) -> u8 {
        self.walkers(root) | self.cpus_that(|c| c.left.iter().any(|l| self.leads(l.ttbr.root, root)))
    }

    /// The CPUs whose work may access addresses through a tree.
    fn users(&self, root: u64) -> u8 {
        self.cpus_that(|c| !c.parked && c.ttbr.iter().flatten().any(|t| self.leads(t.root, root)))
    }

    /// Returns the half that a root translates, if a CPU has loaded it; otherwise the upper one.
    fn place_of_root(&self, root: u64, half: usize) -> Place {
        let half = if half.is_multiple_of(2) { Half::Lower } else { Half::Upper };
        let g = self.geometry();
        Place {
            root,
            level: g.root(),
            va: g.base(half),
            space: Space::HOME,
            limits: linmap::arch::TableLimits::empty(),
        }
    }
}

/// The lowest CPU of some bits.
fn lowest(cpus: u8) -> CpuId {
    cpus.trailing_zeros() as CpuId
}

/// The CPUs of some bits, in words.
fn named(cpus: u8) -> String {
    let names: Vec<_> = (0i32..8i32).filter(|n| cpus & 1 << n != 0).map(|n| n.to_string()).collect();
    format!("cpu {}", names.join(", "))
}
