//! Interrupts: each CPU's own timer, and those that CPUs send each other.
//!
//! Handlers run with interrupts masked, on the stack of what they interrupt. They neither print nor take a lock: what
//! they have to report is counted.

mod error;
mod gicv2;
mod gicv3;
mod registers;
mod sgi;
mod timer;

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use kernel_plan::gic::InterruptController;
use kernel_plan::machine::Machine;
use linmap::arm64::Uses;
use linmap::{Dsb, Platform, SharedSpace};
use spin::Once;

use self::error::Error;
use self::gicv2::Gicv2;
use self::gicv3::Gicv3;
use self::registers::Mapper;
pub(crate) use self::sgi::Sgi;
use self::sgi::{Acknowledged, SGIS};
pub(crate) use self::timer::TICKS_PER_SECOND;
use self::timer::Timer;
use crate::cpu;
use crate::cpus::HARDWARE;

/// The controller in use.
enum Controller {
    V2(Gicv2),
    V3(Gicv3),
}

/// The interrupts of all CPUs.
struct Interrupts {
    controller: Controller,
    timer: Timer,
}

static INTERRUPTS: Once<Interrupts> = Once::new();

/// The counts of one CPU, which alone writes them.
#[repr(align(64))]
struct PerCpu {
    /// Interrupts can be sent to it.
    started: AtomicBool,
    ticks: AtomicU64,
    wakes: AtomicU64,
    parks: AtomicU64,
    spurious: AtomicU64,
    unexpected: AtomicU64,
    /// The INTID of the last unexpected one.
    last_unexpected: AtomicU32,
}

static PER_CPU: [PerCpu; cpu::MAX] = [const {
    PerCpu {
        started: AtomicBool::new(false),
        ticks: AtomicU64::new(0),
        wakes: AtomicU64::new(0),
        parks: AtomicU64::new(0),
        spurious: AtomicU64::new(0),
        unexpected: AtomicU64::new(0),
        last_unexpected: AtomicU32::new(0),
    }
}; cpu::MAX];

/// The interrupts of each kind that a CPU has had.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    /// Of its timer.
    pub(crate) ticks: u64,
    /// [`Sgi::Wake`].
    pub(crate) wakes: u64,
    /// [`Sgi::Park`].
    pub(crate) parks: u64,
    /// Signalled and gone before they were acknowledged.
    pub(crate) spurious: u64,
    /// Of any other INTID.
    pub(crate) unexpected: u64,
}

/// Returns the interrupts that a CPU has had so far.
pub(crate) fn counts(cpu: usize) -> Counts {
    let PerCpu { ticks, wakes, parks, spurious, unexpected, .. } = &PER_CPU[cpu];
    let [ticks, wakes, parks, spurious, unexpected] =
        [ticks, wakes, parks, spurious, unexpected].map(|count| count.load(Relaxed));
    Counts { ticks, wakes, parks, spurious, unexpected }
}

/// Returns the tick count of the CPU that runs this, for assembly to watch.
pub(crate) fn own_ticks() -> &'static AtomicU64 {
    &PER_CPU[cpu::this().index].ticks
}

/// Returns true if a CPU has its interrupts started.
pub(crate) fn is_started(cpu: usize) -> bool {
    PER_CPU[cpu].started.load(Relaxed)
}

/// Returns the version of the controller in use.
pub(crate) fn version() -> Option<u32> {
    INTERRUPTS.get().map(|interrupts| match interrupts.controller {
        Controller::V2(_) => 2,
        Controller::V3(_) => 3,
    })
}

/// Returns the barriers of acknowledging an interrupt and ending it, which are not counted there.
pub(crate) fn handling() -> Uses {
    match INTERRUPTS.get().map(|interrupts| &interrupts.controller) {
        Some(Controller::V3(_)) => Gicv3::HANDLING,
        Some(Controller::V2(_)) | None => Uses::default(),
    }
}

/// Maps the controller and starts its distributor: once, on the boot CPU.
///
/// # Errors
///
/// Something is missing, or the registers cannot be mapped. Nothing uses interrupts then.
pub(crate) fn start<P: Platform>(
    machine: &Machine,
    pa_bits: u32,
    space: &SharedSpace,
    platform: &P,
) -> Result<(), Error> {
    let given = machine.interrupts.as_ref().ok_or(Error::NoController)?;
    let timer = Timer::new(machine.timer.ok_or(Error::NoTimer)?)?;
    let mut mapper = Mapper::new(&machine.ram, pa_bits, space, platform);
    let controller = match given {
        InterruptController::V2 { distributor, cpu_interface } => {
            let gic = Gicv2::new(mapper.map(distributor)?, mapper.map(cpu_interface)?);
            gic.start();
            Controller::V2(gic)
        }
        InterruptController::V3 { distributor, redistributors, stride, joined } => {
            let distributor = mapper.map(distributor)?;
            let redistributors =
                redistributors.iter().map(|range| mapper.map(range)).collect::<Result<_, _>>()?;
            let gic = Gicv3::new(distributor, redistributors, *stride, *joined);
            gic.start()?;
            Controller::V3(gic)
        }
    };
    INTERRUPTS.call_once(|| Interrupts { controller, timer });
    Ok(())
}

