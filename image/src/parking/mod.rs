//! Parking: all CPUs leave the upper half, a few entries of its tables change, and all come back.
//!
//! The CPU that parks holds the locks of what it changes. It numbers the parking, interrupts the others, and waits until
//! each has answered that it is away: from its interrupt handler, or from the wait for a lock, in which interrupts are
//! masked. Then it leaves as well, stores, and announces that the parking is over. What they do while they are away is in
//! `park.s`: it needs no stack, and no address of the upper half.
//!
//! One CPU parks the others at a time. A second one, which holds other locks, answers while it waits for its turn: its
//! operation has nothing half done at that place, no lock of the first one, and its stores are made visible before.
//!
//! Locks are held while it waits, so it waits no longer than a parking takes when all answer (`limits`). A *call*
//! comes before, while no lock is held: all CPUs answer that they are there, and continue. It has patience.
//!
//! If a CPU does not come, the parking is called off: `CannotPark`, and nothing has been stored. That CPU may be a vCPU
//! that its host has stopped, at any instruction, for any time. Why this does no harm, whichever CPU it is:
//!
//! - **Nothing changes under a CPU.** Entries and the root are stored when each other CPU has answered with the number
//!   of this parking, and it answers when TTBR1 has no tables any more and its TLB is empty. A late answer has the
//!   number of a parking that is over, for which nobody waits any more: numbers are not used twice.
//! - **No CPU stays away.** It waits until its own number *or a later one* is over, which the CPU that asks announces
//!   in any case, with an event. If it was stopped before it left, it finds the parking over and comes back at once.
//! - **No CPU continues with an old root.** It loads the root after it has seen that it may, by a load that acquires
//!   what the store of that number released (`ldar`, `stlr`). The next change of the root waits until this CPU has
//!   answered another number, so a CPU that is stopped between load and use still has the right one.
//! - **A CPU answers in order.** It decides with interrupts masked. Otherwise its handler could answer a later parking
//!   between the decision and the answer, and its answers would go backwards.
//! - **A retry succeeds** when the CPU is back: a parking that was called off leaves nothing behind but its number.
//! - **If the CPU that asks is stopped**, the others wait for it, as for any holder of a lock. It gives up only after a
//!   hundred looks with time between them (`kernel::patience`), so not because it was stopped itself, or all were.
//!
//! The rules for numbers are in `kernel::rendezvous`, where a model tries every interleaving. `run=late` makes CPUs
//! stay away, and answer with old numbers.

mod call;
mod limits;
mod times;

use core::arch::global_asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use kernel::rendezvous::{has_come, is_asked, is_over};
use linmap::arm64::Uses;
use linmap::cpu::Registers;
use linmap::{CannotPark, Dsb, EntryUpdate, Geometry, OaFormat, Pa};

use self::call::Call;
pub(crate) use self::call::answer_call;
use self::limits::at_once;
pub(crate) use self::limits::{all_come, with_limit};
use self::times::Times;
use crate::clock::{comes_true, counter_frequency, now};
use crate::cpus::{HARDWARE, Masked};
use crate::image::Image;
use crate::interrupts::{self, Sgi};
use crate::lock::{Lock, Taken};
use crate::{cpu, identity, pmu};

global_asm!(
    include_str!("park.s"),
    root = const offset_of!(Request, root),
    rewrites = const offset_of!(Request, rewrites),
);

unsafe extern "C" {
    fn park_stay_away(identity: u64, empty: u64, request: u64, to_physical: u64, number: u64, away: u64);
    fn mark_park_begin();
    fn mark_park_end();
    fn park_rewrite(
        identity: u64,
        empty: u64,
        request: u64,
        to_physical: u64,
        number: u64,
        count: u64,
        root: u64,
    );
}

/// The request that CPUs read while they are away, at its physical address; `park.s` knows the fields.
#[repr(C, align(64))]
struct Request {
    /// The number of the last parking that is over, or has been called off.
    over: AtomicU64,
    /// TTBR1_EL1 for CPUs that come back.
    root: AtomicU64,
    /// The stores: first entry, first entry that is read, number of entries, bits cleared, bits set, nothing.
    rewrites: [[AtomicU64; 6]; EntryUpdate::MOST],
}

