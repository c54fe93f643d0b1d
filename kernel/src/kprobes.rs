//! Probes of code in use: at an instruction of a function, a handler is called each time it is executed.
//!
//! A BRK takes its place. What it did is done in a *slot*, in a page of code of the probe's own, by the same
//! instruction with another BRK behind it; that one goes on behind the first. Exceptions are masked from the one to
//! the other, so a CPU that answers an interrupt is in no slot, and slots can go when all have been held once.

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use aarch64_cpu::registers::{ESR_EL1, Readable};
use kernel::instructions::{brk, is_movable};
use linmap::Va;

use crate::area::{self, Area, Permission};
use crate::cpu;
use crate::exceptions::Registers;
use crate::poke::{Refusal, poke};

/// What is called, with interrupts masked: it takes no lock, and may come across probes, which do not call it again.
pub(crate) type Handler = fn(&Registers);

/// The immediates of the two BRKs, as Linux has them.
const PROBE: u16 = 4;
const STEP: u16 = 6;

/// DAIF in SPSR_EL1.
const MASKS: u64 = 0xf << 6;

/// How many probes there can be at once.
const MOST: usize = 8;

/// A probe as the exception finds it.
struct Entry {
    taken: AtomicBool,
    /// Where it is; 0 while it is nowhere.
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

/// What a CPU does, which alone writes it.
#[repr(align(64))]
struct Stepping {
    /// Where it goes on after the slot, and which exceptions are masked then.
    next: AtomicU64,
    masks: AtomicU64,
    /// It is in a handler.
    handling: AtomicBool,
}

static STEPPING: [Stepping; cpu::MAX] = [const {
    Stepping { next: AtomicU64::new(0), masks: AtomicU64::new(0), handling: AtomicBool::new(false) }
}; cpu::MAX];

/// Why there is no probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    /// There are as many as there can be.
    Full,
    /// What the instruction there does depends on where it is, or it may not go on behind itself.
    NotMovable(u32),
    /// There is no memory for a slot, or it can not become code.
    Slot(area::Error),
    /// The code can not be changed.
    Poke(Refusal),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("there are as many probes as there can be"),
            Self::NotMovable(instruction) => write!(f, "{instruction:#010x} can not be executed elsewhere"),
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
    /// Puts one at an instruction.
    ///
    /// # Errors
    ///
    /// All is as before.
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
        // SAFETY: who executes the BRK finds the entry; the original is in the slot.
        if let Err(e) = unsafe { poke(&area, at, original, brk(PROBE)) } {
            probe.clear();
            return Err(Error::Poke(e));
        }
        Ok(probe)
    }

    /// A page with the instruction in it and the second BRK behind, read-only and executable.
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

    /// Forgets the probe: no CPU executes its BRK or is in its slot.
    fn clear(&self) {
        self.entry.at.store(0, Ordering::Relaxed);
        self.area.free(self.slot());
        self.entry.taken.store(false, Ordering::Release);
    }

    /// Where its slot is.
    pub(crate) fn slot(&self) -> Va {
        Va(self.entry.slot.load(Ordering::Relaxed))
    }

    /// Takes it away: what was there is there again.
    ///
    /// # Errors
    ///
    /// It stays.
    pub(crate) fn remove(self) -> Result<(), (Self, Refusal)> {
        // SAFETY: what was there. All CPUs are held meanwhile, so that none is in the slot afterwards.
        match unsafe { poke(&self.area, self.at, brk(PROBE), self.original) } {
            Ok(()) => {
                self.clear();
                Ok(())
            }
            Err(why) => Err((self, why)),
        }
    }
}

/// Where the vectors go with a synchronous exception that is a BRK. Whether it is a probe's, and `registers` say how
/// to go on.
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

/// Calls the handler and goes to the slot.
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
