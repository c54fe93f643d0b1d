//! The crash kernel's reservation: in pages, sealed and opened on every CPU without a change of any leaf, and shrunk.

use kernel::crashkernel::{Refusal, Reserved, Seal};
use linmap::arch::{Entry, Level};
use linmap::layout::linear_range;
use linmap::{Changes, Pa, Policy, Stats, Va};

use super::planned::planned;
use super::tally::Tally;
use crate::crash::{self, Error};
use crate::probe::{Fault, try_read, try_write};
use crate::smp;
use crate::system::System;
use crate::warning::warn;

/// Tries all of it. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let Some(reserved) = crash::reserved(system).filter(|reserved| reserved.size() != 0) else {
        warn(format_args!("run=crash: {}", Error::None));
        return true;
    };
    let mut tally = Tally::start("crash", system);
    let test = Test { system, tally: &tally };
    let (size, pages) = (reserved.size(), reserved.size() >> system.geometry.page_shift());
    test.is_in_pages(&reserved);
    test.seals(&reserved);
    test.loads(&reserved);
    test.shrinks(&reserved);
    // The map has changed.
    tally.take_as_before();
    let left = crash::reserved(system).map_or(0, |reserved| reserved.size());
    tally.conclude(
        format_args!("{pages} pages sealed and opened without a leaf that changes its size, then shrunk"),
        &[("bytes", size), ("left", left)],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
}