static REQUEST: Request = Request {
    over: AtomicU64::new(0),
    root: AtomicU64::new(0),
    rewrites: [const { [const { AtomicU64::new(0) }; 6] }; EntryUpdate::MOST],
};

/// The number of the last parking that was asked for.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// One CPU parks the others at a time.
static PARKER: Lock = Lock::new(answer_if_asked);

/// The difference of a physical address in the image to its virtual one, wrapping.
static TO_PHYSICAL: AtomicU64 = AtomicU64::new(0);

/// TTBRs hold addresses of 52 bits.
static WIDE: AtomicBool = AtomicBool::new(false);

/// The answers of one CPU.
#[repr(align(64))]
struct Answer {
    /// The last parking that it went away for.
    away: AtomicU64,
    /// The last parking that it came back from.
    back: AtomicU64,
}

static ANSWERS: [Answer; cpu::MAX] =
    [const { Answer { away: AtomicU64::new(0), back: AtomicU64::new(0) } }; cpu::MAX];

/// How long CPUs were stopped, each time.
static STOPPED: Times = Times::new();
/// The number of parkings that were called off.
static CALLED_OFF: AtomicU32 = AtomicU32::new(0);
/// The number of calls that a CPU did not answer in time.
static UNANSWERED: AtomicU32 = AtomicU32::new(0);
/// The instructions of the last parking on the CPU that asked for it, while all others were away.
static LAST: AtomicU32 = AtomicU32::new(0);
/// Parkings are measured to the end; the instructions of the last one on all CPUs.
static MEASURE: AtomicBool = AtomicBool::new(false);
static MEASURED: AtomicU32 = AtomicU32::new(0);

/// Allows parking from now on, if there is a 1:1 map.
pub(crate) fn start(image: &Image, geometry: Geometry, root: Pa) {
    TO_PHYSICAL.store(image.offset().wrapping_neg(), Ordering::Relaxed);
    WIDE.store(geometry.oa_format() != OaFormat::Bits48, Ordering::Relaxed);
    REQUEST.root.store(Registers::ttbr(root, geometry.oa_format()), Ordering::Release);
}

/// Answers if another CPU calls or parks this one. Every wait in which interrupts may be masked calls this.
#[inline]
pub(crate) fn answer_if_asked() {
    answer_call();
    if now_asked().is_some() {
        // Walkers of CPUs that come back see all that this one has stored, should it wait while it holds a lock.
        HARDWARE.cpu.dsb(Dsb::Ishst);
        answer_masked();
    }
}

/// Returns the number of the parking that CPUs are asked for, if there is one.
#[inline]
fn now_asked() -> Option<u64> {
    let asked = ASKED.load(Ordering::Acquire);
    is_asked(asked, REQUEST.over.load(Ordering::Acquire)).then_some(asked)
}

/// Decides and answers without an interrupt in between.
#[cold]
fn answer_masked() {
    let _masked = Masked::new();
    if let Some(number) = now_asked() {
        answer_to(number);
    }
}

/// Answers the interrupt of a CPU that calls or parks this one; the parking may already be over.
pub(crate) fn answer() {
    answer_call();
    answer_masked();
}

/// Asks all other CPUs whether they are there, and waits until they have answered. No lock is held.
///
/// # Errors
///
/// A CPU does not answer, or cannot be interrupted.
pub(crate) fn call() -> Result<(), CannotPark> {
    if identity::ttbr0() == 0 || others().any(|cpu| !interrupts::is_started(cpu)) {
        return Err(CannotPark);
    }
    let call = Call::new();
    interrupts::send_to_others(Sgi::Park);
    let all_here = all_come(|| {
        // Another CPU may be waiting for this one in the same way.
        answer_if_asked();
        others().all(|cpu| call.is_answered_by(cpu))
    });
    HARDWARE.cpu.note(others().fold(Uses::default(), |all, _| all.and(interrupts::handling())));
    if !all_here {
        UNANSWERED.fetch_add(1, Ordering::Relaxed);
    }
    all_here.then_some(()).ok_or(CannotPark)
}

/// Iterates over the other CPUs that run.
fn others() -> impl Iterator<Item = usize> + Clone {
    let own = cpu::this().index;
    cpu::running().filter(move |cpu| *cpu != own)
}

