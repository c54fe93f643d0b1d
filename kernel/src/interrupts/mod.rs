//! What interrupts there are and what is done at each: a CPU's own timer, and what CPUs send each other.
//!
//! Handlers run with interrupts masked, on the stack of what they interrupt. They neither print nor take a
//! lock: whatever they have to say is counted.

mod gicv2;
mod gicv3;
mod registers;
mod timer;

use core::arch::asm;
use core::fmt;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use aarch64_cpu::asm::barrier;
use kernel_plan::gic::InterruptController;
use kernel_plan::machine::Machine;
use linmap::arm64::Uses;
use linmap::{AddressSpace, Pa, Platform, Va};
use spin::Once;

use self::gicv2::Gicv2;
use self::gicv3::Gicv3;
use self::registers::Mapper;
use self::timer::Timer;
pub(crate) use self::timer::{
    PATIENCE, TICKS_PER_SECOND, comes_true, comes_true_within, counter_frequency, now,
};
use crate::exceptions::try_read;
use crate::{cpu, parking, smp, warn};

/// Why there are no interrupts, or none on a CPU.
#[derive(Debug)]
pub(crate) enum Error {
    /// The device tree has no controller that is known.
    NoController,
    /// The device tree does not say which interrupt the virtual timer has.
    NoTimer,
    /// The timer does not say how fast it counts.
    NoFrequency,
    /// The controller's registers are in RAM, or at no address.
    NotRegisters(Range<Pa>),
    /// The registers can not be mapped.
    Map(linmap::Error),
    /// It is a GICv3, and the CPU has no system registers for it.
    NoSystemRegisters,
    /// No redistributor belongs to the CPU.
    NoRedistributor {
        /// The CPU's affinity.
        mpidr: u64,
    },
    /// A register did not change as it should.
    Stuck(&'static str),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoController => f.write_str("the device tree has no GICv2 and no GICv3"),
            Self::NoTimer => {
                f.write_str("the device tree does not say which interrupt the virtual timer has")
            }
            Self::NoFrequency => f.write_str("CNTFRQ_EL0 does not say how fast the timer counts"),
            Self::NotRegisters(range) => {
                write!(f, "no interrupt controller can be at {range:?}: that is RAM or no address")
            }
            Self::Map(e) => write!(f, "the interrupt controller can not be mapped: {e}"),
            Self::NoSystemRegisters => f.write_str("the CPU has no system registers for its GICv3"),
            Self::NoRedistributor { mpidr } => write!(f, "no redistributor belongs to MPIDR {mpidr:#x}"),
            Self::Stuck(register) => write!(f, "{register} does not become what was written"),
        }
    }
}

/// What CPUs send each other: software-generated interrupts, by their INTIDs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(crate) enum Sgi {
    /// Ends a WFI, and no more.
    Wake = 0,
    /// Asks a CPU to park.
    Park = 1,
    /// Asks a CPU to do nothing for a moment.
    Hold = 2,
}

/// The INTIDs that are enabled besides the timer's.
const SGIS: u32 = 1 << Sgi::Wake as u32 | 1 << Sgi::Park as u32 | 1 << Sgi::Hold as u32;

/// What an acknowledged interrupt is: the register as it was read, and the INTID in it.
#[derive(Clone, Copy)]
struct Acknowledged {
    raw: u32,
    intid: u32,
}

/// The controller in use.
enum Controller {
    V2(Gicv2),
    V3(Gicv3),
}

/// What is the same on all CPUs.
struct Interrupts {
    controller: Controller,
    timer: Timer,
}

static INTERRUPTS: Once<Interrupts> = Once::new();

/// What has happened on one CPU, which alone writes it.
#[repr(align(64))]
struct PerCpu {
    /// Whether interrupts can be sent to it.
    started: AtomicBool,
    ticks: AtomicU64,
    wakes: AtomicU64,
    parks: AtomicU64,
    spurious: AtomicU64,
    unexpected: AtomicU64,
    /// The last INTID that nobody expected.
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

/// How many interrupts of each kind a CPU has had.
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

/// What a CPU has had so far.
pub(crate) fn counts(cpu: usize) -> Counts {
    let PerCpu { ticks, wakes, parks, spurious, unexpected, .. } = &PER_CPU[cpu];
    let [ticks, wakes, parks, spurious, unexpected] =
        [ticks, wakes, parks, spurious, unexpected].map(|count| count.load(Relaxed));
    Counts { ticks, wakes, parks, spurious, unexpected }
}

/// The ticks of the CPU that runs this, for assembly to watch.
pub(crate) fn own_ticks() -> &'static AtomicU64 {
    &PER_CPU[cpu::this().index].ticks
}

/// Whether a CPU has its interrupts started.
pub(crate) fn is_started(cpu: usize) -> bool {
    PER_CPU[cpu].started.load(Relaxed)
}

/// The version of the controller in use.
pub(crate) fn version() -> Option<u32> {
    INTERRUPTS.get().map(|interrupts| match interrupts.controller {
        Controller::V2(_) => 2,
        Controller::V3(_) => 3,
    })
}

/// The barriers of [`send`], which does not count them.
pub(crate) const SENDING: Uses = Uses { tlbi: 0, dsb: 1, isb: 1 };

