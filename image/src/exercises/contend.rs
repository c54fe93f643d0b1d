//! Many CPUs change the map at once, each a page in a gigabyte of its own: how many acquisitions find a lock held. As a
//! control, all of them change the same pages under one more lock.
//!
//! On QEMU, where CPUs take turns (`--count`), each lets others run at every barrier and while it holds a lock, so they
//! meet wherever they can.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use arrayvec::ArrayVec;
use linmap::layout::linear_range;
use linmap::{Attributes, Change, Combined, Frame, Memory, Sharing, Va};

use super::holds;
use super::tally::{Share, Tally};
use super::watched::{Watch, Watched};
use crate::cpu::{self, relax};
use crate::hardware::Kernel;
use crate::lock::Lock;
use crate::probe::try_write;
use crate::system::System;
use crate::{parking, smp};

/// The most CPUs that take part.
const CPUS: usize = 8;
/// The changes of each.
const CHANGES: u64 = 1000;
/// The first gigabyte of the vmalloc area in which nothing else is.
const GIGABYTE: u64 = 8;

/// Has them change their pages side by side, then one after the other. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("contend", system);
    let cpus: ArrayVec<usize, CPUS> = cpu::running().take(CPUS).collect();
    let test = Test { system, tally: &tally, cpus };
    let frames: ArrayVec<Frame, CPUS> = (0..test.cpus.len()).map_while(|n| test.map(n)).collect();
    let control = Control { lock: Lock::new(parking::answer_if_asked), count: Count::new() };
    let before = COUNTS.all();
    if frames.len() == test.cpus.len() {
        test.change_all(None);
    }
    let free = COUNTS.all().without(&before);
    if frames.len() == test.cpus.len() {
        test.change_all(Some(&control));
    }
    for (n, frame) in frames.into_iter().enumerate() {
        test.unmap(n, frame);
    }
    holds::measure(&tally, system);
    let deliberate = &control.count;
    let (contended, control) = (free.share(), deliberate.share());
    tally.conclude_with(
        format_args!(
            "{} CPUs changed a page {CHANGES} times each: {contended} of the acquisitions found a lock held, and {control} under one lock",
            test.cpus.len()
        ),
        &[
            ("cpus", test.cpus.len() as u64),
            ("changes", 2 * CHANGES * test.cpus.len() as u64),
            ("acquisitions", free.taken.load(Relaxed)),
            ("found_held", free.found_held.load(Relaxed)),
            ("control_acquisitions", deliberate.taken.load(Relaxed)),
            ("control_found_held", deliberate.found_held.load(Relaxed)),
        ],
        &[("contended", contended), ("control", control)],
    )
}

/// The acquisitions of one lock, in a cache line of their own.
#[repr(align(128))]
struct Count {
    taken: AtomicU64,
    found_held: AtomicU64,
}

impl Count {
    const fn new() -> Self {
        Self { taken: AtomicU64::new(0), found_held: AtomicU64::new(0) }
    }

    fn add(&self, found_held: bool) {
        self.taken.fetch_add(1, Relaxed);
        self.found_held.fetch_add(found_held.into(), Relaxed);
    }

    /// Returns what was counted since.
    fn without(self, before: &Self) -> Self {
        self.taken.fetch_sub(before.taken.load(Relaxed), Relaxed);
        self.found_held.fetch_sub(before.found_held.load(Relaxed), Relaxed);
        self
    }

    fn share(&self) -> Share {
        Share { part: self.found_held.load(Relaxed), of: self.taken.load(Relaxed) }
    }
}

/// Those of all locks on live tables.
struct Counts([Count; Kernel::LOCKS]);

static COUNTS: Counts = Counts([const { Count::new() }; Kernel::LOCKS]);

impl Counts {
    fn all(&self) -> Count {
        let all = Count::new();
        for Count { taken, found_held } in &self.0 {
            all.taken.fetch_add(taken.load(Relaxed), Relaxed);
            all.found_held.fetch_add(found_held.load(Relaxed), Relaxed);
        }
        all
    }
}

impl Watch for Counts {
    fn taken(&self, number: usize, found_held: bool) {
        self.0[number].add(found_held);
    }
}

/// One lock for all changes.
struct Control {
    lock: Lock,
    count: Count,
}

impl Control {
    fn with<R>(&self, work: impl FnOnce() -> R) -> R {
        let free = self.lock.try_lock();
        self.count.add(free.is_none());
        let _taken = free.unwrap_or_else(|| self.lock.lock());
        work()
    }
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    /// Those that take part.
    cpus: ArrayVec<usize, CPUS>,
}

impl Test<'_> {
    /// Returns the page of a CPU, in a gigabyte of its own.
    fn page(&self, n: usize) -> Va {
        let behind_linear = linear_range(self.system.geometry).1.0 + 1;
        Va(behind_linear + ((GIGABYTE + n as u64) << 30))
    }

    fn map(&self, n: usize) -> Option<Frame> {
        let System { space, frames, .. } = self.system;
        let Some(frame) = frames.take() else {
            self.tally.expect(false, "no page is left");
            return None;
        };
        // SAFETY: the frame is this test's, of the linear map's memory type, and so is the address.
        let mapped =
            unsafe { space.on(&self.system.platform()).map(self.page(n), 1, frame.pa(), Attributes::RAM) };
        if self.tally.done(mapped, "a page cannot be mapped").is_none() {
            frames.give(frame);
            return None;
        }
        Some(frame)
    }

    fn unmap(&self, n: usize, frame: Frame) {
        // SAFETY: nothing else uses the address.
        let unmapped = unsafe { self.system.space.on(&self.system.platform()).unmap(self.page(n), 1) };
        if self.tally.done(unmapped, "a page cannot be unmapped").is_some() {
            self.system.frames.give(frame);
        }
    }

    /// Has each CPU change its page, beginning at the same time.
    fn change_all(&self, control: Option<&Control>) {
        let here = AtomicUsize::new(0);
        smp::on_all(&|cpu| {
            let Some(n) = self.cpus.iter().position(|taking_part| *taking_part == cpu) else { return };
            here.fetch_add(1, Relaxed);
            while here.load(Relaxed) < self.cpus.len() {
                relax();
            }
            self.change(n, control);
        });
    }

    fn change(&self, n: usize, control: Option<&Control>) {
        let System { space, frames, .. } = self.system;
        let watched = Watched { watch: &COUNTS, yields: true, idle: false };
        // SAFETY: the locks are those of `HARDWARE`, which are the only ones on live tables.
        let platform = unsafe { Combined::new(*frames, &watched) };
        for number in 0..CHANGES {
            let change = if number.is_multiple_of(2) { Change::READ_ONLY } else { Change::WRITABLE };
            // SAFETY: the page is this CPU's alone, and only code that expects a fault writes to it.
            let protect = || unsafe { space.on(&platform).protect(self.page(n), 1, change) };
            let changed = match control {
                Some(control) => control.with(protect),
                None => protect(),
            };
            if self.tally.done(changed, "its page cannot be protected").is_none() {
                return;
            }
            if number + 2 >= CHANGES {
                // SAFETY: as above.
                let write = unsafe { try_write(self.page(n), number) };
                self.tally.permitted(write, change == Change::WRITABLE, "its page has other permissions");
            }
        }
    }
}
