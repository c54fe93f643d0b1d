//! Calls: a CPU asks the others whether they are there. They answer and continue, so a CPU that calls needs no lock, and
//! several may call at the same time.

use core::sync::atomic::{AtomicU64, Ordering};

use kernel::rendezvous::has_answered;

use crate::cpu;

/// The number of the last call.
static CALLED: AtomicU64 = AtomicU64::new(0);

/// The last call that a CPU has answered.
#[repr(align(64))]
struct Here(AtomicU64);

static HERE: [Here; cpu::MAX] = [const { Here(AtomicU64::new(0)) }; cpu::MAX];

/// A call, by its number.
pub(super) struct Call(u64);

impl Call {
    /// Calls. CPUs that are interrupted from now on answer.
    pub(super) fn new() -> Self {
        Self(CALLED.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Returns true if a CPU has answered.
    pub(super) fn is_answered_by(&self, cpu: usize) -> bool {
        has_answered(HERE[cpu].0.load(Ordering::Acquire), self.0)
    }
}

/// Answers the calls so far. A handler may have answered a later one since this has looked, so no answer goes back.
#[inline]
pub(crate) fn answer_call() {
    let here = &HERE[cpu::this().index].0;
    let number = CALLED.load(Ordering::Acquire);
    if here.load(Ordering::Relaxed) < number {
        here.fetch_max(number, Ordering::Release);
    }
}
