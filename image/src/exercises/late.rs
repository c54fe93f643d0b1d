//! A CPU does not answer a call, or does not come to be parked: the parking is called off, and nothing has changed. Its
//! late answer, with the number of that parking, is no answer to the next one. When it comes, the same change succeeds.
//!
//! Each CPU but the boot CPU is late in its turn. It behaves as a vCPU that its host stops: it masks interrupts and
//! looks at nothing, for longer than the limit, and continues as if it had decided to answer before. It is late to be
//! held as well, and is asked again.
//!
//! All waits are for what the other CPU has done, so the speed of the host does not matter.

use core::sync::atomic::{AtomicU64, Ordering};

use linmap::error::ChangeError;
use linmap::{CannotPark, Change, Hardware, Policy, Stats, Va};

use super::scratch::scratch;
use super::tally::Tally;
use crate::cpu::relax;
use crate::hardware::{HARDWARE, Masked, lock_all};
use crate::leaf::Leaf;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{cpu, parking, smp};

/// The looks of the late CPU for a sign that its old number was taken for an answer.
const LOOKS: u32 = 1000;

/// The stages of the two CPUs.
const BEGIN: u64 = 0;
/// The late CPU answers nothing.
const DEAF: u64 = 1;
/// A parking was called off. From here on, stages are the number of the parking plus this.
const CALLED_OFF: u64 = 2;
/// All is done; the other CPUs may go.
const OVER: u64 = u64::MAX;

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    /// A page without an owner, within a large leaf if there is one.
    page: Va,
    limit: u64,
    stage: AtomicU64,
}

/// The state that must be the same when nothing has changed.
type Map = (Stats, Option<Leaf>, u64);

/// Makes each CPU late in its turn. Returns true if all went well.
pub(super) fn run(system: &System<'_>, limit: u64) -> bool {
    let Some(start) = scratch(system, "late", 3) else { return true };
    let page = Va(start.0 + system.geometry.page_size());
    let tally = Tally::start("late", system);
    let (before, late) = (parking::called_off(), cpu::running().filter(|cpu| *cpu != 0));
    for late in late.clone() {
        let test = || Test { system, tally: &tally, page, limit, stage: AtomicU64::new(BEGIN) };
        let (park, hold) = (test(), test());
        smp::on_all(&|cpu| match cpu {
            0 => park.first(),
            cpu if cpu == late => park.late(),
            _ => park.wait(|stage| stage == OVER),
        });
        smp::on_all(&|cpu| match cpu {
            0 => hold.holds(),
            cpu if cpu == late => hold.is_held_late(),
            _ => hold.wait(|stage| stage == OVER),
        });
    }
    let (late, called_off) = (late.count() as u64, parking::called_off() - before);
    tally.expect(
        u64::from(called_off) >= late,
        format_args!("{called_off} parkings were called off, not {late}"),
    );
    tally.conclude(
        format_args!("{late} CPUs were late: their parkings were called off, changed nothing, and were done when they came"),
        &[("late", late), ("called_off", called_off.into())],
    )
}

