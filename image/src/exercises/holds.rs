//! The longest stretch of instructions for which a lock is held, over changes of all RAM.
//!
//! The changes are made to tables of the lower half that are in no TTBR and map as much as there is RAM. So all of it can
//! change under the kernel. During a repaint a page changes before each hold, as if by another CPU.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use arrayvec::ArrayVec;
use kernel::stress::Random;
use linmap::error::ChangeError;
use linmap::{Attributes, Change, Half, Pa, SharedSpace, Va};

use super::area_holds;
use super::counted::has_room;
use super::meter::Meter;
use super::tally::Tally;
use crate::report;
use crate::system::System;

/// The first address.
const START: Va = Va(1 << 30);
/// The most changes during a repaint.
const MEANWHILE: u64 = 20_000;

/// Reports the longest hold of each operation; none where instructions are not counted.
#[inline(never)]
pub(super) fn measure(tally: &Tally<'_>, system: &System<'_>) {
    const NAMES: [&str; 6] = ["map", "split", "protect", "collapse", "repaint", "unmap"];
    const OF_AREAS: [&str; 2] = ["set_memory", "set_memory_scattered"];
    let (mut holds, mut of_areas) = ([None; NAMES.len()], [None; OF_AREAS.len()]);
    if system.counters.counted(0).is_some() {
        let meter = Meter { tally, system };
        let Some(measured) = of_all(&meter) else { return };
        holds = measured;
        of_areas = area_holds::measure(&meter).unwrap_or(of_areas);
    }
    let all: ArrayVec<_, 8> =
        NAMES.into_iter().zip(holds).chain(OF_AREAS.into_iter().zip(of_areas)).collect();
    report::holds(&all);
}

/// Returns the longest holds of the operations on all of it, or `None` without room.
fn of_all(meter: &Meter<'_>) -> Option<[Option<u32>; 6]> {
    let system = meter.system;
    let (bytes, page) = (bytes(system), system.geometry.page_size());
    // Two trees in pages, and their upper levels.
    let tables = 2 * (bytes / page / (page / 8) + 64);
    if !has_room(system, tables * page, "longest_hold") {
        return None;
    }
    let all = All { meter, space: meter.empty(Half::Lower)?, pages: bytes / page };
    let holds = [all.map(), all.split(), all.protect(), all.collapse(), all.repaint(), all.unmap()];
    meter.discard(all.space, Half::Lower);
    Some(holds)
}

/// Returns how much is mapped: as many bytes as there are of RAM, if the half has so many.
fn bytes(system: &System<'_>) -> u64 {
    let most = (1u64 << system.geometry.va_bits()) - 2 * START.0;
    system.machine.ram.bytes().min(most) & !(system.geometry.page_size() - 1)
}

struct All<'a> {
    meter: &'a Meter<'a>,
    space: SharedSpace,
    pages: u64,
}

impl All<'_> {
    fn map(&self) -> Option<u32> {
        let first = self.meter.system.memory.layout.ram().first();
        let oa = Pa(first.map_or(0, |range| range.start.0 & !(START.0 - 1)));
        // SAFETY: no CPU uses the tables.
        self.meter
            .hold(None, |p| unsafe { self.space.on(p).map(START, self.pages, oa, Attributes::KERNEL_DATA) })
    }

    fn split(&self) -> Option<u32> {
        self.meter.hold(None, |p| self.space.on(p).split_to_pages(START, self.pages))
    }

    /// From here on all is in pages.
    fn protect(&self) -> Option<u32> {
        let all = |change| {
            // SAFETY: no CPU uses the tables.
            self.meter.hold(None, |p| unsafe { self.space.on(p).protect(START, self.pages, change) })
        };
        all(Change::READ_ONLY).max(all(Change::WRITABLE))
    }

    fn collapse(&self) -> Option<u32> {
        self.meter.hold(None, |p| self.space.on(p).collapse(START, self.pages))
    }

    /// From the largest leaves to pages, while others change.
    fn repaint(&self) -> Option<u32> {
        let number = AtomicU64::new(0);
        let between = || self.change_a_page(number.fetch_add(1, Relaxed));
        let whole = (Va(0), Va((1 << self.meter.system.geometry.va_bits()) - 1));
        self.meter.hold(Some(&between), |p| self.space.on(p).repaint(whole, &[]).map(|_| ()))
    }

    /// Changes a page somewhere, unless it has to wait.
    fn change_a_page(&self, number: u64) {
        if number >= MEANWHILE {
            return;
        }
        let page = Random::from(number).below(self.pages as usize) as u64;
        let va = Va(START.0 + (page << self.meter.system.geometry.page_shift()));
        let change = if number.is_multiple_of(2) { Change::READ_ONLY } else { Change::WRITABLE };
        // SAFETY: no CPU uses the tables.
        let changed = self.meter.unmeasured(|p| unsafe { self.space.on(p).protect(va, 1, change) });
        if !matches!(changed, Err(ChangeError::Busy { .. })) {
            self.meter.tally.done(changed, "a page cannot be changed meanwhile");
        }
    }

    fn unmap(&self) -> Option<u32> {
        // SAFETY: no CPU uses the tables.
        self.meter.hold(None, |p| unsafe { self.space.on(p).unmap(START, self.pages) })
    }
}
