//! Leaves change their size under CPUs that use them, all at once, while interrupts come in.
//!
//! The first CPU splits and collapses the largest leaves of the scratch range, again and again. Each of the others has
//! a page in them: it writes and reads it without pause, protects it, finds that it cannot write, and makes it writable
//! again. So CPUs are parked, if that is the policy, during work and during changes of their own; a translation that is
//! lost, stale or double shows as a fault or as wrong data. It also looks its page up in the tables, as readers do that
//! hold no lock: whatever the size of its leaf is at that time, it is there.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::{Change, Policy, Stats, Va};

use super::scratch::scratch;
use crate::console::say;
use crate::leaf::Leaf;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{cpu, interrupts, parking, report, smp};

/// The fewest rounds of the first CPU.
const ROUNDS: u64 = 200;
/// The ticks that each CPU has had before it ends.
const TICKS: u64 = 3;

struct Work<'a> {
    system: &'a System<'a>,
    /// The address of the scratch range, and its pages in use.
    start: Va,
    pages: u64,
    /// The first CPU is done.
    over: AtomicBool,
    /// The changes of the map by all CPUs.
    changes: AtomicU64,
    /// The accesses of the other CPUs, and their look-ups in the tables.
    accesses: AtomicU64,
    lookups: AtomicU64,
    wrong: AtomicU64,
}

/// Makes all CPUs work. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let range = &system.memory.scratch.range;
    let Some(start) = scratch(system, "together", 1) else { return true };
    let leaf = Leaf::at(system, start).map_or(0, |leaf| leaf.size.bytes());
    let bytes = (range.end.0 - range.start.0).min(leaf.max(4 << 20u32));
    let work = Work {
        system,
        start,
        pages: bytes >> system.geometry.page_shift(),
        over: AtomicBool::new(false),
        changes: AtomicU64::new(0),
        accesses: AtomicU64::new(0),
        lookups: AtomicU64::new(0),
        wrong: AtomicU64::new(0),
    };
    let before = system.space.on(&system.platform()).stats();
    smp::on_all(&|cpu| if cpu == 0 { work.first() } else { work.other(cpu) });
    work.judge(&before)
}

impl Work<'_> {
    fn expect(&self, holds: bool, cpu: usize, what: &str) {
        if !holds && self.wrong.fetch_add(1, Relaxed) < 20 {
            say!("together: CPU {cpu}: {what}");
        }
    }

    /// Returns the page of a CPU. These are far apart, and none is at the end of a leaf.
    fn page(&self, cpu: usize) -> Va {
        let cpus = cpu::count().max(64) as u64 + 1;
        let number = ((cpu as u64 + 1) * self.pages / cpus).max(cpu as u64 + 1) % self.pages;
        Va(self.start.0 + (number << self.system.geometry.page_shift()))
    }

    /// Changes one page, if the policy allows it.
    fn protect(&self, cpu: usize, va: Va, change: Change) -> bool {
        let System { space, .. } = self.system;
        // SAFETY: the page is this CPU's alone, which does not write to it while it is read-only.
        match parking::again(|| unsafe { space.on(&self.system.platform()).protect(va, 1, change) }) {
            Ok(()) => {
                self.changes.fetch_add(1, Relaxed);
                true
            }
            Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }) => false,
            Err(e) => {
                self.expect(false, cpu, "its page cannot be protected");
                say!("together: {e}");
                false
            }
        }
    }

    fn first(&self) {
        let System { space, .. } = self.system;
        let page = self.page(0);
        let ticked = || cpu::running().all(|cpu| interrupts::counts(cpu).ticks >= TICKS);
        let mut rounds = 0;
        while rounds < ROUNDS || (interrupts::is_started(0) && !ticked()) {
            rounds += 1;
            if self.protect(0, page, Change::READ_ONLY) {
                // SAFETY: memory without an owner.
                let refused = matches!(unsafe { try_write(page, 0) }, Err(Fault::Permission(_)));
                self.expect(refused, 0, "its page can be written while it is read-only");
                self.protect(0, page, Change::WRITABLE);
            }
            let collapse = || space.on(&self.system.platform()).collapse(self.start, self.pages);
            if let Err(e) = parking::again(collapse) {
                self.expect(false, 0, "the range cannot collapse");
                say!("together: {e}");
            }
        }
        self.over.store(true, Relaxed);
    }

    fn other(&self, cpu: usize) {
        let page = self.page(cpu);
        let word: *mut u64 = core::ptr::with_exposed_provenance_mut(page.0 as usize);
        let mut round = cpu as u64;
        while !self.over.load(Relaxed) {
            for _ in 0i32..50i32 {
                round += cpu::MAX as u64;
                // SAFETY: a page of free RAM that is this CPU's alone, mapped and writable.
                let read = unsafe {
                    word.write_volatile(round);
                    word.read_volatile()
                };
                self.expect(read == round, cpu, "it reads something else than it wrote");
            }
            self.accesses.fetch_add(50, Relaxed);
            (0i32..10i32)
                .for_each(|_| self.expect(self.is_mapped(page), cpu, "the tables have lost its page"));
            self.lookups.fetch_add(10, Relaxed);
            if self.protect(cpu, page, Change::READ_ONLY) {
                // SAFETY: as above.
                let refused = matches!(unsafe { try_write(page, 0) }, Err(Fault::Permission(_)));
                self.expect(refused, cpu, "its page can be written while it is read-only");
                self.expect(try_read(page) == Ok(round), cpu, "its page holds something else");
                self.protect(cpu, page, Change::WRITABLE);
            }
        }
    }

    /// Looks a page of the linear map up. Its memory is there, at any size of leaf.
    fn is_mapped(&self, va: Va) -> bool {
        let System { space, memory, .. } = self.system;
        let memory = va.0.wrapping_sub(memory.layout.offset());
        match space.on(&self.system.platform()).read(|reader| reader.entry(va)) {
            Some((start, _, Entry::Leaf(leaf))) => leaf.valid && leaf.oa.0 + (va.0 - start.0) == memory,
            _ => false,
        }
    }

    fn judge(&self, before: &Stats) -> bool {
        let System { space, .. } = self.system;
        let platform = self.system.platform();
        let collapsed = parking::again(|| space.on(&platform).collapse(self.start, self.pages));
        self.expect(collapsed.is_ok(), 0, "the range cannot collapse in the end");
        let (after, walked) = (space.on(&platform).stats(), report::walked(self.system));
        self.expect(after == *before, 0, "the counts are not what they were");
        self.expect(walked == after, 0, "the counts are not what the tables hold");
        let [changes, accesses, lookups, wrong] =
            [&self.changes, &self.accesses, &self.lookups, &self.wrong].map(|n| n.load(Relaxed));
        let ok = wrong == 0 && (changes != 0 || space.policy() == Policy::Fixed);
        let (cpus, changed) = (cpu::running().count(), space.on(&platform).changes());
        say!(
            "together: {cpus} CPUs changed {changes} pages, wrote {accesses} times and looked up {lookups} pages; {} splits, {} collapses, {} parkings",
            changed.splits,
            changed.collapses,
            changed.parkings
        );
        say!(
            "linmap: {{\"tests\":{{\"together\":{{\"ok\":{ok},\"cpus\":{cpus},\"changes\":{changes},\"accesses\":{accesses},\"lookups\":{lookups},\"wrong\":{wrong}}}}}}}"
        );
        ok & report::check_frames(self.system) & report::check_map(self.system)
    }
}
