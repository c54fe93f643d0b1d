//! Exceptions: a probe's fault is an answer, any other ends the run with a report.
//!
//! A probe is an access that may fault (`probe_read` and its siblings in `entry.s`); the vectors return
//! from it with the syndrome. Whatever else faults is reported with its registers and, for an address of
//! the upper half, with the walk that the MMU made for it.

use core::fmt;
use core::ops::ControlFlow;

use aarch64_cpu::registers::{ELR_EL1, ESR_EL1, FAR_EL1, Readable};
use linmap::{Descriptor, Entry, Geometry, Level, Pa, ReadTables, Slot, Va, visit};
use spin::mutex::SpinMutex;

use crate::boot;
use crate::console::{self, say};
use crate::ending::{begin_report, end};
use crate::frames::Reach;
use crate::{cpu, smp};

/// Why a probe could not access an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Nothing is mapped there; the walk ended at this level.
    Translation(i8),
    /// What is mapped there does not permit it; the leaf is at this level.
    Permission(i8),
    /// Something else: the fault status code (Arm ARM D24.2, ESR_EL1, ISS).
    Other(u8),
}

impl Fault {
    /// The fault that a syndrome tells of.
    const fn of(esr: u64) -> Self {
        let code = (esr & 0x3f) as u8;
        match code {
            0x04..=0x07 => Self::Translation((code & 3) as i8),
            0x0c..=0x0f => Self::Permission((code & 3) as i8),
            0x2b => Self::Translation(-1),
            _ => Self::Other(code),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Translation(level) => write!(f, "translation fault at level {level}"),
            Self::Permission(level) => write!(f, "permission fault at level {level}"),
            Self::Other(code) => write!(f, "fault status {code:#04x}"),
        }
    }
}

/// What the vectors save of a CPU that they interrupt, and restore: all that functions may change.
#[repr(C)]
pub(crate) struct Registers {
    /// x29 and x30.
    frame: [u64; 2],
    /// x0 to x18.
    pub(crate) x: [u64; 19],
    /// Where it goes on.
    pub(crate) elr: u64,
    /// Its state: flags, and which exceptions are masked.
    pub(crate) spsr: u64,
}

/// What `entry.s` returns of a probe.
#[repr(C)]
struct Probed {
    /// The value that was read, or the syndrome.
    value: u64,
    faulted: u64,
}

impl Probed {
    const fn result(self) -> Result<u64, Fault> {
        if self.faulted == 0 { Ok(self.value) } else { Err(Fault::of(self.value)) }
    }
}

unsafe extern "C" {
    fn probe_read(va: u64) -> Probed;
    fn probe_write(va: u64, value: u64) -> Probed;
    fn probe_execute(va: u64) -> Probed;
}

/// Reads the aligned word at an address.
///
/// # Errors
///
/// The fault that the read ended in.
pub(crate) fn try_read(va: Va) -> Result<u64, Fault> {
    // SAFETY: a read of memory changes nothing, and a fault is recovered from. No device is mapped but
    // the console, whose registers may be read.
    unsafe { probe_read(va.0) }.result()
}

/// Writes the aligned word at an address.
///
/// # Errors
///
/// The fault that the write ended in; nothing was written.
///
/// # Safety
///
/// If the write succeeds, it is of memory that the caller owns.
pub(crate) unsafe fn try_write(va: Va, value: u64) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault is recovered from.
    unsafe { probe_write(va.0, value) }.result().map(|_| ())
}

/// Calls the code at an address.
///
/// # Errors
///
/// The fault that the fetch of its first instruction ended in.
///
/// # Safety
///
/// If it can be executed, there is a function there, of the C convention, that can be called.
pub(crate) unsafe fn try_execute(va: Va) -> Result<(), Fault> {
    // SAFETY: the caller's promise; a fault of the fetch is recovered from.
    unsafe { probe_execute(va.0) }.result().map(|_| ())
}

/// The upper half's tables, for reports.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) geometry: Geometry,
    pub(crate) root: Pa,
    pub(crate) reach: Reach,
}

/// The tables in use, once they are.
static TABLES: SpinMutex<Option<Tables>> = SpinMutex::new(None);

/// From now on reports walk these.
pub(crate) fn report_walks_of(tables: Tables) {
    *TABLES.lock() = Some(tables);
}

