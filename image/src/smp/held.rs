//! All other CPUs held for a moment, each in an interrupt handler, so that code can be changed that they may execute.
//!
//! Unlike parked CPUs they stay in the upper half, and answer a CPU that parks them. Work done meanwhile takes no lock,
//! as any of them may hold it. A CPU that comes late finds the moment over (`kernel::rendezvous`).

use core::sync::atomic::{AtomicU64, Ordering};

use kernel::rendezvous::{has_come, is_over};

use crate::cpu::{self, relax};
use crate::cpus::HARDWARE;
use crate::interrupts::{self, Sgi};
use crate::lock::Lock;
use crate::parking;

/// One CPU at a time holds the others.
static LOCK: Lock = Lock::new(parking::answer_if_asked);
/// The number of the last request.
static ASKED: AtomicU64 = AtomicU64::new(0);
/// The number of the last request that is over.
static OVER: AtomicU64 = AtomicU64::new(0);

/// The last request that a CPU has come for.
#[repr(align(64))]
struct Came(AtomicU64);

static CAME: [Came; cpu::MAX] = [const { Came(AtomicU64::new(0)) }; cpu::MAX];

/// Does something while all other CPUs are held. They then see what was stored, and fetch their code anew. Returns
/// none, and does nothing, if one of them does not come, however often it is asked. The caller's interrupts are not
/// masked, and it holds no lock.
pub(crate) fn while_others_wait<R>(work: impl FnOnce() -> R) -> Option<R> {
    let _one = LOCK.lock();
    let number = (0..parking::TIMES).find_map(|_| all_held())?;
    let result = interrupts::masked(work);
    OVER.store(number, Ordering::Release);
    HARDWARE.cpu.isb();
    Some(result)
}

/// Asks all other CPUs to come. Returns the number of the request; none if one did not come, and the others continue.
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

/// Returns how often CPUs were asked.
pub(crate) fn asked() -> u64 {
    ASKED.load(Ordering::Acquire)
}

/// Holds the CPU that runs this, which was interrupted for that; the request may already be over.
pub(crate) fn hold() {
    let number = ASKED.load(Ordering::Acquire);
    CAME[cpu::this().index].0.store(number, Ordering::Release);
    while !is_over(OVER.load(Ordering::Acquire), number) {
        parking::answer_if_asked();
        relax();
    }
    HARDWARE.cpu.isb();
}
