//! `qemu:SOCKET`: the tables of a running guest; only a monitor socket is needed.
//!
//! - `monitor`: QMP or HMP.  `answers`: parses its answers.  `ram`: the guest's RAM, read from this process.
//! - `stub`: a gdbstub for the registers, started if there is none and ended again.
//! - `passes`: tables that are read while the guest runs, until two passes are equal.  `ahead`: haste while it is halted.
//!
//! The guest is halted while there is a connection to the gdbstub. Everything that can be asked or read while it runs is
//! read before, between or afterwards.

mod ahead;
pub(super) mod answers;
mod error;
mod monitor;
mod passes;
mod ram;
mod stub;

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use linmap::Pa;

pub(crate) use error::QemuError;

use self::ahead::Ahead;
pub(crate) use self::monitor::{Monitor, MonitorError};
use self::passes::Halting;
use self::stub::{BorrowedStub, GOODBYE};
use super::error::{Problem, and_released};
use super::memory::Memory;
use super::opened::{Place, with_note};
use super::pause::Pause;
use super::{Request, Tables};

/// Reads the tables of the guest.
pub(super) fn open(path: &Path, request: Request<'_>, pause: Pause) -> Result<Tables, Problem> {
    let mut monitor = Monitor::connect(path).map_err(QemuError::from)?;
    let guest = Guest::of(&mut monitor)?;
    let lent = BorrowedStub::from(&mut monitor, pause)?;
    let (read, halted) = read(&lent, guest, pause, request);
    let (left, stood) = (lent.left_halted(), !lent.goes_on());
    let released = lent.give_back();
    let paused = (!stood).then_some(halted);
    let mut tables = with_note(and_released(read, released), left.map(|mark| mark.note(pause)))?;
    tables.paused = paused;
    if !tables.memory.is_released() {
        tables.learn();
    }
    let mut ask = |command: &str| monitor.command(command).ok();
    tables.cpu.midrs = answers::midrs(&mut ask);
    Ok(tables)
}

/// Facts about a guest from before it is halted.
struct Guest {
    name: String,
    ram: Vec<Range<Pa>>,
    readable: Option<ram::Readable>,
}

impl Guest {
    fn of(monitor: &mut Monitor) -> Result<Self, QemuError> {
        let ram = answers::ram(&monitor.command("info mtree -f")?);
        if ram.is_empty() {
            return Err(QemuError::NoRam);
        }
        let readable = ram::find(monitor, &ram)?;
        let by = readable.as_ref().map_or("its gdbstub", |readable| readable.by);
        let version = answers::version(&monitor.command("info version")?);
        let name = format!("guest of QEMU {} (RAM read by {by})", version.as_deref().unwrap_or("?"));
        let ram = ram.iter().map(|ram| Pa(ram.pa)..Pa(ram.pa.saturating_add(ram.bytes))).collect();
        Ok(Self { name, ram, readable })
    }
}

/// Reads the tables. Returns them, and how long the guest was halted.
fn read(
    lent: &BorrowedStub<'_>,
    mut guest: Guest,
    pause: Pause,
    request: Request<'_>,
) -> (Result<Tables, Problem>, Duration) {
    if lent.was_running()
        && !request.wanted.is_small()
        && let Some(readable) = guest.readable.take()
    {
        let mut halting = Halting { lent, pause, halted: Duration::ZERO };
        let read = halting.read((guest.name, guest.ram), Box::new(readable.pieces), request);
        return (read, halting.halted);
    }
    let begun = Instant::now();
    (read_halted(lent, guest, pause, request), begun.elapsed())
}

/// Halts the guest and reads all of it.
fn read_halted(
    lent: &BorrowedStub<'_>,
    guest: Guest,
    pause: Pause,
    request: Request<'_>,
) -> Result<Tables, Problem> {
    let _ahead = Ahead::of_others();
    let mut attached = lent.attach(pause)?;
    let read = attached.greet().and_then(|()| {
        let Some(readable) = guest.readable else {
            return attached.tables(guest.name, guest.ram, request);
        };
        let memory = Memory::new(guest.ram, Box::new(readable.pieces));
        let looked = attached.look()?;
        let regime = looked.regime.behind_trampoline(memory.from());
        let place = Place { name: guest.name, regime, memory };
        let tables = Tables::read_within(attached.limit(), place, request)?;
        Ok(Tables { cpu: looked.cpu, ..tables })
    });
    // The monitor confirms later that the guest runs.
    let _ = attached.release(lent.goes_on(), None, GOODBYE);
    read
}
