//! `gdb:HOST:PORT`: reads tables through a gdbstub that shows system registers.
//!
//! - `packet`: bytes and packets.  `wire`: packets within a time limit.  `stub`: questions and answers.
//! - `description`: the registers of a stub.  `cpu`: the registers of the kernel among them.
//! - `facts`: what QEMU's monitor says of the machine, if the stub has one.
//!
//! The target is halted while there is a connection, so only what must be read then is read then.

mod cpu;
mod description;
mod error;
mod facts;
mod packet;
mod stub;
mod wire;

use std::net::SocketAddr;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use linmap::Pa;

pub(crate) use error::{GdbError, StubError};
pub(super) use stub::resolve;

use self::cpu::{Rank, Registers, Stage};
use self::description::{Description, Register};
use self::facts::Before;
use self::stub::Stub;
use super::error::{Halted, Problem, and_released};
use super::memory::{Each, Memory, Physical, Unreadable};
use super::opened::{Place, with_note};
use super::pause::{Limit, Pause};
use super::regime::Regime;
use super::{Cpu, Request, Tables, interrupts};

/// The time in which a stub has to confirm that its target runs; the target does not wait for that.
const GOODBYE: Duration = Duration::from_secs(5);

/// The address that a stub listens at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address<'a> {
    /// The addresses of one host, each with the port.
    Tcp(&'a [SocketAddr]),
    /// A socket in the file system.
    Unix(&'a Path),
}

/// Reads the tables through a stub.
pub(super) fn open(address: &str, request: Request<'_>, pause: Pause) -> Result<Tables, Problem> {
    let addresses = resolve(address).map_err(GdbError::from)?;
    let held = interrupts::hold();
    let mut attached = Attached::to(Address::Tcp(&addresses), pause)?;
    let limit = attached.limit;
    let mut before = Before::Unknown;
    let read = attached.greet().and_then(|()| {
        before = Before::of(&attached.stub);
        attached.tables(format!("gdbstub {address}"), [], request)
    });
    let read = read.map(|mut tables| {
        tables.cpu.midrs = attached.midrs();
        facts::learn(&attached.stub, &mut tables);
        tables.lack(attached.stub.ended());
        tables
    });
    let goes_on = before.goes_on(pause);
    let unmark = before.unmark().filter(|_| goes_on);
    let released = attached.release(goes_on, unmark.as_deref(), GOODBYE);
    // A target that stays halted was halted before.
    let paused = limit.elapsed().filter(|_| goes_on);
    drop(held);
    let tables = and_released(read, released);
    Ok(Tables { paused, ..with_note(tables, before.note(pause))? })
}

/// A target that is halted until it is released.
#[derive(Debug)]
pub(super) struct Attached {
    stub: Rc<Stub>,
    limit: Limit,
    known: Option<Known>,
}

/// Facts that a later connection to the same stub need not ask again.
#[derive(Debug)]
pub(super) struct Known {
    /// The description of its registers.
    description: Description,
    /// The CPU whose registers were read.
    thread: String,
}

/// The facts that the registers of a target give.
#[derive(Debug)]
pub(super) struct Looked {
    /// The root and the geometry of the kernel's tables.
    pub(super) regime: Regime,
    pub(super) cpu: Cpu,
}

impl Attached {
    /// Halts the target. The caller must release it, even after an error.
    pub(super) fn to(address: Address<'_>, pause: Pause) -> Result<Self, Problem> {
        let stub = match address {
            Address::Tcp(addresses) => Stub::connect_tcp(addresses, pause),
            Address::Unix(path) => Stub::connect_unix(path, pause),
        };
        let stub = stub.map_err(GdbError::from)?;
        let limit = stub.limit();
        Ok(Self { stub: Rc::new(stub), limit, known: None })
    }

    /// Returns the time limit of this halt.
    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Asks the stub what it supports; no other question comes first.
    pub(super) fn greet(&mut self) -> Result<(), Problem> {
        self.stub_mut()?.greet().map_err(|error| GdbError::from(error).into())
    }

    /// Reads the registers of the CPU that shows the kernel's tables best.
    pub(super) fn look(&mut self) -> Result<Looked, Problem> {
        let description = match self.known.take() {
            Some(known) => known.description,
            None => described(&self.stub)?,
        };
        let (registers, thread) = registers(&self.stub, &description)?;
        self.known = Some(Known { description, thread });
        looked(&registers)
    }

    /// Reads the registers of the CPU that an earlier connection has found, and looks at all if that does not run the kernel now.
    pub(super) fn look_again(&mut self, known: Known) -> Result<Looked, Problem> {
        let wanted = wanted(&known.description);
        let values = self.stub.registers_again(&known.thread, &wanted).map_err(GdbError::from)?;
        let registers = of_values(&values);
        self.known = Some(known);
        if registers.rank() == Rank::Kernel { looked(&registers) } else { self.look() }
    }

    /// Takes the facts that a later connection need not ask again.
    pub(super) const fn take_known(&mut self) -> Option<Known> {
        self.known.take()
    }

    /// Returns MIDR_EL1 of each CPU, as far as there is time and the stub shows it.
    fn midrs(&self) -> Vec<u64> {
        let midrs = self.known.as_ref().map(|known| midrs(&self.stub, &known.description));
        midrs.and_then(Result::ok).unwrap_or_default()
    }

    /// Reads the tables through the stub, within the limit of this halt.
    pub(super) fn tables(
        &mut self,
        name: String,
        ram: impl IntoIterator<Item = Range<Pa>>,
        request: Request<'_>,
    ) -> Result<Tables, Problem> {
        let looked = self.look()?;
        if !self.stub_mut()?.be_physical().map_err(GdbError::from)? {
            return Err(GdbError::NotPhysical.into());
        }
        let memory = Memory::new(ram, Box::new(Through(self.stub.clone())));
        let regime = looked.regime.behind_trampoline(memory.from());
        let mut tables = Tables::read_within(self.limit, Place { name, regime, memory }, request)?;
        tables.cpu = looked.cpu;
        tables.learn();
        tables.lack(self.stub.ended());
        tables.memory.release();
        Ok(tables)
    }

    /// Ends the connection and waits for the stub to confirm it, for `patience` at most. The monitor executes `last`
    /// before. The target runs if `goes_on` says so.
    pub(super) fn release(self, goes_on: bool, last: Option<&str>, patience: Duration) -> Result<(), Halted> {
        self.stub.leave(goes_on, last, patience).map_err(Halted::Stub)
    }

    /// Returns the stub; fails while memory is read through it.
    fn stub_mut(&mut self) -> Result<&mut Stub, Problem> {
        Rc::get_mut(&mut self.stub).ok_or(Problem::Lost)
    }
}

/// Memory that is read through a stub.
#[derive(Debug)]
struct Through(Rc<Stub>);

impl Physical for Through {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        self.0.read(pa, into)
    }

    fn ended(&self) -> Option<Unreadable> {
        self.0.ended()
    }

    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        self.0.read_each(at, bytes, each);
    }
}

