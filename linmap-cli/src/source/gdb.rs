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
pub(super) use self::description::Description;
use self::facts::Before;
use self::stub::Stub;
use super::error::{Halted, Problem, and_released};
use super::memory::{Each, Memory, Physical, Unreadable};
use super::opened::with_note;
use super::pause::{Limit, Pause};
use super::regime::Regime;
use super::{Cpu, Step, Tables, Wanted, interrupts};

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
pub(super) fn open(
    address: &str,
    wanted: Wanted,
    pause: Pause,
    progress: &dyn Fn(Step),
) -> Result<Tables, Problem> {
    let addresses = resolve(address).map_err(GdbError::from)?;
    let held = interrupts::hold();
    let mut attached = Attached::to(Address::Tcp(&addresses), pause)?;
    let limit = attached.limit;
    let mut before = Before::Unknown;
    let read = attached.greet().and_then(|()| {
        before = Before::of(&attached.stub);
        attached.tables(format!("gdbstub {address}"), [], wanted, progress)
    });
    let read = read.map(|mut tables| {
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
    /// The description of its registers, once that was asked.
    description: Option<Description>,
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
        Ok(Self { stub: Rc::new(stub), limit, description: None })
    }

    /// Returns the time limit of this halt.
    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Asks the stub what it supports; no other question comes first.
    pub(super) fn greet(&mut self) -> Result<(), Problem> {
        self.stub_mut()?.greet().map_err(|error| GdbError::from(error).into())
    }

    /// Reads the registers.
    pub(super) fn look(&mut self) -> Result<Looked, Problem> {
        let description = match self.description.take() {
            Some(known) => {
                self.stub.show_registers().map_err(GdbError::from)?;
                known
            }
            None => described(&self.stub)?,
        };
        let (registers, midrs) = registers(&self.stub, &description)?;
        self.description = Some(description);
        let regime = registers.regime().ok_or(GdbError::Off)??;
        Ok(Looked { regime, cpu: cpu(&registers, midrs) })
    }

    /// Takes the description of its registers, which a later connection need not ask again.
    pub(super) const fn take_description(&mut self) -> Option<Description> {
        self.description.take()
    }

    /// Uses the description that an earlier connection to the same stub has read.
    pub(super) fn know(&mut self, description: Option<Description>) {
        self.description = description;
    }

    /// Reads the tables through the stub, within the limit of this halt.
    pub(super) fn tables(
        &mut self,
        name: String,
        ram: impl IntoIterator<Item = Range<Pa>>,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Tables, Problem> {
        let looked = self.look()?;
        if !self.stub_mut()?.be_physical().map_err(GdbError::from)? {
            return Err(GdbError::NotPhysical.into());
        }
        let memory = Memory::new(ram, Box::new(Through(self.stub.clone())));
        let regime = looked.regime.behind_trampoline(memory.from());
        let mut tables = Tables::read_within(self.limit, name, regime, memory, wanted, progress)?;
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

/// Returns the registers of the CPU that shows the kernel's tables best, and MIDR_EL1 of each CPU.
fn registers(stub: &Stub, description: &Description) -> Result<(Registers, Vec<u64>), GdbError> {
    let mut best: Option<Registers> = None;
    let threads = stub.threads()?;
    for thread in &threads {
        stub.select(thread)?;
        let registers = of_thread(stub, description)?;
        if best.is_none_or(|best| best.rank() < registers.rank()) {
            best = Some(registers);
        }
        if registers.rank() == Rank::Kernel {
            break;
        }
    }
    let best = best.filter(|best| best.rank() != Rank::Useless).ok_or(GdbError::Off)?;
    Ok((best, midrs(stub, description, &threads)?))
}

/// Returns MIDR_EL1 of all threads, or nothing if one does not show it.
fn midrs(stub: &Stub, description: &Description, threads: &[String]) -> Result<Vec<u64>, GdbError> {
    let Some(register) = description.register(&MIDR) else { return Ok(Vec::new()) };
    let mut midrs = Vec::new();
    for thread in threads {
        stub.select(thread)?;
        match stub.register(register)? {
            Some(midr @ 1..) => midrs.push(midr),
            _ => return Ok(Vec::new()),
        }
    }
    Ok(midrs)
}

/// The names of MIDR_EL1 in stubs.
const MIDR: [&str; 2] = ["MIDR_EL1", "MIDR"];

fn of_thread(stub: &Stub, description: &Description) -> Result<Registers, GdbError> {
    let read = |names: &[&str]| match description.register(names) {
        Some(register) => stub.register(register),
        None => Ok(None),
    };
    let mut registers = Registers {
        cpsr: read(&["CPSR"])?,
        hcr_el2: read(&["HCR_EL2"])?,
        mmfr0: read(&["ID_AA64MMFR0_EL1"])?,
        mmfr2: read(&["ID_AA64MMFR2_EL1"])?,
        ..Registers::default()
    };
    // QEMU names SCTLR of EL1 without its suffix.
    registers.el1 = Stage {
        sctlr: read(&["SCTLR_EL1", "SCTLR"])?,
        ttbr1: read(&["TTBR1_EL1"])?,
        tcr: read(&["TCR_EL1"])?,
        mair: read(&["MAIR_EL1"])?,
    };
    if registers.hcr_el2.is_some() {
        registers.el2 = Stage {
            sctlr: read(&["SCTLR_EL2"])?,
            ttbr1: read(&["TTBR1_EL2"])?,
            tcr: read(&["TCR_EL2"])?,
            mair: read(&["MAIR_EL2"])?,
        };
    }
    Ok(registers)
}

fn cpu(registers: &Registers, midrs: Vec<u64>) -> Cpu {
    let Registers { mmfr0, mmfr2, .. } = *registers;
    let Stage { tcr, mair, .. } = *registers.stage();
    Cpu { tcr, mair, midrs, mmfr0, mmfr2 }
}