impl Test<'_> {
    /// Waits for the other CPU with interrupts as they are: only the first CPU parks.
    fn wait(&self, until: impl Fn(u64) -> bool) {
        while !until(self.stage.load(Ordering::Acquire)) {
            relax();
        }
    }

    fn reach(&self, stage: u64) {
        self.stage.store(stage, Ordering::Release);
    }

    fn map(&self) -> Map {
        let stats = self.system.space.on(&self.system.platform()).stats();
        (stats, Leaf::at(self.system, self.page), self.system.pages_in_use())
    }

    /// Makes the page read-only if that takes a parking; otherwise parks without a change.
    fn park(&self) -> Result<(), ChangeError> {
        let System { space, .. } = self.system;
        if self.takes_parking() {
            // SAFETY: memory without an owner.
            return unsafe { space.on(&self.system.platform()).protect(self.page, 1, Change::READ_ONLY) };
        }
        HARDWARE.call().and_then(|()| self.park_at_once()).map_err(|_| ChangeError::CannotPark)
    }

    /// Parks without a change, and without a call before it.
    fn park_at_once(&self) -> Result<(), CannotPark> {
        let _held = lock_all();
        // SAFETY: the root in use, and no stores.
        unsafe { parking::park(self.system.space.root(), &[]) }
    }

    fn takes_parking(&self) -> bool {
        let is_large = Leaf::at(self.system, self.page).is_some_and(|leaf| leaf.pages(self.system) > 1);
        self.system.space.policy() == Policy::Park && is_large
    }

    /// Checks that the page can be read and written, or only read.
    fn probe(&self, writable: bool, what: &str) {
        // SAFETY: memory without an owner.
        let write = unsafe { try_write(self.page, self.page.0) };
        let right = if writable { write.is_ok() } else { matches!(write, Err(Fault::Permission(_))) };
        let read = try_read(self.page);
        self.tally
            .expect(right && read == Ok(self.page.0), format_args!("{what}: write {write:?}, read {read:?}"));
    }

    /// The CPU that parks.
    fn first(&self) {
        let (before, takes_parking) = (self.map(), self.takes_parking());
        self.probe(true, "before");
        self.wait(|stage| stage == DEAF);
        let asked = parking::asked();
        let called = parking::with_limit(self.limit, || HARDWARE.call());
        self.tally.expect(called.is_err() && parking::asked() == asked, "a CPU that is deaf has answered");
        let result = parking::with_limit(self.limit, || self.park());
        self.tally.expect(result == Err(ChangeError::CannotPark), format_args!("not given up: {result:?}"));
        // As if it had answered and were stopped then.
        let parked = parking::with_limit(self.limit, || self.park_at_once());
        self.tally.expect(parked.is_err(), "not called off");
        self.tally.expect(self.map() == before, "what was called off has changed the map");
        self.probe(true, "called off");
        self.reach(CALLED_OFF + parking::asked());
        let result = parking::again(|| self.park());
        self.tally.expect(result.is_ok(), format_args!("not done when all are there: {result:?}"));
        self.probe(!takes_parking, "done");
        if takes_parking {
            let (space, platform) = (self.system.space, self.system.platform());
            // SAFETY: memory without an owner.
            let change = || unsafe { space.on(&platform).protect(self.page, 1, Change::WRITABLE) };
            self.tally.done(parking::again(change), "writable");
            self.tally.done(parking::again(|| space.on(&platform).collapse(self.page, 1)), "collapse");
        }
        self.tally.expect(self.map() == before, "the map is not what it was");
        self.reach(OVER);
    }

    /// The CPU that does not come.
    fn late(&self) {
        let masked = Masked::new();
        self.reach(DEAF);
        self.wait(|stage| stage >= CALLED_OFF);
        let called_off = self.stage.load(Ordering::Acquire) - CALLED_OFF;
        while parking::asked() == called_off {
            // It answers the next call, and does not come to the parking after it.
            parking::answer_call();
            relax();
        }
        // The first CPU waits for this one again, and gets the answer to the parking before.
        parking::answer_late(called_off);
        for _ in 0..LOOKS {
            let taken = parking::was_over(called_off + 1);
            if !self.tally.expect(!taken, "what a CPU said late was taken for an answer") {
                break;
            }
            relax();
        }
        self.probe(true, "on the CPU that is late");
        // The interrupt is still pending.
        drop(masked);
        self.wait(|stage| stage == OVER);
        self.probe(true, "on the CPU that was late");
    }

    /// The CPU that holds the others.
    fn holds(&self) {
        self.wait(|stage| stage == DEAF);
        let (before, mut times) = (smp::asked(), 0);
        let held = parking::with_limit(self.limit, || smp::while_others_wait(|| times += 1));
        let asked = smp::asked() - before;
        self.tally.expect(asked >= 2, "a CPU that was deaf is not asked again");
        // On a busy host it may miss all of them.
        let given_up = held.is_none() && asked == u64::from(parking::TIMES);
        self.tally.expect(held.is_some() || given_up, format_args!("given up, asked {asked} times"));
        self.tally.expect(times == u32::from(held.is_some()), format_args!("done {times} times: {held:?}"));
        self.reach(OVER);
    }

    /// The CPU that does not come when it is first asked.
    fn is_held_late(&self) {
        let before = smp::asked();
        let masked = Masked::new();
        self.reach(DEAF);
        self.wait(|stage| stage == OVER || smp::asked() >= before + 2);
        drop(masked);
        self.wait(|stage| stage == OVER);
    }
}
