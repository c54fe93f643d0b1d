//! Probes: what a page allows the CPU that tries, compared with the model.
//!
//! QEMU keeps translated code by its address, and an invalidation drops only that in the 4K that it names, however
//! large the leaf is. So a call that unexpectedly succeeds is retried at a second address, which is called for nothing
//! else: there the MMU answers.

use core::sync::atomic::{Ordering, fence};

use aarch64_cpu::asm::barrier;
use kernel::stress::model::{Access, Known, Page};
use linmap::Va;

use super::state::{ADDRESS, AGAIN, At, Counts, Stress};
use crate::probe::{Fault, try_execute, try_read, try_write};

/// The first byte of the words that CPUs write, one for each.
const OWN: u64 = 64;

/// The results of a read, a write and a call.
type Found = [Result<(), Fault>; 3];

/// The data read: the page's address, and after a write the value of this CPU.
#[derive(Clone, Copy)]
struct Data {
    address: Option<u64>,
    kept: bool,
}

fn access(result: Result<(), Fault>) -> Option<Access> {
    match result {
        Ok(()) => Some(Access::Works),
        Err(Fault::Permission(_)) => Some(Access::Permission),
        Err(Fault::Translation(_)) => Some(Access::Translation),
        Err(Fault::Other(_)) => None,
    }
}

impl Stress<'_> {
    /// Reads, writes and calls.
    fn try_page(&self, at: At, page: usize) -> (Found, Data) {
        let va = self.va(page);
        let own = Va(va.0 + OWN + 8 * at.cpu as u64);
        // Uses what other CPUs made valid from here on.
        barrier::isb(barrier::SY);
        let read = try_read(Va(va.0 + 8 * ADDRESS as u64));
        let value = at.number << 8u32 | at.cpu as u64;
        // SAFETY: this CPU's word of a page that only this test uses.
        let write = unsafe { try_write(own, value) };
        let kept = write.is_err() || try_read(own).map_or(true, |read| read == value);
        // SAFETY: each page starts with a function that returns.
        let execute = unsafe { try_execute(va) };
        ([read.map(|_| ()), write, execute], Data { address: read.ok(), kept })
    }

    /// Does the same, and retries a call that should not have succeeded.
    fn try_page_known(&self, at: At, page: usize, known: Known) -> (Found, Data) {
        let (mut found, data) = self.try_page(at, page);
        let works = |state: Page| state.allows()[2] == Access::Works;
        if found[2].is_ok() && !works(known.before) && !works(known.after) {
            let word = AGAIN.start + at.number as usize % AGAIN.len();
            // SAFETY: a function that returns.
            found[2] = unsafe { try_execute(Va(self.va(page).0 + 8 * word as u64)) };
            Counts::add(&self.counts[at.cpu].calls_again, 1);
        }
        (found, data)
    }

    /// Probes a page that this CPU owns, or that is at rest.
    pub(super) fn probe(&self, at: At, page: usize) {
        let known = self.model.known(page);
        let (found, data) = self.try_page_known(at, page, known);
        self.judge(at, page, known, &found, data);
    }

    /// Probes a page that may be another CPU's.
    pub(super) fn probe_foreign(&self, at: At, page: usize) {
        let look = || (self.turns.number(page), self.model.known(page));
        let before = look();
        let (found, data) = self.try_page_known(at, page, before.1);
        fence(Ordering::SeqCst);
        if look() == before {
            self.judge(at, page, before.1, &found, data);
        } else {
            Counts::add(&self.counts[at.cpu].passed_over, 1);
        }
    }

    fn judge(&self, at: At, page: usize, known: Known, found: &Found, data: Data) {
        let (counts, mut wrong) = (&self.counts[at.cpu], 0);
        let both = [known.before, known.after];
        for (n, result) in found.iter().enumerate() {
            let is_one = |state: &Page| access(*result) == Some(state.allows()[n]);
            if !both.iter().any(is_one) {
                wrong += 1;
            } else if result.is_err() {
                Counts::add(&counts.faults_expected, 1);
            }
        }
        let is_own = |state: &Page, address| match state {
            Page::Mapped(mapped) => self.oa(page, mapped.skewed).0 == address,
            Page::Hole => false,
        };
        let address_is_right = data.address.is_none_or(|a| both.iter().any(|state| is_own(state, a)));
        wrong += u64::from(!address_is_right) + u64::from(!data.kept);
        Counts::add(&counts.probes, 3);
        if wrong != 0 {
            Counts::add(&counts.faults_wrong, wrong);
            let [read, write, execute] = found;
            self.found_wrong(
                at,
                format_args!(
                    "{} should be {:?}, or {:?}: read {read:?} of {:x?}, write {write:?}, kept {}, execute {execute:?}",
                    self.va(page),
                    known.before,
                    known.after,
                    data.address,
                    data.kept
                ),
            );
        }
    }

    /// Probes all pages, while no CPU changes any.
    pub(super) fn probe_all(&self, cpu: usize) {
        for page in 0..self.pages.all() {
            self.probe(At { cpu, number: u64::MAX >> 8 }, page);
        }
    }
}