impl ReadTables for Tables {
    type Error = Fault;

    /// Reads by probe: tables that are themselves the trouble do not fault twice.
    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Fault> {
        let table = self.reach.va(slot.table);
        try_read(Va(table.0.wrapping_add(slot.index as u64 * 8))).map(Descriptor)
    }
}

/// Prints what each level has for an address of the upper half.
fn print_walk(va: Va) {
    let Some(tables) = TABLES.try_lock().and_then(|tables| *tables) else { return };
    if va.0 >> 63 == 0 {
        return say!("  the lower half is empty");
    }
    let g = tables.geometry;
    if boot::is_stack_guard(va, g.page_size()) || smp::is_stack_guard(va, g) {
        say!("  the stack has run over: this is the guard below it");
    }
    let walked = visit(&tables, g, tables.root, (va, va), |start, level, entry| {
        let (number, index) = (level.number(), g.index(start.0, level));
        match entry {
            Entry::Hole => say!("  L{number} [{index:4}] nothing"),
            Entry::Reserved => say!("  L{number} [{index:4}] a reserved encoding"),
            Entry::Table(table) => say!("  L{number} [{index:4}] table at {table}"),
            Entry::Leaf(l) => {
                let a = l.attributes;
                let can = [
                    if l.valid { "valid" } else { "not valid" },
                    if a.is_writable() { "writable" } else { "read-only" },
                    if a.is_executable() { "executable" } else { "not executable" },
                ];
                say!(
                    "  L{number} [{index:4}] leaf of {} from {start}: {}, {can:?}",
                    l.oa,
                    a.memory_type().name().unwrap_or("?")
                );
            }
        }
        ControlFlow::Continue(())
    });
    if let Err(fault) = walked {
        say!("  the walk ends here: its table can not be read, {fault}");
    }
}

/// Where the vectors go with what is no probe's fault; `kind` is the place in the vector table.
#[unsafe(no_mangle)]
extern "C" fn exception(kind: u64, return_address: u64, stack: u64) -> ! {
    const WHAT: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
    let (esr, far, elr) = (ESR_EL1.get(), Va(FAR_EL1.get()), ELR_EL1.get());
    let (what, why) = (WHAT[kind as usize % 4], syndrome(esr));
    let first = begin_report();
    if boot::is_console(far) {
        // SAFETY: the console that faulted is not used any more.
        unsafe { console::fall_back() };
    }
    if first && is_address_fault(esr) {
        say!("\nwalk of {far}:");
        print_walk(far);
    }
    end(
        first,
        format_args!(
            "{what} ({why}): ESR {esr:#x}, FAR {far}, ELR {elr:#x}, LR {return_address:#x}, SP {stack:#x}, CPU {}",
            cpu::this().index
        ),
    )
}

/// Whether FAR holds an address that was translated.
const fn is_address_fault(esr: u64) -> bool {
    matches!(esr >> 26 & 0x3f, 0x21 | 0x25) && !matches!(esr & 0x3f, 0x10)
}

/// The syndrome in words (Arm ARM D24.2, ESR_EL1).
fn syndrome(esr: u64) -> &'static str {
    let is_write = esr & 1 << 6 != 0;
    match (esr >> 26 & 0x3f, Fault::of(esr), is_write) {
        (0x25, Fault::Translation(_), false) => "data abort: read of an address that is not mapped",
        (0x25, Fault::Translation(_), true) => "data abort: write to an address that is not mapped",
        (0x25, Fault::Permission(_), false) => "data abort: read that is not permitted",
        (0x25, Fault::Permission(_), true) => "data abort: write that is not permitted",
        (0x25, Fault::Other(0x10), _) => "data abort: external abort",
        (0x25, Fault::Other(0x21), _) => "data abort: misaligned address",
        (0x25, Fault::Other(0x30), _) => "data abort: TLB conflict",
        (0x25, ..) => "data abort",
        (0x21, Fault::Translation(_), _) => "instruction abort: the address is not mapped",
        (0x21, Fault::Permission(_), _) => "instruction abort: execution is not permitted",
        (0x21, ..) => "instruction abort",
        (0x22, ..) => "misaligned PC",
        (0x26, ..) => "misaligned SP",
        (0x00, ..) => "unknown instruction",
        (0x3c, ..) => "breakpoint",
        _ => "see ESR",
    }
}
