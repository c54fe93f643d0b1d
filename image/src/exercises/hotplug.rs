//! RAM goes out of the linear map and comes back, while all CPUs look: what is gone faults on each of them, what is back has
//! its contents, and the map is then what it was at boot.
//!
//! The RAM is the scratch range, which has no owner.

use core::ops::Range;

use linmap::error::ChangeError;
use linmap::{Change, Hotplug, Pa, Platform, Policy, Stats, Va};

use super::scratch::scratch;
use super::tally::Tally;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{parking, smp};

/// The number of parts that go and come.
const PARTS: u64 = 12;

/// Returns the linear map, whose RAM comes and goes.
pub(super) fn hotplug<'a, P: Platform>(system: &'a System<'_>, platform: &'a P) -> Hotplug<'a, P> {
    Hotplug::new(system.space.on(platform), &system.memory.layout)
}

/// Tries all of it. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let range = &system.memory.scratch.range;
    if scratch(system, "hotplug", 1).is_none() {
        return true;
    }
    let tally = Tally::start("hotplug", system);
    let test = Test { system, tally: &tally, all: range.clone() };
    let (mut went, mut refused) = (0, 0);
    for part in test.parts() {
        match test.goes_and_comes(&part) {
            true => went += 1,
            false => refused += 1,
        }
    }
    test.goes_unless_special();
    test.is_all_or_nothing();
    tally.conclude(
        format_args!("{went} ranges of RAM removed, missed by all CPUs, and added again; {refused} refused"),
        &[("went", went), ("refused", refused), ("bytes", range.end.0 - range.start.0)],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    all: Range<Pa>,
}

