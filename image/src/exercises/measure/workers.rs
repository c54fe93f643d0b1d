//! CPUs that work side by side, each on its own share of the memory, and begin together.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use kernel::measure;
use kernel_plan::measure::Cell;
use linmap::Va;
use spin::mutex::SpinMutex;

use super::events::{self, Events, VALUES, Values};
use crate::clock::{counter_frequency, now};
use crate::cpu::{self, relax};
use crate::exercises::tally::Tally;
use crate::{interrupts, parking, smp};

/// The cost of a turn.
#[derive(Clone, Copy)]
pub(super) struct Sample {
    /// The nanoseconds of the slowest CPU.
    pub(super) ns: u64,
    /// Cycles of the slowest CPU, events of all CPUs; none if one of them does not count it.
    pub(super) values: Values,
}

impl Sample {
    /// Returns the sample of two sets of CPUs.
    fn with(self, other: Self) -> Self {
        let both = |n: usize| self.values[n].zip(other.values[n]);
        let join = |n: usize| both(n).map(|(a, b)| if n == 0 { a.max(b) } else { a + b });
        Self { ns: self.ns.max(other.ns), values: core::array::from_fn::<_, VALUES, _>(join) }
    }
}

/// Has the CPUs of a cell do something with their shares, from `start` on.
fn each(cell: &Cell, start: Va, work: impl Fn(&mut [u64]) + Sync) {
    let share = |n: u64| {
        let first = core::ptr::with_exposed_provenance_mut((start.0 + n * cell.share) as usize);
        // SAFETY: the scratch range is mapped and writable and has no owner; each CPU has another part of it, until all
        // are done.
        unsafe { core::slice::from_raw_parts_mut(first, cell.share as usize / 8) }
    };
    if cell.cpus == 1 {
        return work(share(0));
    }
    smp::on_all(&|cpu| {
        if let Some(n) = cpu::running().position(|running| running == cpu) {
            work(share(n as u64));
        }
    });
}

/// Fills the memory of a cell.
pub(super) fn fill(cell: &Cell, start: Va) {
    each(cell, start, |words| measure::fill(cell.work, words));
}

/// Does so many steps on each CPU. Returns what it took, and the number of CPUs with a right result.
pub(super) fn run(cell: &Cell, start: Va, (first, steps): (u64, u64)) -> (Option<Sample>, u64) {
    let (here, right) = (AtomicU64::new(0), AtomicU64::new(0));
    let all = SpinMutex::<Option<Sample>>::new(None);
    each(cell, start, |words| {
        let events = Events::of_this_cpu();
        events.start();
        here.fetch_add(1, Relaxed);
        while here.load(Relaxed) < cell.cpus {
            parking::answer_if_asked();
            relax();
        }
        let (result, sample) =
            interrupts::masked(|| timed(events, || measure::run(cell.work, words, first, steps)));
        events.stop();
        if measure::is_right(cell.work, words, first, steps, result) {
            right.fetch_add(1, Relaxed);
        }
        let mut all = all.lock();
        *all = Some(all.map_or(sample, |all| all.with(sample)));
    });
    (all.into_inner(), right.into_inner())
}

/// Has the first CPU do something while the others follow the loads of their shares, until it is done. Reports a load
/// that led elsewhere, and a CPU that followed none.
pub(super) fn first_and_others(
    cell: &Cell,
    start: Va,
    over: &AtomicBool,
    tally: &Tally<'_>,
    first: impl Fn() + Sync,
) {
    let (busy, own) = (AtomicU64::new(1), cpu::this().index);
    each(cell, start, |words| {
        if cpu::this().index == own {
            while busy.load(Relaxed) < cell.cpus {
                parking::answer_if_asked();
                relax();
            }
            first();
            return over.store(true, Relaxed);
        }
        let mut step = 0;
        while !over.load(Relaxed) {
            let result = measure::run(cell.work, words, step, cell.steps);
            let right = measure::is_right(cell.work, words, step, cell.steps, result);
            tally.expect(right, "a load led to another line while a leaf changed its size");
            busy.fetch_add(u64::from(step == 0), Relaxed);
            step += cell.steps;
        }
    });
}

/// Does something, and returns what it took.
#[inline(always)]
fn timed<R>(events: Events, work: impl FnOnce() -> R) -> (R, Sample) {
    let (before, began) = (events.read(), now());
    let result = work();
    let (ended, after) = (now(), events.read());
    let values = events::between(&before, &after);
    (result, Sample { ns: nanoseconds(ended.wrapping_sub(began)), values })
}

/// Converts ticks of the counter.
pub(super) fn nanoseconds(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / u128::from(counter_frequency().max(1))) as u64
}