impl Test<'_> {
    fn va(&self, pa: Pa) -> Option<Va> {
        self.system.memory.layout.va(pa)
    }

    fn counted(&self) -> Stats {
        self.system
            .space
            .on(&self.system.platform())
            .read(|reader| reader.count(linear_range(self.system.geometry)))
    }

    /// All of it is in single pages, and nothing else is for that reason.
    fn is_in_pages(&self, reserved: &Reserved) {
        let (System { space, geometry, .. }, range) = (self.system, reserved.range());
        let (Some(start), Some(with), Some(without)) =
            (self.va(range.start), planned(self.system, Some(range.clone())), planned(self.system, None))
        else {
            self.tally.expect(false, "the reservation is not in the linear map");
            return;
        };
        let mut large = 0;
        let ends = (start, Va(start.0 + (reserved.size() - 1)));
        let _ = space.on(&self.system.platform()).read(|reader| {
            reader.visit(ends, |&linmap::read::Visited { level, entry, .. }| {
                large += u64::from(matches!(entry, Entry::Leaf(l) if l.contiguous || level != Level::PAGE));
                core::ops::ControlFlow::Continue(())
            })
        });
        self.tally.expect(large == 0, format_args!("{large} of its leaves are not single pages"));
        let is_new = self.system.memory.crash.as_ref() == Some(range);
        self.tally
            .expect(!is_new || self.counted() == with, "the map is not as planned with the reservation");
        let sizes = geometry.leaf_sizes();
        let single = |stats: &Stats| sizes.iter().last().map_or(0, |size| stats.descriptors(*size));
        let bound = single(&without) + (reserved.size() >> geometry.page_shift());
        self.tally
            .expect(!is_new || single(&with) <= bound, "more pages are single than those of the reservation");
    }

    /// Every seal after every other, tried on all CPUs.
    fn seals(&self, reserved: &Reserved) {
        let (space, platform) = (self.system.space, self.system.platform());
        let (stats, before) = (space.on(&platform).stats(), space.on(&platform).changes());
        self.probe(reserved, Seal::Open);
        for seal in [
            Seal::Invalid,
            Seal::Open,
            Seal::ReadOnly,
            Seal::Invalid,
            Seal::ReadOnly,
            Seal::ReadOnly,
            Seal::Open,
            Seal::Invalid,
            Seal::Invalid,
            Seal::Open,
        ] {
            self.tally.done(crash::seal(self.system, seal), "a seal");
            self.probe(reserved, seal);
        }
        let after = space.on(&platform).changes();
        let resized = |c: &Changes| (c.splits, c.collapses, c.parkings);
        self.tally.expect(resized(&after) == resized(&before), "a seal has split, collapsed or parked");
        self.tally.expect(space.on(&platform).stats() == stats, "a seal has changed leaves");
    }

    /// Tries the first page, the last and one between, and the pages beside them, on each CPU.
    fn probe(&self, reserved: &Reserved, seal: Seal) {
        let (range, page) = (reserved.range(), self.system.geometry.page_size());
        let middle = Pa((range.start.0 + reserved.size() / 2) & !(page - 1));
        smp::on_all(&|cpu| {
            for pa in [range.start, middle, Pa(range.end.0 - page)] {
                let Some(va) = self.va(pa) else { continue };
                let own = Va(va.0 + 8 * cpu as u64);
                let value = own.0 ^ 0x5555;
                // SAFETY: reserved memory that nothing uses: no image is loaded.
                let (write, read) = (unsafe { try_write(own, value) }, try_read(own));
                let right = match seal {
                    Seal::Open => write.is_ok() && read == Ok(value),
                    Seal::ReadOnly => matches!(write, Err(Fault::Permission(_))) && read == Ok(value),
                    Seal::Invalid => {
                        [write, read.map(|_| ())].iter().all(|r| matches!(r, Err(Fault::Translation(_))))
                    }
                };
                self.tally.expect(right, format_args!("{va}, {seal}: write {write:?}, read {read:?}"));
            }
            for beside in [Pa(range.start.0.wrapping_sub(page)), range.end] {
                if let Some(va) = self.va(beside) {
                    self.tally.expect(try_read(va).is_ok(), format_args!("{va} beside it cannot be read"));
                }
            }
        });
    }

    /// An image can be loaded if the reservation is open, and then it does not shrink.
    fn loads(&self, reserved: &Reserved) {
        let system = self.system;
        let refused = |result: Result<(), Error>, why: Refusal| {
            self.tally.expect(result == Err(Error::Refused(why)), format_args!("not refused: {why}"));
        };
        let shrink = |size| crash::shrink(system, size).map(|_| ());
        refused(crash::load(system, false), Refusal::NotLoaded);
        self.tally.done(crash::seal(system, Seal::Invalid), "a seal");
        refused(crash::load(system, true), Refusal::Sealed(Seal::Invalid));
        self.tally.done(crash::seal(system, Seal::Open), "opening it");
        self.tally.done(crash::load(system, true), "loading");
        refused(crash::load(system, true), Refusal::Loaded);
        self.tally.done(crash::seal(system, Seal::ReadOnly), "a seal");
        refused(shrink(reserved.size() / 2), Refusal::Loaded);
        refused(crash::load(system, false), Refusal::Sealed(Seal::ReadOnly));
        self.tally.done(crash::seal(system, Seal::Open), "opening it");
        self.tally.done(crash::load(system, false), "unloading");
        for asked in [reserved.size() + 1, u64::MAX] {
            refused(shrink(asked), Refusal::Grows { size: reserved.size(), asked });
        }
        self.tally.done(shrink(reserved.size()), "as large as it is");
        self.tally.expect(
            crash::reserved(self.system).as_ref() == Some(reserved),
            "a refusal has changed the reservation",
        );
    }

    /// Half of it and a byte stays, sealed all the time; the rest is free, and in the leaves that it would have had.
    fn shrinks(&self, reserved: &Reserved) {
        let System { frames, geometry, .. } = self.system;
        self.tally.done(crash::seal(self.system, Seal::Invalid), "a seal");
        let (free, tables) = (frames.free_bytes(), self.counted().tables);
        let size = reserved.size() / 2 + 1;
        let Some(tail) = self.tally.done(crash::shrink(self.system, size), "shrinking") else { return };
        let left = tail.start.0 - reserved.range().start.0;
        self.tally
            .expect(left == size.next_multiple_of(geometry.page_size()), "not rounded up to whole pages");
        // Includes tables that are not needed any more.
        let given = reserved.size() - left + ((tables - self.counted().tables) << geometry.page_shift());
        self.tally.expect(frames.free_bytes() == free + given, "the tail is not free");
        let resizes = matches!(self.system.space.policy(), Policy::Live | Policy::Park);
        let still = if resizes { tail.start } else { tail.end };
        let is_new = self.system.memory.crash.as_ref() == Some(reserved.range());
        let planned = planned(self.system, Some(reserved.range().start..still));
        self.tally.expect(!is_new || planned == Some(self.counted()), "the tail has not the leaves of RAM");
        let now = crash::reserved(self.system);
        if let Some(now) = now.filter(|now| now.size() != 0) {
            self.probe(&now, Seal::Invalid);
            self.tally.done(crash::seal(self.system, Seal::Open), "opening it");
            self.probe(&now, Seal::Open);
        }
        *self.system.stats.lock() = self.counted();
    }
}