impl Test<'_> {
    /// All of the range, its halves, and parts that begin and end somewhere.
    fn parts(&self) -> impl Iterator<Item = Range<Pa>> {
        let (Range { start, end }, page) = (self.all.clone(), self.system.geometry.page_size());
        let (pages, middle) = ((end.0 - start.0) / page, Pa(start.0 + (end.0 - start.0) / 2));
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut next = move |below: u64| {
            // xorshift64: the same numbers in every run.
            random ^= random << 13u32;
            random ^= random >> 7u32;
            random ^= random << 17u32;
            random % below
        };
        let some = (0..PARTS).map(move |n| {
            let first = next(pages);
            let most = if n % 2 == 0 { pages - first } else { 1 };
            let count = 1 + next(most);
            Pa(start.0 + first * page)..Pa(start.0 + (first + count) * page)
        });
        [start..end, start..middle, middle..end].into_iter().chain(some)
    }

    fn va(&self, pa: Pa) -> Va {
        Va(pa.0.wrapping_add(self.system.memory.layout.offset()))
    }

    fn stats(&self) -> Stats {
        self.system.space.on(&self.system.platform()).stats()
    }

    /// The first, a middle and the last page of a range.
    fn pages(&self, part: &Range<Pa>) -> [Pa; 3] {
        let page = self.system.geometry.page_size();
        let middle = part.start.0 + (part.end.0 - part.start.0) / 2;
        [part.start, Pa(middle & !(page - 1)), Pa(part.end.0 - page)]
    }

    #[inline(never)]
    fn remove(&self, part: &Range<Pa>) -> Result<(), ChangeError> {
        // SAFETY: memory without an owner; its readers expect a fault.
        parking::again(|| unsafe { hotplug(self.system, &self.system.platform()).remove(part.clone()) })
    }

    #[inline(never)]
    fn add(&self, part: &Range<Pa>) -> Result<(), ChangeError> {
        // SAFETY: it is RAM, and was in the linear map before.
        parking::again(|| unsafe { hotplug(self.system, &self.system.platform()).add(part.clone()) })
    }

    /// Removes a part and adds it again. Returns false if a leaf would have to change its size, and may not.
    #[inline(never)]
    fn goes_and_comes(&self, part: &Range<Pa>) -> bool {
        let before = self.stats();
        self.each_cpu_finds(part, true);
        match self.remove(part) {
            Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }) => {
                self.tally.expect(self.stats() == before, "a removal was refused and has changed leaves");
                return false;
            }
            removed => _ = self.tally.done(removed, "RAM is not removed"),
        }
        self.each_cpu_misses(part);
        let bytes = |stats: &Stats| stats.bytes(self.system.geometry);
        let gone = bytes(&before).wrapping_sub(bytes(&self.stats()));
        self.tally.expect(gone == part.end.0 - part.start.0, format_args!("{gone:#x} bytes are gone"));
        self.tally.done(self.add(part), "RAM is not added");
        self.each_cpu_finds(part, false);
        self.tally.expect(self.stats() == before, format_args!("{:?} instead of {before:?}", self.stats()));
        true
    }

    /// Every CPU writes to its own word of some pages, or finds there what it wrote.
    fn each_cpu_finds(&self, part: &Range<Pa>, writes: bool) {
        smp::on_all(&|cpu| {
            for pa in self.pages(part) {
                let va = Va(self.va(pa).0 + 8 * cpu as u64);
                let value = va.0 ^ 0x5555;
                if writes {
                    // SAFETY: memory without an owner.
                    let written = unsafe { try_write(va, value) };
                    self.tally.expect(written.is_ok(), format_args!("{va} is not written: {written:?}"));
                }
                let read = try_read(va);
                self.tally.expect(read == Ok(value), format_args!("{va} is not what it was: {read:x?}"));
            }
        });
    }

    /// Every CPU faults on some pages, and on none beside them.
    fn each_cpu_misses(&self, part: &Range<Pa>) {
        smp::on_all(&|_| {
            for pa in self.pages(part) {
                let (va, read) = (self.va(pa), try_read(self.va(pa)));
                let misses = matches!(read, Err(Fault::Translation(_)));
                self.tally.expect(misses, format_args!("{va} is gone and can be read: {read:x?}"));
            }
            let page = self.system.geometry.page_size();
            for beside in [Pa(part.start.0.wrapping_sub(page)), part.end] {
                if self.all.contains(&beside) {
                    let (va, read) = (self.va(beside), try_read(self.va(beside)));
                    self.tally.expect(read.is_ok(), format_args!("{va} beside it cannot be read: {read:x?}"));
                }
            }
        });
    }

    /// A page that is read-only or not valid keeps all of the range in the map.
    #[inline(never)]
    fn goes_unless_special(&self) {
        let System { space, .. } = self.system;
        let va = self.va(self.pages(&self.all)[1]);
        for (to, back) in [(Change::READ_ONLY, Change::WRITABLE), (Change::INVALID, Change::VALID)] {
            let platform = self.system.platform();
            // SAFETY: memory without an owner.
            let protect = |change| parking::again(|| unsafe { space.on(&platform).protect(va, 1, change) });
            match protect(to) {
                Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. }) => continue,
                changed => _ = self.tally.done(changed, "a page is not changed"),
            }
            let (before, removed) = (self.stats(), self.remove(&self.all));
            let right = matches!(removed, Err(ChangeError::NotRam { va: named }) if named == va);
            self.tally.expect(right, format_args!("a special page, and the removal said {removed:?}"));
            self.tally.expect(self.stats() == before, "a refusal has changed leaves");
            self.tally.done(protect(back), "a page is not changed back");
            let collapsed = parking::again(|| space.on(&self.system.platform()).collapse(va, 1));
            self.tally.done(collapsed, "a page does not merge");
        }
    }

    /// RAM that is there is not added, nor is RAM out of reach, and nothing has changed then.
    #[inline(never)]
    fn is_all_or_nothing(&self) {
        let before = self.stats();
        let added = self.add(&self.all);
        self.tally.expect(
            matches!(added, Err(ChangeError::Occupied { .. })),
            format_args!("RAM that is there was added: {added:?}"),
        );
        let beyond = self.system.memory.layout.mapped().end;
        let added = self.add(&(beyond..Pa(beyond.0 + self.system.geometry.page_size())));
        self.tally.expect(
            matches!(added, Err(ChangeError::NotReached { .. })),
            format_args!("RAM out of reach was added: {added:?}"),
        );
        self.tally.expect(self.stats() == before, "a refusal has changed leaves");
    }
}
