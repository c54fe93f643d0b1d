//! The part of an operation that is about one address: its stores, barriers and invalidations in their order.

use super::error::{Inexpressible, Why};
use super::tables::{Found, Tables, half_of};
use super::translation::Translation;
use crate::space::Context;
use crate::{Barrier, CpuId, Event, Setup, Tlb};

/// The steps of one CPU that are about the translation of one address.
pub(super) struct Program {
    pub(super) name: String,
    pub(super) va: u64,
    pub(super) before: Translation,
    pub(super) steps: Vec<Step>,
    /// True if the CPU changes a table base register.
    pub(super) switches: bool,
}

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// A store that changes the translation.
    Store(Translation),
    /// A table base register is written, which changes the translation for this CPU.
    Switch(Translation),
    /// A table with the entry is published.
    Publish,
    Dsb(Barrier),
    Isb,
    Tlbi(Tlb),
}

impl Step {
    /// The translation of the address from this step on, if it changes.
    pub(super) const fn stores(self) -> Option<Translation> {
        match self {
            Self::Store(to) | Self::Switch(to) => Some(to),
            Self::Publish | Self::Dsb(_) | Self::Isb | Self::Tlbi(_) => None,
        }
    }
}

/// An operation on a tree that some CPU has loaded: its events, from the announcement to the return.
pub(super) struct Operation<'e> {
    pub(super) cpu: CpuId,
    pub(super) name: &'e str,
    pub(super) va: u64,
    pub(super) events: &'e [Event],
    /// The number of the first of them.
    pub(super) first: usize,
}

/// Returns an operation, the last one if none is named, with the tables before it.
pub(super) fn operation<'e>(
    setup: &Setup,
    events: &'e [Event],
    number: Option<usize>,
    va: Option<u64>,
) -> Result<(Operation<'e>, Tables), Inexpressible> {
    let mut tables = Tables::new(setup);
    let mut live = Vec::new();
    for (n, event) in events.iter().enumerate() {
        if usize::from(event.cpu()) >= setup.cores.len() {
            return Err(at(n, event, Why::NotInMachine));
        }
        if matches!(event, Event::Begin { root, .. } if tables.is_live(*root)) {
            live.push(n);
        }
        tables.apply(event).map_err(|why| at(n, event, why))?;
    }
    let none = Inexpressible { event: None, why: Why::NoOperation };
    let begin = number.map_or_else(|| live.last(), |n| live.get(n)).copied().ok_or(none.clone())?;
    let Event::Begin { cpu, name, changes, .. } = &events[begin] else { return Err(none) };
    let va = va.or_else(|| changes.first().map(|c| c.va)).ok_or(none)?;
    let rest = &events[begin..];
    let done = rest.iter().position(|e| matches!(e, Event::Done { cpu: by, .. } if by == cpu));
    let mut tables = Tables::new(setup);
    events[..begin].iter().for_each(|event| _ = tables.apply(event));
    let events = &rest[..done.map_or(rest.len(), |d| d + 1)];
    Ok((Operation { cpu: *cpu, name, va, events, first: begin }, tables))
}

pub(super) fn at(number: usize, event: &Event, why: Why) -> Inexpressible {
    Inexpressible { event: Some((number, event.clone())), why }
}

