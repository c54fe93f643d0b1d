//! Pages go out of the linear map and come back, as a kernel has it that guards its allocations: one page, many in a row, many
//! apart, and on all CPUs at once. The invalidations are left to flushes.
//!
//! The range is pinned before, so nothing here needs a table page or changes the size of a leaf.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use linmap::error::ChangeError;
use linmap::{Change, ChangeFlags, Policy, Reason, SharedSpace, Va};

use super::counted::counted;
use super::scratch::scratch;
use super::tally::Tally;
use crate::probe::{Fault, try_read};
use crate::system::System;
use crate::warning::warn;
use crate::{cpu, parking, report, smp};

/// The pages that go and come together.
const TOGETHER: u64 = 512;
/// The pages that go and come one by one, one in so many.
const APART: u64 = 8;
/// The times that each CPU takes its page out.
const ROUNDS: u64 = 300;

/// Takes pages out and puts them back. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let Some(start) = scratch(system, "pagealloc", TOGETHER) else { return true };
    if system.space.policy() == Policy::Fixed {
        warn(format_args!("run=pagealloc: the policy is fixed, so no page can come out of a larger leaf"));
        return true;
    }
    let tally = Tally::start("pagealloc", system);
    let test = Test { system, space: system.space, tally: &tally, start, rounds: AtomicU64::new(0) };
    if tally.done(test.pin(true), "the range cannot be pinned").is_some() {
        test.fill();
        test.together();
        test.apart();
        test.one();
        test.on_all_cpus();
        test.check_all(|_| true);
        tally.done(test.pin(false), "the range cannot be unpinned");
        let collapse = || system.space.on(&system.platform()).collapse(start, TOGETHER);
        tally.done(parking::again(collapse), "the range cannot collapse");
    }
    let rounds = test.rounds.load(Relaxed);
    tally.conclude(
        format_args!(
            "{TOGETHER} pages went and came together and apart, and one on each CPU, {rounds} times in all"
        ),
        &[("cpus", cpu::running().count() as u64), ("pages", TOGETHER), ("rounds", rounds)],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    space: &'a SharedSpace,
    tally: &'a Tally<'a>,
    start: Va,
    /// The times that a CPU took its page out.
    rounds: AtomicU64,
}

impl Test<'_> {
    fn page(&self, n: u64) -> Va {
        Va(self.start.0 + (n << self.system.geometry.page_shift()))
    }

    fn pin(&self, pinned: bool) -> Result<(), ChangeError> {
        let platform = self.system.platform();
        match pinned {
            true => {
                let live = || self.space.on(&platform).because(Reason::GUARD);
                parking::again(|| live().pin(self.start, TOGETHER))
            }
            false => self.space.on(&platform).unpin(self.start, TOGETHER),
        }
    }

    /// Writes its number into each page.
    fn fill(&self) {
        for n in 0..TOGETHER {
            let word: *mut u64 = core::ptr::with_exposed_provenance_mut(self.page(n).0 as usize);
            // SAFETY: a page of free RAM without an owner, mapped and writable.
            unsafe { word.write_volatile(n) };
        }
    }

    /// Checks that exactly those pages are there that should be, with what was written.
    fn check_all(&self, is_there: impl Fn(u64) -> bool) {
        (0..TOGETHER).for_each(|n| self.check(n, is_there(n)));
    }

    fn check(&self, n: u64, is_there: bool) {
        let right = match try_read(self.page(n)) {
            Ok(number) => is_there && number == n,
            Err(Fault::Translation(_)) => !is_there,
            Err(_) => false,
        };
        self.tally.expect(right, format_args!("page {n} is not as it should be"));
    }

    /// Counts changes, which must succeed.
    #[inline(always)]
    fn count(&self, name: &'static str, pages: u64, work: impl FnOnce() -> Result<(), ChangeError>) {
        let (done, window) = counted(self.system, work);
        if self.tally.done(done, name).is_some() {
            report::window(name, &window, &[("pages", Some(pages))]);
        }
    }

    #[inline(always)]
    fn set_page_valid(&self, n: u64, valid: bool) -> Result<(), ChangeError> {
        // SAFETY: memory without an owner; only code that expects a fault accesses a page that is not valid.
        unsafe {
            self.space.on(&self.system.platform()).change(
                self.page(n),
                1,
                Change::of_validity(valid),
                ChangeFlags::LATER,
            )
        }
    }

    fn flush(&self, first: u64, pages: u64) -> Result<(), ChangeError> {
        self.space.on(&self.system.platform()).flush(self.page(first), pages)
    }

    /// All of them by one call.
    fn together(&self) {
        let change = |change| {
            // SAFETY: as for `set_page_valid`.
            unsafe {
                self.space.on(&self.system.platform()).change(
                    self.start,
                    TOGETHER,
                    change,
                    ChangeFlags::LATER,
                )
            }
        };
        // Once before it is counted.
        let done = change(Change::INVALID).and(self.flush(0, TOGETHER)).and(change(Change::VALID));
        self.tally.done(done, "the pages cannot go and come");
        self.count("pages_out", TOGETHER, || change(Change::INVALID));
        self.count("pages_flush", TOGETHER, || self.flush(0, TOGETHER));
        self.check_all(|_| false);
        self.count("pages_back", TOGETHER, || change(Change::VALID));
        self.check_all(|_| true);
    }

    /// One in some, each by a call, and one flush of all.
    fn apart(&self) {
        let each =
            |valid| (0..TOGETHER).step_by(APART as usize).try_for_each(|n| self.set_page_valid(n, valid));
        let pages = TOGETHER / APART;
        self.count("pages_apart_out", pages, || each(false));
        self.count("pages_apart_flush", pages, || self.flush(0, TOGETHER));
        self.check_all(|n| !n.is_multiple_of(APART));
        self.count("pages_apart_back", pages, || each(true));
        self.check_all(|_| true);
    }

    /// A single page.
    fn one(&self) {
        self.count("page_out", 1, || self.set_page_valid(1, false));
        self.count("page_flush", 1, || self.flush(1, 1));
        self.check(1, false);
        self.count("page_back", 1, || self.set_page_valid(1, true));
        self.check(1, true);
    }

    /// A page of each CPU: it is gone on the next CPU as well, and its neighbours stay.
    fn on_all_cpus(&self) {
        smp::on_all(&|cpu| {
            let n = 2 * cpu as u64 % TOGETHER;
            for _ in 0..ROUNDS {
                let out = self.set_page_valid(n, false).and_then(|()| self.flush(n, 1));
                if self.tally.done(out, "its page cannot go").is_none() {
                    return;
                }
                self.check(n, false);
                self.check(n + 1, true);
                if self.tally.done(self.set_page_valid(n, true), "its page cannot come back").is_none() {
                    return;
                }
                self.check(n, true);
                self.rounds.fetch_add(1, Relaxed);
            }
        });
        let gone = self.set_page_valid(0, false).and_then(|()| self.flush(0, 1));
        self.tally.done(gone, "a page cannot go");
        smp::on_all(&|_| self.check(0, false));
        self.tally.done(self.set_page_valid(0, true), "a page cannot come back");
        smp::on_all(&|_| self.check(0, true));
    }
}
