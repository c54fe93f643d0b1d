//! All other CPUs held for a moment, each in an interrupt handler: for code to be changed that they may execute.
//!
//! Unlike CPUs that are parked they stay where the map has them, and answer when another one parks them. What is
//! done meanwhile takes no lock, as any of them may have it. One that comes late finds it over (`kernel::rendezvous`).

use core::sync::atomic::{AtomicU64, Ordering};

use aarch64_cpu::asm::barrier;
use kernel::rendezvous::{has_come, is_over};

use crate::cpu::{self, relax};
use crate::interrupts::{self, Sgi};
use crate::lock::Lock;
use crate::parking;

/// One at a time.
static LOCK: Lock = Lock::new();
/// The number of the last time that CPUs were asked.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// The number of the last time that is over.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The last time that a CPU has come for.
#[repr(align(64))]
struct Came(AtomicU64);

static CAME: [Came; cpu::MAX] = [const { Came(AtomicU64::new(0)) }; cpu::MAX];

/// Does something while no other CPU does anything; all then see what was stored, and fetch anew what they execute.
/// Nothing if one of them does not come, however often it is asked. The caller's interrupts are not masked, and it holds
/// no lock.
pub(crate) fn while_others_wait<R>(work: impl FnOnce() -> R) -> Option<R> {
    let _one = LOCK.lock();
    let number = (0..parking::TIMES).find_map(|_| all_held())?;
    let result = interrupts::masked(work);
    OVER.store(number, Ordering::Release);
    barrier::isb(barrier::SY);
    Some(result)
}

/// Asks all other CPUs to come. The number that they wait for; nothing if one did not come, and the others go on.
fn all_held() -> Option<u64> {
    let own = cpu::this().index;
    let number = ASKED.load(Ordering::Relaxed) + 1;
    ASKED.store(number, Ordering::Release);
    interrupts::send_to_others(Sgi::Hold);
    let others = || cpu::running().filter(|cpu| *cpu != own);
    let held =
        parking::all_come(|| others().all(|cpu| has_come(CAME[cpu].0.load(Ordering::Acquire), number)));
    if !held {
        OVER.store(number, Ordering::Release);
    }
    held.then_some(number)
}

/// How often CPUs were asked.
pub(crate) fn asked() -> u64 {
    ASKED.load(Ordering::Acquire)
}

/// Where a CPU goes that has been interrupted for this; by now it may be over.
pub(crate) fn hold() {
    let number = ASKED.load(Ordering::Acquire);
    CAME[cpu::this().index].0.store(number, Ordering::Release);
    while !is_over(OVER.load(Ordering::Acquire), number) {
        parking::answer_if_asked();
        relax();
    }
    barrier::isb(barrier::SY);
}