/// Returns the physical address of something in the image.
fn physical<T>(of: &'static T) -> u64 {
    (core::ptr::from_ref(of) as u64).wrapping_add(TO_PHYSICAL.load(Ordering::Relaxed))
}

/// Stays away until the parking with this number is over. Interrupts are masked.
#[inline]
fn answer_to(number: u64) {
    let own = &ANSWERS[cpu::this().index];
    let (to_physical, began) = (TO_PHYSICAL.load(Ordering::Relaxed), now());
    let (identity, empty) = (identity::ttbr0(), identity::empty());
    let (request, away) = (physical(&REQUEST), physical(&own.away));
    // SAFETY: interrupts are masked. The 1:1 map has the image, so the code, the request and this answer; TTBR1
    // gets its tables from the CPU that parks, which holds the locks of those that change.
    unsafe { park_stay_away(identity, empty, request, to_physical, number, away) };
    // Each CPU takes one interrupt for each parking, now or later.
    HARDWARE.cpu.note(AWAY.and(interrupts::handling()));
    STOPPED.add(nanoseconds(now().wrapping_sub(began)));
    own.back.store(number, Ordering::Release);
}

/// The primitives of leaving the upper half and coming back, without what is done meanwhile.
const AWAY: Uses = Uses { tlbi: 2, dsb: 2, isb: 6 };

/// The same, with what the CPU uses that stores meanwhile.
pub(crate) const REWRITING: Uses = Uses { tlbi: AWAY.tlbi, dsb: AWAY.dsb + 2, isb: AWAY.isb };

fn nanoseconds(ticks: u64) -> u64 {
    let frequency = u128::from(counter_frequency().max(1));
    u64::try_from(u128::from(ticks) * 1_000_000_000 / frequency).unwrap_or(u64::MAX)
}

/// Asks all other CPUs to go away. Returns true if they have.
fn all_away(number: u64) -> bool {
    ASKED.store(number, Ordering::Release);
    interrupts::send_to_others(Sgi::Park);
    at_once(|| others().all(|cpu| has_come(ANSWERS[cpu].away.load(Ordering::Acquire), number)))
}

/// Waits until no other CPU parks, and answers one that does. Returns none if that takes too long.
fn turn() -> Option<Taken<'static>> {
    let mut turn = None;
    at_once(|| {
        answer_if_asked();
        turn = PARKER.try_lock();
        turn.is_some()
    });
    turn
}

/// Makes CPUs that are away look again.
fn call_off(number: u64) {
    CALLED_OFF.fetch_add(1, Ordering::Relaxed);
    REQUEST.over.store(number, Ordering::Release);
    HARDWARE.cpu.dsb(Dsb::Ishst);
    // SAFETY: an event only ends waits for one, after the store is visible.
    unsafe { core::arch::asm!("sev", options(nostack, preserves_flags)) };
}

/// Stores `rewrites` with all CPUs off the upper half, which then come back to the table at `root`. The caller holds
/// locks on live tables, those of the entries among them, and interrupts are masked.
///
/// # Safety
///
/// As for [`Hardware::park`](linmap::Hardware::park).
///
/// # Errors
///
/// A CPU does not come at once, or cannot be interrupted; nothing was stored.
pub(crate) unsafe fn park(root: Pa, rewrites: &[EntryUpdate]) -> Result<(), CannotPark> {
    let deaf = others().any(|cpu| !interrupts::is_started(cpu));
    if identity::ttbr0() == 0 || rewrites.len() > EntryUpdate::MOST || deaf {
        return Err(CannotPark);
    }
    let _turn = turn().ok_or(CannotPark)?;
    for (to, from) in REQUEST.rewrites.iter().zip(rewrites) {
        let (slot, read) = (from.slot(), from.from());
        let first = slot.index as u64 * 8;
        let values = [slot.table.0 + first, read.0 + first, from.count() as u64, from.clear(), from.set()];
        for (to, value) in to.iter().zip(values) {
            to.store(value, Ordering::Relaxed);
        }
    }
    let number = ASKED.load(Ordering::Relaxed) + 1;
    let (asked, began) = (pmu::instructions(), now());
    if !all_away(number) {
        call_off(number);
        return Err(CannotPark);
    }
    // SAFETY: all others are away; the rest is the caller's promise.
    unsafe { rewrite(root, rewrites.len(), number) };
    HARDWARE.cpu.note(REWRITING);
    STOPPED.add(nanoseconds(now().wrapping_sub(began)));
    if MEASURE.load(Ordering::Relaxed) {
        all_back(number);
        MEASURED.store(pmu::instructions().wrapping_sub(asked), Ordering::Relaxed);
    }
    Ok(())
}

