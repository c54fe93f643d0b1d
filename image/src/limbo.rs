//! Live tables are read without a lock: a CPU that reads says so, and pages that were tables wait until it has left.
//!
//! A CPU that is parked, or waits for a lock, while it reads is still a reader: pages wait longer. One that is idle or off
//! does not read. Fault handlers read as all others do.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kernel::readers::{Readers, Retired};
use linmap::{Frame, Memory, Pa};

use crate::cpu::{self, relax};
use crate::lock::Guarded;
use crate::parking;

/// The most pages that wait. An operation retires a few in each hold of its locks.
const ROOM: usize = 512;

static READERS: Readers<{ cpu::MAX }> = Readers::new();
static RETIRED: Guarded<Retired<ROOM>> = Guarded::new(Retired::new(), parking::answer_if_asked);
/// The number of pages that wait.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Does something that reads live tables. It waits for no other CPU.
#[inline]
pub(crate) fn read<R>(work: impl FnOnce() -> R) -> R {
    let cpu = cpu::this().index;
    let section = READERS.begin(cpu);
    let result = work();
    READERS.end(cpu, section);
    result
}

/// Gives back a page that was a live table and has no pointer to it any more, when no CPU can be reading it.
#[inline]
pub(crate) fn retire(memory: &impl Memory, frame: Frame) {
    if READERS.nobody_reads(cpu::count()) && WAITING.load(Relaxed) == 0 {
        memory.give(frame);
    } else {
        keep(memory, frame);
    }
}

/// Keeps a page, and gives back those that are free now.
///
/// When there is no room it waits for the oldest readers. That ends: they wait for no lock that the caller may hold, and
/// the caller does not read itself, as no operation is called from a reader's work. Only a reader that prints all of a map
/// while another CPU takes down a tree of that many tables is waited for.
#[cold]
fn keep(memory: &impl Memory, frame: Frame) {
    let page = frame.into_pa().0;
    while !RETIRED.with(|retired| {
        release(retired, memory);
        let kept = retired.add(&READERS, page);
        release(retired, memory);
        kept
    }) {
        parking::answer_if_asked();
        relax();
    }
}

/// Gives back the pages that no CPU can be reading any more. The caller has the lock on the list.
fn release(retired: &mut Retired<ROOM>, memory: &impl Memory) {
    retired.release(&READERS, cpu::count(), |page| {
        // SAFETY: the list owned the page, and no reader is in it. There is one frame source, so it goes back to its own.
        memory.give(unsafe { Frame::from_pa(Pa(page)) });
    });
    WAITING.store(retired.len(), Relaxed);
}

/// Waits until all pages have been given back. The caller holds no lock and does not read.
pub(crate) fn drain(memory: &impl Memory) {
    while WAITING.load(Relaxed) != 0 {
        RETIRED.with(|retired| release(retired, memory));
        parking::answer_if_asked();
        relax();
    }
}