/// Starts the parts of the CPU that runs this: its part of the controller and its timer. The caller unmasks interrupts.
///
/// # Errors
///
/// [`start`] has not succeeded, or the CPU's part of the controller is missing.
pub(crate) fn start_cpu() -> Result<(), Error> {
    let Interrupts { controller, timer } = INTERRUPTS.get().ok_or(Error::NoController)?;
    let enabled = SGIS | 1 << timer.intid;
    match controller {
        Controller::V2(gic) => gic.start_cpu(enabled),
        Controller::V3(gic) => gic.start_cpu(enabled)?,
    }
    timer.start();
    PER_CPU[cpu::this().index].started.store(true, Relaxed);
    Ok(())
}

/// Lets this CPU take interrupts.
pub(crate) fn unmask() {
    // SAFETY: the handler is in the vectors from the entry code on, and takes no lock.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Does something while interrupts are masked.
#[inline(always)]
pub(crate) fn masked<R>(work: impl FnOnce() -> R) -> R {
    let daif: u64;
    // SAFETY: interrupts that do not come now come later.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) daif, options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: this restores what was before.
    unsafe { asm!("msr daif, {}", in(reg) daif, options(nostack, preserves_flags)) };
    result
}

/// Interrupts one CPU, perhaps this one, if its interrupts are started. It sees what was stored before.
pub(crate) fn send(cpu: usize, sgi: Sgi) {
    send_to(core::iter::once(cpu), sgi);
}

/// Interrupts all other CPUs whose interrupts are started. They see what was stored before.
pub(crate) fn send_to_others(sgi: Sgi) {
    let own = cpu::this().index;
    send_to((0..cpu::count()).filter(|cpu| *cpu != own), sgi);
}

fn send_to(cpus: impl Iterator<Item = usize>, sgi: Sgi) {
    let Some(Interrupts { controller, .. }) = INTERRUPTS.get() else { return };
    let cpus = cpus.filter(|cpu| is_started(*cpu));
    HARDWARE.cpu.dsb(Dsb::Ishst);
    match controller {
        Controller::V2(gic) => gic.send(cpus, sgi),
        Controller::V3(_) => Gicv3::send(cpus, sgi),
    }
    HARDWARE.cpu.isb();
}

/// Returns how many unexpected interrupts a CPU has had, and the INTID of the last one.
pub(crate) fn unexpected(cpu: usize) -> (u64, u32) {
    let PerCpu { unexpected, last_unexpected, .. } = &PER_CPU[cpu];
    (unexpected.load(Relaxed), last_unexpected.load(Relaxed))
}

/// Takes one interrupt. For one that a CPU has sent, calls `act`. Interrupts are masked.
#[inline(always)]
pub(crate) fn take(act: impl Fn(Sgi)) {
    let Some(Interrupts { controller, timer }) = INTERRUPTS.get() else {
        panic!("an interrupt, and no controller has been started");
    };
    let own = &PER_CPU[cpu::this().index];
    let Acknowledged { raw, intid } = match controller {
        Controller::V2(gic) => gic.acknowledge(),
        Controller::V3(_) => Gicv3::acknowledge(),
    };
    // These INTIDs mean that there is none, so none is ended.
    if (1020..=1023).contains(&intid) {
        own.spurious.fetch_add(1, Relaxed);
        return;
    }
    // A timer's interrupt is pending for as long as the timer is due, so set the timer first.
    let is_tick = intid == timer.intid;
    if is_tick {
        timer.next();
        own.ticks.fetch_add(1, Relaxed);
    }
    // End it before acting on it, so that no interrupt is active while a CPU is parked. Others that come meanwhile, the
    // same one included, become pending and are taken when this handler has returned.
    match controller {
        Controller::V2(gic) => gic.end(raw),
        Controller::V3(_) => Gicv3::end(raw),
    }
    if !is_tick {
        act_on(own, intid, act);
    }
}

/// Counts an interrupt that is no tick, and calls `act` if a CPU has sent it.
#[inline(always)]
fn act_on(own: &PerCpu, intid: u32, act: impl Fn(Sgi)) {
    const WAKE: u32 = Sgi::Wake as u32;
    const PARK: u32 = Sgi::Park as u32;
    const HOLD: u32 = Sgi::Hold as u32;
    match intid {
        WAKE => {
            act(Sgi::Wake);
            own.wakes.fetch_add(1, Relaxed);
        }
        PARK => {
            own.parks.fetch_add(1, Relaxed);
            act(Sgi::Park);
        }
        HOLD => act(Sgi::Hold),
        _ => {
            own.last_unexpected.store(intid, Relaxed);
            own.unexpected.fetch_add(1, Relaxed);
        }
    }
}