/// Waits until each CPU that went away is back and has counted what it used. It does not wait for one that did not
/// come.
pub(crate) fn settle() {
    let is_back =
        |cpu: usize| ANSWERS[cpu].back.load(Ordering::Acquire) >= ANSWERS[cpu].away.load(Ordering::Acquire);
    comes_true(|| {
        answer_if_asked();
        others().all(is_back)
    });
}

/// Stores, and ends the parking.
///
/// # Safety
///
/// As for [`park`]. All others are away, and the stores are in the request.
unsafe fn rewrite(root: Pa, count: usize, number: u64) {
    let format = if WIDE.load(Ordering::Relaxed) { OaFormat::Lpa2 } else { OaFormat::Bits48 };
    let (identity, empty, root) = (identity::ttbr0(), identity::empty(), Registers::ttbr(root, format));
    let (request, to_physical) = (physical(&REQUEST), TO_PHYSICAL.load(Ordering::Relaxed));
    let begin = pmu::instructions();
    // SAFETY: as in `answer_to`; every other CPU is away, so nothing uses the tables; their pages are RAM, which
    // the 1:1 map has; `root` is a table whose tree the library owns and has completed. Markers do nothing.
    unsafe {
        mark_park_begin();
        park_rewrite(identity, empty, request, to_physical, number, count as u64, root);
        mark_park_end();
    }
    LAST.store(pmu::instructions().wrapping_sub(begin), Ordering::Relaxed);
}

/// Returns the instructions of the last parking on the CPU that asked for it, from when the last other CPU was away; 0
/// where they are not counted.
pub(crate) fn last() -> u32 {
    LAST.load(Ordering::Relaxed)
}

/// Turns measuring on or off. While it is on, the CPU that parks waits until all are back.
pub(crate) fn measure(measure: bool) {
    MEASURE.store(measure, Ordering::Relaxed);
}

/// Returns the instructions of all CPUs in the last parking that was measured, from when they were asked until all were
/// back; 0 where they are not counted.
pub(crate) fn measured() -> u32 {
    MEASURED.load(Ordering::Relaxed)
}

/// The number of requests to a CPU before it is given up.
pub(crate) const TIMES: u32 = 16;

/// Does something, and again if a CPU did not answer or its parking was called off: nothing has changed then, and the CPU
/// may come now.
///
/// # Errors
///
/// The error of `work`, or of its last parking after [`TIMES`] times.
#[inline]
pub(crate) fn again<R, E: PartialEq + From<CannotPark>>(
    mut work: impl FnMut() -> Result<R, E>,
) -> Result<R, E> {
    let given_up = || called_off() + unanswered();
    for _ in 1..TIMES {
        let before = given_up();
        match work() {
            Err(error) if error == CannotPark.into() && given_up() != before => {}
            result => return result,
        }
    }
    work()
}

/// Returns how many parkings were called off.
pub(crate) fn called_off() -> u32 {
    CALLED_OFF.load(Ordering::Relaxed)
}

/// Returns how many calls were not answered by all CPUs.
pub(crate) fn unanswered() -> u32 {
    UNANSWERED.load(Ordering::Relaxed)
}

/// Returns the number of the last parking that was asked for.
pub(crate) fn asked() -> u64 {
    ASKED.load(Ordering::Acquire)
}

/// Returns true if a parking is over.
pub(crate) fn was_over(number: u64) -> bool {
    is_over(REQUEST.over.load(Ordering::Acquire), number)
}

/// Answers a parking that is over, as a CPU does that was stopped after it had decided to. Interrupts are masked.
pub(crate) fn answer_late(number: u64) {
    answer_to(number);
}

fn all_back(number: u64) {
    comes_true(|| others().all(|cpu| ANSWERS[cpu].back.load(Ordering::Acquire) >= number));
}

/// Returns how long CPUs were stopped, each time.
pub(crate) fn stopped() -> &'static Times {
    &STOPPED
}
