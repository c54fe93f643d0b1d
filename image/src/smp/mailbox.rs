//! Jobs: work that one CPU hands to others and waits for.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU8, Ordering};

use crate::cpu::{self, relax};
use crate::interrupts::{self, Sgi};
use crate::parking;

/// A job; its parameter is the number of the CPU that does it.
type Job<'a> = &'a (dyn Fn(usize) + Sync);

/// The mailbox in which one CPU finds its job.
pub(super) struct Mailbox {
    state: AtomicU8,
    /// Written by the CPU that has set the state to `FILLING`, read by the owner while it is `FULL`.
    job: UnsafeCell<Option<*const (dyn Fn(usize) + Sync)>>,
}

const EMPTY: u8 = 0;
const FILLING: u8 = 1;
const FULL: u8 = 2;
const DONE: u8 = 3;

// SAFETY: the state gives the job to one CPU at a time, and what it points to is `Sync`.
unsafe impl Sync for Mailbox {}

static MAILBOXES: [Mailbox; cpu::MAX] = [const { Mailbox::new() }; cpu::MAX];

/// Returns the mailbox of the CPU that runs this.
pub(super) fn own() -> &'static Mailbox {
    &MAILBOXES[cpu::this().index]
}

impl Mailbox {
    const fn new() -> Self {
        Self { state: AtomicU8::new(EMPTY), job: UnsafeCell::new(None) }
    }

    /// Returns true if there is a job to do.
    pub(super) fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == FULL
    }

    /// Does the job, if there is one. Its owner alone calls this.
    pub(super) fn work(&self) {
        if !self.is_full() {
            return;
        }
        // SAFETY: while the box is full its owner, which runs this, has it alone.
        let job = unsafe { *self.job.get() };
        if let Some(job) = job {
            // SAFETY: the CPU that filled the box waits until the job is done, and keeps it until then.
            unsafe { (*job)(cpu::this().index) };
        }
        self.state.store(DONE, Ordering::Release);
    }

    /// Puts a job in once the box is empty. The caller waits until it is done.
    fn fill(&self, job: *const (dyn Fn(usize) + Sync)) {
        let claimed =
            || self.state.compare_exchange(EMPTY, FILLING, Ordering::Acquire, Ordering::Relaxed).is_ok();
        wait_until(claimed);
        // SAFETY: while the box is being filled it belongs to the CPU that claimed it.
        unsafe { *self.job.get() = Some(job) };
        self.state.store(FULL, Ordering::Release);
    }

    /// Waits until the job is done, and empties the box.
    fn finish(&self) {
        wait_until(|| self.state.load(Ordering::Acquire) == DONE);
        self.state.store(EMPTY, Ordering::Release);
    }
}

fn wait_until(holds: impl Fn() -> bool) {
    while !holds() {
        parking::answer_if_asked();
        relax();
    }
}

/// Makes one running CPU do a job, and waits until it is done. A job must not hand out jobs.
pub(crate) fn on(cpu: usize, job: Job<'_>) {
    on_each(core::iter::once(cpu), job);
}

/// Makes all running CPUs do a job at the same time, this one included, and waits until all are done. A job must not
/// hand out jobs.
pub(crate) fn on_all(job: Job<'_>) {
    on_each(cpu::running(), job);
}

fn on_each(cpus: impl Iterator<Item = usize> + Clone, job: Job<'_>) {
    let own = cpu::this().index;
    let others = cpus.clone().filter(|cpu| *cpu != own && cpu::is_running(*cpu));
    // SAFETY: only the lifetime changes. The job is borrowed for all of this function, which returns when each CPU that
    // was handed it is done with it.
    let lasting: Job<'static> = unsafe { core::mem::transmute(job) };
    for cpu in others.clone() {
        MAILBOXES[cpu].fill(lasting);
        interrupts::send(cpu, Sgi::Wake);
    }
    if cpus.into_iter().any(|cpu| cpu == own) {
        job(own);
    }
    others.for_each(|cpu| MAILBOXES[cpu].finish());
}
