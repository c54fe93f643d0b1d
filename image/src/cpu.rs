//! The data of each CPU, found by TPIDR_EL1: its number, its affinity, its state.

use core::arch::asm;
use core::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use kernel_plan::cpus::AFFINITY;
pub(crate) use kernel_plan::cpus::MAX;

/// The data of one CPU. The entry code puts its address into TPIDR_EL1 before any Rust runs.
#[repr(C, align(64))]
pub(crate) struct PerCpu {
    /// The CPU's number: 0 is the boot CPU, the others follow in the order of the device tree.
    pub(crate) index: usize,
    /// Its affinity, once it is known.
    mpidr: AtomicU64,
    /// A [`State`].
    state: AtomicU8,
}

/// The states of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// It does not run, or is about to.
    Off,
    /// It has entered the system and takes jobs.
    Running,
    /// It has entered the system and turns itself off again.
    Leaving,
}

impl PerCpu {
    const fn new(index: usize) -> Self {
        Self {
            index,
            mpidr: AtomicU64::new(0),
            state: AtomicU8::new(if index == 0 { State::Running } else { State::Off } as u8),
        }
    }
}

/// The data of all CPUs; the entry code knows the first.
#[unsafe(no_mangle)]
static PER_CPU: [PerCpu; MAX] = {
    let mut all = [const { PerCpu::new(0) }; MAX];
    let mut index = 0;
    while index < MAX {
        all[index] = PerCpu::new(index);
        index += 1;
    }
    all
};

/// Returns the data of the CPU that runs this.
#[inline]
pub(crate) fn this() -> &'static PerCpu {
    let own: *const PerCpu;
    // SAFETY: TPIDR_EL1 is written before Rust runs on a CPU, and never again; reading it has no side effect.
    unsafe { asm!("mrs {}, tpidr_el1", out(reg) own, options(nomem, nostack, preserves_flags)) };
    // SAFETY: it holds the address of an element of `PER_CPU`, a static.
    unsafe { &*own }
}

/// The number of CPUs that were ever to run, this boot.
static COUNT: AtomicUsize = AtomicUsize::new(1);

/// Returns a number that is above those of all CPUs that run.
#[inline]
pub(crate) fn count() -> usize {
    COUNT.load(Ordering::Relaxed)
}

/// Returns the data of a CPU.
pub(crate) fn of(index: usize) -> &'static PerCpu {
    &PER_CPU[index]
}

/// Iterates over the numbers of the CPUs that run, the boot CPU first.
pub(crate) fn running() -> impl Iterator<Item = usize> + Clone {
    (0..count()).filter(|index| is_running(*index))
}

/// Returns true if a CPU runs.
pub(crate) fn is_running(index: usize) -> bool {
    is(index, State::Running)
}

/// Returns true if a CPU is in this state.
pub(crate) fn is(index: usize, state: State) -> bool {
    PER_CPU[index].state.load(Ordering::Acquire) == state as u8
}

/// Sets the state of the CPU that runs this.
pub(crate) fn set_state(state: State) {
    this().state.store(state as u8, Ordering::Release);
}

/// Returns the affinity of a CPU: Aff3 to Aff0 as MPIDR_EL1 has them.
pub(crate) fn mpidr(index: usize) -> u64 {
    PER_CPU[index].mpidr.load(Ordering::Relaxed)
}

/// Sets the affinity of a CPU, which may run from now on.
pub(crate) fn set_mpidr(index: usize, mpidr: u64) {
    COUNT.fetch_max(index + 1, Ordering::Relaxed);
    PER_CPU[index].mpidr.store(mpidr & AFFINITY, Ordering::Relaxed);
}

/// Reads the affinity of the CPU that runs this.
pub(crate) fn own_mpidr() -> u64 {
    let mpidr: u64;
    // SAFETY: reading an ID register has no side effect.
    unsafe { asm!("mrs {}, mpidr_el1", out(reg) mpidr, options(nomem, nostack, preserves_flags)) };
    mpidr & AFFINITY
}

/// Lets other threads of the CPU run: a wait does this between two looks.
#[inline]
pub(crate) fn relax() {
    // SAFETY: a hint changes nothing.
    unsafe { asm!("yield", options(nomem, nostack, preserves_flags)) };
}

/// Waits for ever: another CPU ends the run.
pub(crate) fn stop() -> ! {
    loop {
        aarch64_cpu::asm::wfe();
    }
}