/// Returns the description of the stub's registers, if they are those of arm64 that are needed.
fn described(stub: &Stub) -> Result<Description, GdbError> {
    let description = stub.description()?.ok_or(GdbError::NoDescription)?;
    match &description.architecture {
        Some(name) if name.starts_with("aarch64") => {}
        Some(name) => return Err(GdbError::NotArm64(crate::printable::excerpt(name, 40))),
        None => return Err(GdbError::NotArm64("(none)".into())),
    }
    for name in ["TTBR1_EL1", "TCR_EL1"] {
        description.register(&[name]).ok_or(GdbError::NoRegister(name))?;
    }
    Ok(description)
}

/// Returns the registers of the CPU that shows the kernel's tables best, and its thread. The list of all CPUs is asked only
/// if the first one does not run the kernel: QEMU names one at a time.
fn registers(stub: &Stub, description: &Description) -> Result<(Registers, String), GdbError> {
    let mut best: Option<(Registers, String)> = None;
    let mut looked = Vec::new();
    for list in [Stub::first_threads, Stub::threads] {
        for thread in list(stub)? {
            if looked.contains(&thread) {
                continue;
            }
            let registers = of_values(&stub.registers(&thread, &wanted(description))?);
            let rank = registers.rank();
            looked.push(thread.clone());
            if best.as_ref().is_none_or(|best| best.0.rank() < rank) {
                best = Some((registers, thread));
            }
            if rank == Rank::Kernel {
                return best.ok_or(GdbError::Off);
            }
        }
    }
    best.filter(|best| best.0.rank() != Rank::Useless).ok_or(GdbError::Off)
}

fn looked(registers: &Registers) -> Result<Looked, Problem> {
    let regime = registers.regime().ok_or(GdbError::Off)??;
    Ok(Looked { regime, cpu: cpu(registers) })
}

/// Returns MIDR_EL1 of all threads, or nothing if one does not show it.
fn midrs(stub: &Stub, description: &Description) -> Result<Vec<u64>, GdbError> {
    let Some(register) = description.register(&MIDR) else { return Ok(Vec::new()) };
    let mut midrs = Vec::new();
    for thread in stub.threads()? {
        match stub.registers(&thread, &[Some(register)])?[..] {
            [Some(midr @ 1..)] => midrs.push(midr),
            _ => return Ok(Vec::new()),
        }
    }
    Ok(midrs)
}

/// The names of MIDR_EL1 in stubs.
const MIDR: [&str; 2] = ["MIDR_EL1", "MIDR"];
/// The names of the registers that are read. QEMU names SCTLR of EL1 without its suffix.
const NAMES: [&[&str]; 12] = [
    &["CPSR"],
    &["HCR_EL2"],
    &["ID_AA64MMFR0_EL1"],
    &["ID_AA64MMFR2_EL1"],
    &["SCTLR_EL1", "SCTLR"],
    &["TTBR1_EL1"],
    &["TCR_EL1"],
    &["MAIR_EL1"],
    &["SCTLR_EL2"],
    &["TTBR1_EL2"],
    &["TCR_EL2"],
    &["MAIR_EL2"],
];

/// Returns the registers to be read, as far as the stub has them.
fn wanted(description: &Description) -> [Option<Register>; NAMES.len()] {
    NAMES.map(|names| description.register(names))
}

/// Returns the registers by their values, in the order of their names.
fn of_values(values: &[Option<u64>]) -> Registers {
    let value = |index: usize| values.get(index).copied().flatten();
    let stage = |first| Stage {
        sctlr: value(first),
        ttbr1: value(first + 1),
        tcr: value(first + 2),
        mair: value(first + 3),
    };
    let hcr_el2 = value(1);
    let el2 = if hcr_el2.is_some() { stage(8) } else { Stage::default() };
    Registers { cpsr: value(0), hcr_el2, mmfr0: value(2), mmfr2: value(3), el1: stage(4), el2 }
}

fn cpu(registers: &Registers) -> Cpu {
    let Registers { mmfr0, mmfr2, .. } = *registers;
    let Stage { tcr, mair, .. } = *registers.stage();
    Cpu { tcr, mair, midrs: Vec::new(), mmfr0, mmfr2 }
}
