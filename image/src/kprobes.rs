//! Kprobes: a handler is called each time an instruction of code in use is executed.
//!
//! A BRK takes its place. The instruction itself is executed in a *slot*, in a page of code of the probe's own, with
//! another BRK after it, which returns to the code. Exceptions are masked from the one to the other, so a CPU that
//! answers an interrupt is in no slot, and slots can be freed when all CPUs have been held once.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use aarch64_cpu::registers::{ESR_EL1, Readable};
use kernel::instructions::{brk, is_movable};
use linmap::Va;

use crate::area::{self, Area, Permission};
use crate::cpu;
use crate::exceptions::Registers;
use crate::poke::{Refusal, poke};

/// A handler. It runs with interrupts masked and takes no lock. Probes that it meets do not call it again.
pub(crate) type Handler = fn(&Registers);

/// The immediates of the two BRKs, as Linux has them.
const PROBE: u16 = 4;
const STEP: u16 = 6;

/// DAIF in SPSR_EL1.
const MASKS: u64 = 0xf << 6;

/// The most probes at a time.
const MOST: usize = 8;

/// A probe as the exception handler finds it.
struct Entry {
    taken: AtomicBool,
    /// The address of the instruction; 0 if there is no probe.
    at: AtomicU64,
    slot: AtomicU64,
    handler: AtomicUsize,
}

static ENTRIES: [Entry; MOST] = [const {
    Entry {
        taken: AtomicBool::new(false),
        at: AtomicU64::new(0),
        slot: AtomicU64::new(0),
        handler: AtomicUsize::new(0),
    }
}; MOST];

/// The state of one CPU, which alone writes it.
#[repr(align(64))]
struct Stepping {
    /// The address to return to after the slot, and the masks to restore.
    next: AtomicU64,
    masks: AtomicU64,
    /// It is in a handler.
    handling: AtomicBool,
}

static STEPPING: [Stepping; cpu::MAX] = [const {
    Stepping { next: AtomicU64::new(0), masks: AtomicU64::new(0), handling: AtomicBool::new(false) }
}; cpu::MAX];

/// The reason why there is no probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    /// There are as many as there can be.
    Full,
    /// The instruction depends on its address, or may not continue at the next one.
    NotMovable(u32),
    /// There is no memory for a slot, or it cannot become code.
    Slot(area::Error),
    /// The code cannot be changed.
    Poke(Refusal),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("there are as many probes as there can be"),
            Self::NotMovable(instruction) => write!(f, "{instruction:#010x} cannot be executed elsewhere"),
            Self::Slot(e) => e.fmt(f),
            Self::Poke(e) => e.fmt(f),
        }
    }
}

/// A probe in place.
#[must_use = "a probe stays until it is removed"]
pub(crate) struct Kprobe<'a> {
    area: Area<'a>,
    at: Va,
    original: u32,
    entry: &'static Entry,
}

impl<'a> Kprobe<'a> {
    /// Plants a probe at an instruction.
    ///
    /// # Errors
    ///
    /// There is no room for one, the instruction cannot be moved, or the code cannot be changed. Nothing has changed.
    ///
    /// # Safety
    ///
    /// There is code of the kernel at the address, which stays for as long as the probe does.
    pub(crate) unsafe fn plant(area: Area<'a>, at: Va, handler: Handler) -> Result<Self, Error> {
        // SAFETY: code, which can be read.
        let original = unsafe { core::ptr::with_exposed_provenance::<u32>(at.0 as usize).read_volatile() };
        if !is_movable(original) {
            return Err(Error::NotMovable(original));
        }
        let free = |entry: &&Entry| {
            entry.taken.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        let entry = ENTRIES.iter().find(free).ok_or(Error::Full)?;
        let probe = Self { area, at, original, entry };
        if let Err(e) = probe.make_slot() {
            probe.entry.taken.store(false, Ordering::Release);
            return Err(Error::Slot(e));
        }
        entry.handler.store(handler as usize, Ordering::Relaxed);
        entry.at.store(at.0, Ordering::Release);
        // SAFETY: a CPU that executes the BRK finds the entry; the original is in the slot.
        if let Err(e) = unsafe { poke(&area, at, original, brk(PROBE)) } {
            probe.clear();
            return Err(Error::Poke(e));
        }
        Ok(probe)
    }

    /// Makes the slot: a page with the instruction and the second BRK, read-only and executable.
    fn make_slot(&self) -> Result<(), area::Error> {
        let slot = self.area.allocate(1)?;
        let words: *mut [u32; 2] = core::ptr::with_exposed_provenance_mut(slot.0 as usize);
        // SAFETY: just allocated.
        unsafe { words.write_volatile([self.original, brk(STEP)]) };
        if let Err(e) = self.area.change(slot, 1, Permission::Code) {
            self.area.free(slot);
            return Err(e);
        }
        self.entry.slot.store(slot.0, Ordering::Relaxed);
        Ok(())
    }

    /// Frees the entry and the slot. No CPU executes the BRK or is in the slot.
    fn clear(&self) {
        self.entry.at.store(0, Ordering::Relaxed);
        self.area.free(self.slot());
        self.entry.taken.store(false, Ordering::Release);
    }

    /// Returns the address of its slot.
    pub(crate) fn slot(&self) -> Va {
        Va(self.entry.slot.load(Ordering::Relaxed))
    }

    /// Removes the probe and restores the instruction.
    ///
    /// # Errors
    ///
    /// The code cannot be changed; the probe stays.
    pub(crate) fn remove(self) -> Result<(), (Self, Refusal)> {
        // SAFETY: the original. All CPUs are held meanwhile, so that none is in the slot afterwards.
        match unsafe { poke(&self.area, self.at, brk(PROBE), self.original) } {
            Ok(()) => {
                self.clear();
                Ok(())
            }
            Err(why) => Err((self, why)),
        }
    }
}

/// The vectors come here with a BRK. Returns true if it belongs to a probe; then `registers` has where to continue.
#[unsafe(no_mangle)]
extern "C" fn breakpoint(registers: &mut Registers) -> bool {
    let own = &STEPPING[cpu::this().index];
    match ESR_EL1.get() as u16 {
        PROBE => begin(registers, own),
        STEP if own.next.load(Ordering::Relaxed) != 0 => {
            registers.elr = own.next.swap(0, Ordering::Relaxed);
            registers.spsr = registers.spsr & !MASKS | own.masks.load(Ordering::Relaxed);
            true
        }
        _ => false,
    }
}

/// Calls the handler and continues in the slot.
fn begin(registers: &mut Registers, own: &Stepping) -> bool {
    let at = registers.elr;
    let Some(entry) = ENTRIES.iter().find(|entry| entry.at.load(Ordering::Acquire) == at) else {
        return false;
    };
    if !own.handling.swap(true, Ordering::Relaxed) {
        // SAFETY: a handler, stored by `plant`.
        let handler: Handler = unsafe { core::mem::transmute(entry.handler.load(Ordering::Relaxed)) };
        handler(registers);
        own.handling.store(false, Ordering::Relaxed);
    }
    own.next.store(at + 4, Ordering::Relaxed);
    own.masks.store(registers.spsr & MASKS, Ordering::Relaxed);
    registers.elr = entry.slot.load(Ordering::Relaxed);
    registers.spsr |= MASKS;
    true
}
