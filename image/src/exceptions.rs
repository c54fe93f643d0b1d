//! Exceptions that end the run: a report with registers and, for an address of the upper half, the walk of the tables.
//!
//! The vectors return to a probe that faults (`probe`) without coming here.

use core::ops::ControlFlow;

use aarch64_cpu::registers::{ELR_EL1, ESR_EL1, FAR_EL1, Readable};
use linmap::arch::{Descriptor, Entry, Level};
use linmap::read::{ReadTables, Visited, visit};
use linmap::{Geometry, Slot, Va};
use spin::mutex::SpinMutex;

use crate::console::{self, say};
use crate::ending::{begin_report, end};
use crate::frames::Reach;
use crate::probe::{Fault, try_read};
use crate::virtual_addresses::{is_console, is_stack_guard};
use crate::{cpu, image, limbo, translation};

/// The registers that the vectors save and restore: all that functions may change.
#[repr(C)]
pub(crate) struct Registers {
    /// x29 and x30.
    frame: [u64; 2],
    /// x0 to x18.
    pub(crate) x: [u64; 19],
    /// The address that the CPU returns to.
    pub(crate) elr: u64,
    /// Its state: flags and masks.
    pub(crate) spsr: u64,
}

/// The shape of the tables of the upper half, and where they are reached, for reports.
#[derive(Clone, Copy)]
pub(crate) struct Tables {
    pub(crate) geometry: Geometry,
    pub(crate) reach: Reach,
}

/// The shape of the tables in use, once they are known.
static TABLES: SpinMutex<Option<Tables>> = SpinMutex::new(None);

/// Makes reports walk tables of this shape from now on.
pub(crate) fn report_walks_of(tables: Tables) {
    *TABLES.lock() = Some(tables);
}

impl ReadTables for Tables {
    type Error = Fault;

    /// Reads by probe, so that damaged tables do not fault twice.
    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Fault> {
        let table = self.reach.va(slot.table);
        try_read(Va(table.0.wrapping_add(slot.index as u64 * 8))).map(Descriptor)
    }
}

/// Prints the descriptor of each level for an address of the upper half.
fn print_walk(va: Va) {
    let Some(tables) = TABLES.try_lock().and_then(|tables| *tables) else { return };
    if va.0 >> 63u32 == 0 {
        return say!("  the lower half is empty");
    }
    let g = tables.geometry;
    if image::is_stack_guard(va, g.page_size()) || is_stack_guard(va, g) {
        say!("  the stack has run over: this is the guard below it");
    }
    // The other CPUs may be changing the tables.
    let walked = limbo::read(|| {
        visit(&tables, g, translation::root(g), (va, va), |visited| {
            print_entry(g, visited);
            ControlFlow::Continue(())
        })
    });
    if let Err(fault) = walked {
        say!("  the walk ends here: its table cannot be read, {fault}");
    }
}

/// Prints one line of a walk.
fn print_entry(g: Geometry, &Visited { va: start, level, entry, .. }: &Visited) {
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
}

/// The vectors come here with exceptions other than the fault of a probe; `kind` is the place in the vector table.
#[unsafe(no_mangle)]
extern "C" fn exception(kind: u64, return_address: u64, stack: u64) -> ! {
    const WHAT: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
    let (esr, far, elr) = (ESR_EL1.get(), Va(FAR_EL1.get()), ELR_EL1.get());
    let (what, why) = (WHAT[kind as usize % 4], syndrome(esr));
    let first = begin_report();
    if is_console(far) {
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

/// Returns true if FAR has an address that was translated.
const fn is_address_fault(esr: u64) -> bool {
    matches!(esr >> 26 & 0x3f, 0x21 | 0x25) && !matches!(esr & 0x3f, 0x10)
}

/// Returns the syndrome in words (Arm ARM D24.2, ESR_EL1).
fn syndrome(esr: u64) -> &'static str {
    let is_write = esr & 1 << 6u32 != 0;
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
