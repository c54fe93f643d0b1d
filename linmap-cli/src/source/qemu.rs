//! `qemu:SOCKET`: the tables of a guest that runs, with nothing prepared but a monitor.
//!
//! - `monitor`: QMP or HMP.  `answers`: what it says, read.  `ram`: the guest's RAM from outside.
//! - `stub`: a gdbstub for the registers, started if there is none and ended again.
//!
//! The guest stands still from when the gdbstub is connected to until the last table is read.

mod answers;
mod monitor;
mod ram;
mod stub;

use std::path::Path;
use std::time::Instant;

pub(crate) use monitor::MonitorError;

use self::monitor::Monitor;
use self::stub::Lent;
use super::error::Why;
use super::memory::{Memory, Physical};
use super::{Kernel, Step, Tables, Wanted, search};

/// Why there are no tables behind a monitor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QemuError {
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    #[error("QEMU says of no memory that it is RAM of the guest (`info mtree -f`)")]
    NoRam,
    #[error("its gdbstub, which shows the registers, talks to another debugger; detach that first")]
    StubBusy,
    #[error("QEMU can not start a gdbstub, which shows the registers: {0}")]
    NoStub(String),
}

/// Reads the tables of the guest.
pub(super) fn open(path: &Path, wanted: Wanted, progress: &dyn Fn(Step)) -> Result<Tables, Why> {
    let mut monitor = Monitor::connect(path).map_err(QemuError::from)?;
    let ram = answers::ram(&monitor.command("info mtree -f").map_err(QemuError::from)?);
    if ram.is_empty() {
        return Err(QemuError::NoRam.into());
    }
    let readable = ram::find(&mut monitor, &ram).map_err(QemuError::from)?;
    let ranges = ram.iter().map(|ram| linmap::Pa(ram.pa)..linmap::Pa(ram.pa.saturating_add(ram.bytes)));
    let ranges: Vec<_> = ranges.collect();
    let by = readable.as_ref().map_or("its gdbstub", |readable| readable.by);
    let version = answers::version(&monitor.command("info version").map_err(QemuError::from)?);
    let name = format!("guest of QEMU {} (RAM read by {by})", version.as_deref().unwrap_or("?"));

    let lent = Lent::from(&mut monitor)?;
    let begun = Instant::now();
    let attached = lent.attach()?;
    let mut tables = match readable {
        Some(readable) => {
            let from: Box<dyn Physical> = Box::new(readable.pieces);
            let regime = attached.regime.behind_trampoline(&*from);
            let cpu = attached.cpu.clone();
            let read =
                Tables::read(name, regime, Memory::new(ranges, from), Kernel::default(), wanted, progress);
            drop(attached);
            Tables { cpu, ..read? }
        }
        None => attached.tables(name, ranges, wanted, progress)?,
    };
    tables.paused = Some(begun.elapsed());
    lent.give_back();
    learn(&mut tables, &mut monitor);
    Ok(tables)
}

/// What can be found out while the guest runs on. Whatever fails here is unknown, no more.
fn learn(tables: &mut Tables, monitor: &mut Monitor) {
    let paths = monitor.command("info qom-tree").map(|tree| answers::cpu_paths(&tree)).unwrap_or_default();
    for path in paths {
        let midr = monitor.command(&format!("qom-get {path} midr"));
        tables
            .cpu
            .midrs
            .extend(midr.ok().and_then(|midr| answers::number_property(&midr)).filter(|midr| *midr != 0));
    }
    tables.kernel.info = search::by_pointer(&tables.snapshot, tables.regime(), tables.memory.from());
}
