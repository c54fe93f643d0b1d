//! `gdb:HOST:PORT`: tables read through a gdbstub that shows system registers.
//!
//! - `packet`: bytes and packets.  `stub`: questions and answers.  `description`: which registers there are.
//! - `cpu`: which of them are the kernel's.
//!
//! The target stands still while there is a connection, so everything that need not be read meanwhile is not.

mod cpu;
mod description;
mod packet;
mod stub;

use std::ops::Range;
use std::path::Path;
use std::time::Instant;

use linmap::Pa;

pub(crate) use stub::StubError;

use self::cpu::{Rank, Registers, Stage};
use self::description::Description;
use self::stub::Stub;
use super::error::Why;
use super::memory::{Each, Memory, Physical, Unreadable};
use super::regime::Regime;
use super::{Cpu, Kernel, Step, Tables, Wanted};

/// Why there are no tables behind a stub.
#[derive(Debug, thiserror::Error)]
pub(crate) enum GdbError {
    #[error(transparent)]
    Stub(#[from] StubError),
    #[error("the gdbstub does not describe its registers (qXfer:features:read)")]
    NoDescription,
    #[error("the gdbstub is of architecture `{0}`, not aarch64")]
    NotArm64(String),
    #[error("the gdbstub shows no `{0}`; QEMU's does")]
    NoRegister(&'static str),
    #[error("no CPU has translation on: the kernel has not come that far yet, or has ended")]
    Off,
    #[error("the gdbstub can not read physical memory (Qqemu.PhyMemMode); QEMU's can")]
    NotPhysical,
}

/// Where a stub listens.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address<'a> {
    /// `HOST:PORT`.
    Tcp(&'a str),
    /// A socket in the file system.
    Unix(&'a Path),
}

/// Reads the tables behind a stub.
pub(super) fn open(address: &str, wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Tables, Why> {
    let begun = Instant::now();
    let attached = Attached::to(Address::Tcp(address), true)?;
    let name = format!("gdbstub {address}");
    let tables = attached.tables(name, [], wanted, progress)?;
    Ok(Tables { paused: Some(begun.elapsed()), ..tables })
}

/// A target that stands still until this is dropped.
#[derive(Debug)]
pub(super) struct Attached {
    stub: Stub,
    /// Where the kernel's tables are.
    pub(super) regime: Regime,
    pub(super) cpu: Cpu,
    /// Whether the target goes on afterwards.
    resumes: bool,
}

impl Attached {
    /// Stops the target and reads its registers. Afterwards it goes on if it is to.
    pub(super) fn to(address: Address<'_>, resumes: bool) -> Result<Self, Why> {
        let mut stub = match address {
            Address::Tcp(address) => Stub::connect_tcp(address),
            Address::Unix(path) => Stub::connect_unix(path),
        }
        .map_err(GdbError::from)?;
        let found = registers(&mut stub).map_err(Why::Gdb).and_then(|registers| {
            let regime = registers.regime().ok_or(Why::Gdb(GdbError::Off))??;
            Ok((registers, regime))
        });
        match found {
            Ok((registers, regime)) => Ok(Self { stub, regime, cpu: cpu(&registers), resumes }),
            Err(why) => {
                stub.detach(resumes);
                Err(why)
            }
        }
    }

    /// Reads the tables through it and lets the target go on.
    pub(super) fn tables(
        self,
        name: String,
        ram: impl IntoIterator<Item = Range<Pa>>,
        wanted: Wanted,
        progress: &dyn Fn(Step),
    ) -> Result<Tables, Why> {
        if !self.stub.be_physical().map_err(GdbError::from)? {
            return Err(GdbError::NotPhysical.into());
        }
        let regime = self.regime.behind_trampoline(&self);
        let cpu = self.cpu.clone();
        let memory = Memory::new(ram, Box::new(self));
        let mut tables = Tables::read(name, regime, memory, Kernel::default(), wanted, progress)?;
        tables.memory.release();
        Ok(Tables { cpu, ..tables })
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.stub.detach(self.resumes);
    }
}

impl Physical for Attached {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        self.stub.read(pa, into)
    }

    fn is_lost(&self) -> bool {
        self.stub.is_lost()
    }

    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        self.stub.read_each(at, bytes, each);
    }
}

/// The registers of the CPU that shows the kernel's tables best.
fn registers(stub: &mut Stub) -> Result<Registers, GdbError> {
    let description = stub.description()?.ok_or(GdbError::NoDescription)?;
    match &description.architecture {
        Some(name) if name.starts_with("aarch64") => {}
        Some(name) => return Err(GdbError::NotArm64(crate::printable::excerpt(name, 40))),
        None => return Err(GdbError::NotArm64("(none)".into())),
    }
    for name in ["TTBR1_EL1", "TCR_EL1"] {
        description.register(&[name]).ok_or(GdbError::NoRegister(name))?;
    }
    let mut best: Option<Registers> = None;
    for thread in stub.threads()? {
        stub.select(&thread)?;
        let registers = of_thread(stub, &description)?;
        if best.is_none_or(|best| best.rank() < registers.rank()) {
            best = Some(registers);
        }
        if registers.rank() == Rank::Kernel {
            break;
        }
    }
    best.filter(|best| best.rank() != Rank::Useless).ok_or(GdbError::Off)
}

fn of_thread(stub: &Stub, description: &Description) -> Result<Registers, GdbError> {
    let read = |names: &[&str]| match description.register(names) {
        Some(register) => stub.register(register),
        None => Ok(None),
    };
    let mut registers = Registers {
        cpsr: read(&["CPSR"])?,
        hcr_el2: read(&["HCR_EL2"])?,
        midr: read(&["MIDR_EL1", "MIDR"])?,
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

fn cpu(registers: &Registers) -> Cpu {
    let Registers { mmfr0, mmfr2, midr, .. } = *registers;
    let Stage { tcr, mair, .. } = *registers.stage();
    Cpu { tcr, mair, midrs: midr.into_iter().collect(), mmfr0, mmfr2 }
}