impl Operation<'_> {
    /// The program that a CPU carries out, until the operation returns.
    pub(super) fn program(&self, mut tables: Tables) -> Result<Program, Inexpressible> {
        let mut replaced = Vec::new();
        let mut program = Program {
            name: self.name.to_owned(),
            va: self.va,
            before: self.translation(&tables),
            steps: Vec::new(),
            switches: false,
        };
        let mut now = program.before;
        for (n, event) in self.events.iter().enumerate().skip(1) {
            let refuse = |why| at(self.first + n, event, why);
            if matches!(event, Event::ReadBegin { .. } | Event::ReadEnd { .. }) {
                continue;
            }
            if event.cpu() != self.cpu {
                return Err(refuse(Why::OtherCpu));
            }
            let old = self.find(&tables);
            tables.apply(event).map_err(refuse)?;
            let next = self.translation(&tables);
            if next != now {
                now.expressible(next, self.va).map_err(refuse)?;
                if let (Translation::Page(_), Some(old)) = (now, old) {
                    let unlinks = !matches!(*event, Event::Write { table, index, .. }
                        if (table, index) == (old.table, old.index));
                    replaced.push(Replaced { old, unlinks, was: now });
                }
            }
            program
                .steps
                .extend(self.step(event, &tables, (next != now).then_some(next), &replaced).map_err(refuse)?);
            program.switches |= matches!(program.steps.last(), Some(Step::Switch(_)));
            now = next;
        }
        if program.steps.iter().any(|s| s.stores().is_some()) {
            Ok(program)
        } else {
            Err(Inexpressible { event: None, why: Why::Unchanged { va: self.va } })
        }
    }

    /// The step that an event is, if it has to do with the address.
    fn step(
        &self,
        event: &Event,
        tables: &Tables,
        next: Option<Translation>,
        replaced: &[Replaced],
    ) -> Result<Option<Step>, Why> {
        Ok(match *event {
            Event::Write { .. } => next.map(Step::Store),
            Event::Msr { register, .. } if half_of(register).is_some() => next.map(Step::Switch),
            Event::Msr { .. } => return Err(Why::NoSuchEvent { lacks: "registers" }),
            Event::Dsb { kind, .. } if kind.is_nxs() => {
                return Err(Why::NoSuchEvent { lacks: "nXS qualifier" });
            }
            Event::Dsb { kind, .. } => Some(Step::Dsb(kind)),
            Event::Isb { .. } | Event::Exception { .. } => Some(Step::Isb),
            Event::Tlbi { op, operand, .. } => {
                let asid = tables.loaded(self.cpu, self.va).map_or(0, |l| l.1);
                covers(op, operand, tables, asid, replaced)?.then_some(Step::Tlbi(op))
            }
            Event::Code { .. } | Event::Cache { .. } | Event::Execute { .. } => {
                return Err(Why::NoSuchEvent { lacks: "instructions that are stored and executed" });
            }
            Event::Reset { .. } => return Err(Why::NoSuchEvent { lacks: "CPUs that are reset" }),
            Event::Access { .. } => return Err(Why::NoSuchEvent { lacks: "accesses in the operation" }),
            Event::Begin { .. } => return Err(Why::TwoOperations),
            // They change no translation, or were refused with the tables.
            Event::Park { .. }
            | Event::Unpark { .. }
            | Event::Report { .. }
            | Event::Cas { .. }
            | Event::Update { .. }
            | Event::Give { .. }
            | Event::Take { .. }
            | Event::ReadBegin { .. }
            | Event::ReadEnd { .. }
            | Event::Link { .. }
            | Event::Release { .. }
            | Event::Leave { .. }
            | Event::Alloc { .. }
            | Event::Free { .. }
            | Event::Done { .. } => None,
        })
    }

    fn find(&self, tables: &Tables) -> Option<Found> {
        tables.find(tables.loaded(self.cpu, self.va)?.0, self.va)
    }

    fn translation(&self, tables: &Tables) -> Translation {
        Translation::of(self.find(tables), self.va, tables.g)
    }

    /// How the table with the address's entry is filled and published: the entry's own store, and what follows it until
    /// walkers can reach it.
    pub(super) fn publication(&self, before: &[Event], mut tables: Tables) -> Result<Program, Inexpressible> {
        let why = Inexpressible { event: None, why: Why::NothingPublished { va: self.va } };
        let mut earlier: Vec<&Event> = before.iter().collect();
        for (n, event) in self.events.iter().enumerate() {
            let old = self.find(&tables);
            tables.apply(event).map_err(|why| at(self.first + n, event, why))?;
            let new = self.find(&tables);
            if let (Event::Write { cpu, .. }, Some(old), Some(new)) = (event, old, new)
                && old.level < new.level
            {
                let entry = self.translation(&tables);
                let fills = |e: &&Event| {
                    matches!(**e, Event::Write { table, index, count, .. }
                    if table == new.table && index <= new.index && new.index < index.saturating_add(count))
                };
                let filled = earlier.iter().rposition(fills).ok_or(why)?;
                let barriers = earlier[filled..].iter().filter_map(|e| match **e {
                    Event::Dsb { cpu: by, kind } if by == *cpu => Some(Step::Dsb(kind)),
                    _ => None,
                });
                let steps = [Step::Store(entry)].into_iter().chain(barriers).chain([Step::Publish]).collect();
                let (name, va) = (format!("{}-publication", self.name), self.va);
                return Ok(Program { name, va, before: Translation::Nothing, steps, switches: false });
            }
            earlier.push(event);
        }
        Err(why)
    }
}

/// An entry that translated the address, and that was replaced.
struct Replaced {
    old: Found,
    /// True if tables of its walk were replaced with it.
    unlinks: bool,
    was: Translation,
}

/// Returns true if a TLBI removes every entry of the address that was replaced. Fails if litmus tests have no such TLBI.
fn covers(op: Tlb, operand: u64, tables: &Tables, asid: u16, replaced: &[Replaced]) -> Result<bool, Why> {
    let g = tables.g;
    if instruction(op).is_none() {
        return Err(Why::NoSuchEvent { lacks: "TLBI of that form" });
    }
    let tlbi = op.decode(operand, g, true, Context::default()).map_err(Why::Operand)?;
    let one = |r: &Replaced| {
        let inside = tlbi.addresses.is_none_or(|(first, last)| first <= r.old.last(g) && r.old.va <= last);
        let global = matches!(r.was, Translation::Page(page) if page.global);
        let ours = tlbi.asid.is_none_or(|a| a == asid || global);
        let level = tlbi.level.is_none_or(|level| level == r.old.level.number());
        inside && ours && level && !tlbi.other_granule && !(tlbi.last_level && r.unlinks)
    };
    Ok((!op.is_range() || tables.range_tlbi) && replaced.iter().all(one))
}

/// The mnemonic of a TLBI in a litmus test: those by range are by address there.
pub(super) fn instruction(op: Tlb) -> Option<String> {
    const KNOWN: [&str; 10] = [
        "VMALLE1",
        "VMALLE1IS",
        "VAE1",
        "VAE1IS",
        "VALE1",
        "VALE1IS",
        "VAAE1",
        "VAAE1IS",
        "VAALE1",
        "VAALE1IS",
    ];
    let name = op.to_string().to_uppercase();
    let name = name.strip_prefix('R').map_or(name.as_str(), |rest| rest);
    KNOWN.contains(&name).then(|| name.to_owned())
}