/// The barriers of acknowledging an interrupt and ending it, which are not counted.
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
/// What is missing, or the registers can not be mapped. Nothing uses interrupts then.
pub(crate) fn start<P: Platform>(
    machine: &Machine,
    pa_bits: u32,
    space: &AddressSpace,
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
        InterruptController::V3 { distributor, redistributors, stride } => {
            let distributor = mapper.map(distributor)?;
            let redistributors =
                redistributors.iter().map(|range| mapper.map(range)).collect::<Result<_, _>>()?;
            let gic = Gicv3::new(distributor, redistributors, *stride);
            gic.start()?;
            Controller::V3(gic)
        }
    };
    INTERRUPTS.call_once(|| Interrupts { controller, timer });
    Ok(())
}

/// Starts what a CPU has of its own, on that CPU: its part of the controller and its timer. The caller unmasks
/// interrupts.
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
    // SAFETY: the handler is in the vectors from the entry code on, and nothing that it uses is held across
    // this: it takes no lock.
    unsafe { asm!("msr daifclr, #2", options(nostack, preserves_flags)) };
}

/// Does something without an interrupt in the midst of it.
#[inline(always)]
pub(crate) fn masked<R>(work: impl FnOnce() -> R) -> R {
    let daif: u64;
    // SAFETY: what does not happen now happens later.
    unsafe { asm!("mrs {}, daif", "msr daifset, #2", out(reg) daif, options(nostack, preserves_flags)) };
    let result = work();
    // SAFETY: back to what it was.
    unsafe { asm!("msr daif, {}", in(reg) daif, options(nostack, preserves_flags)) };
    result
}

/// Interrupts one CPU, perhaps this one, if its interrupts are started. What was stored before, it sees.
pub(crate) fn send(cpu: usize, sgi: Sgi) {
    send_to(core::iter::once(cpu), sgi);
}

/// Interrupts all other CPUs whose interrupts are started. What was stored before, they see.
pub(crate) fn send_to_others(sgi: Sgi) {
    let own = cpu::this().index;
    send_to((0..cpu::MAX).filter(|cpu| *cpu != own), sgi);
}

fn send_to(cpus: impl Iterator<Item = usize>, sgi: Sgi) {
    let Some(Interrupts { controller, .. }) = INTERRUPTS.get() else { return };
    let cpus = cpus.filter(|cpu| is_started(*cpu));
    barrier::dsb(barrier::ISHST);
    match controller {
        Controller::V2(gic) => gic.send(cpus, sgi),
        Controller::V3(_) => Gicv3::send(cpus, sgi),
    }
    barrier::isb(barrier::SY);
}

/// Says which interrupts came that nobody expected. Not for handlers.
pub(crate) fn report_unexpected() {
    for (cpu, of) in PER_CPU.iter().enumerate() {
        let (count, last) = (of.unexpected.load(Relaxed), of.last_unexpected.load(Relaxed));
        if count != 0 {
            warn(format_args!(
                "CPU {cpu} had {count} interrupts that nobody expected, the last with INTID {last}"
            ));
        }
    }
}

/// Whether the next wake-ups read an address that is not mapped, for a test that this is survived.
pub(crate) static PROBE_AT_WAKE: AtomicBool = AtomicBool::new(false);

/// Where the vectors go with an interrupt of EL1: it takes one and returns.
#[unsafe(no_mangle)]
extern "C" fn interrupt() {
    let Some(Interrupts { controller, timer }) = INTERRUPTS.get() else {
        panic!("an interrupt, and no controller has been started");
    };
    let own = &PER_CPU[cpu::this().index];
    let Acknowledged { raw, intid } = match controller {
        Controller::V2(gic) => gic.acknowledge(),
        Controller::V3(_) => Gicv3::acknowledge(),
    };
    // What says that there is none is not ended.
    if (1020..=1023).contains(&intid) {
        own.spurious.fetch_add(1, Relaxed);
        return;
    }
    // A timer's interrupt is pending for as long as the timer is due, so that is changed first.
    let is_tick = intid == timer.intid;
    if is_tick {
        timer.next();
        own.ticks.fetch_add(1, Relaxed);
    }
    // Ended before anything is done about it, so that no interrupt is active while a CPU is parked. What comes
    // meanwhile, the same one again included, becomes pending and is taken when this handler has returned.
    match controller {
        Controller::V2(gic) => gic.end(raw),
        Controller::V3(_) => Gicv3::end(raw),
    }
    if !is_tick {
        heard(own, intid);
    }
}

/// What is done when a CPU has been sent an interrupt.
fn heard(own: &PerCpu, intid: u32) {
    const WAKE: u32 = Sgi::Wake as u32;
    const PARK: u32 = Sgi::Park as u32;
    const HOLD: u32 = Sgi::Hold as u32;
    match intid {
        WAKE => {
            if PROBE_AT_WAKE.load(Relaxed) {
                // The lower half is empty.
                _ = try_read(Va(0));
            }
            own.wakes.fetch_add(1, Relaxed);
        }
        PARK => {
            own.parks.fetch_add(1, Relaxed);
            parking::answer();
        }
        HOLD => smp::hold(),
        _ => {
            own.last_unexpected.store(intid, Relaxed);
            own.unexpected.fetch_add(1, Relaxed);
        }
    }
}
