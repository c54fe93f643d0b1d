//! The longest holds of `set_memory_ro` and `set_memory_rw` where the linear map follows (rodata=full).
//!
//! They change a map of the upper half that is in no TTBR: physical memory from 0 on in a linear map, and two areas behind
//! it, in pages. The pages of one area are in a row. Those of the other one are in level 2 entries of their own, and the
//! next one is far away.

use linmap::arch::{Entry, Leaf, Level};
use linmap::layout::linear_range;
use linmap::{Aliased, Attributes, Half, Pa, Platform, Policy, Rodata, SharedSpace, Va};

use super::counted::has_room;
use super::meter::Meter;

/// The size of the area whose pages are in a row.
const BYTES: u64 = 4 << 30;
/// The most pages of the other one.
const SCATTERED: u64 = 4096;
/// The number of level 2 entries from one page to the next, around the end. It is odd, so all are reached.
const APART: u64 = 1031;

/// Returns the longest hold for the area in a row and for the scattered one, or `None` without room.
pub(super) fn measure(meter: &Meter<'_>) -> Option<[Option<u32>; 2]> {
    let g = meter.system.geometry;
    let (page, block) = (g.page_size(), g.level_size(Level::new(2)));
    let (linear, behind) = (linear_range(g).0, linear_range(g).1.0 + 1);
    let blocks = (behind - linear.0 - BYTES) / block - 1;
    // A table for each, and not all RAM is for these.
    let most = SCATTERED.min(blocks).min(meter.system.machine.ram.bytes() / page / 32).max(1);
    let (pages, scattered) = (BYTES / page, 1 << most.ilog2());
    // Three tables for each, since an upper bound is taken.
    let tables = 2 * pages / (page / 8) + 3 * scattered + 64;
    if !has_room(meter.system, tables * page, "longest_hold of areas") {
        return None;
    }
    let areas = Areas { meter, space: meter.empty(Half::Upper)?, linear };
    let (row, apart) = (Va(behind), Va(behind + BYTES));
    areas.map(linear, pages + (scattered + 1) * (block / page), 0, Attributes::RAM)?;
    areas.space.set_policy(Policy::Pages);
    areas.map(row, pages, 3 * page, Attributes::KERNEL_DATA)?;
    for n in 0..scattered {
        let number = n * APART % scattered;
        let oa = BYTES + (number + 1) * block + number % (block / page) * page;
        areas.map(Va(apart.0 + n * page), 1, oa, Attributes::KERNEL_DATA)?;
    }
    areas.space.set_policy(Policy::Live);
    let of_blocks = areas.set_memory(row, pages);
    let split = meter.unmeasured(|p| areas.space.on(p).split_to_pages(linear, pages));
    meter.tally.done(split, "the linear map cannot be split")?;
    let of_pages = areas.set_memory(row, pages);
    let holds = [of_blocks.max(of_pages), areas.set_memory(apart, scattered)];
    meter.discard(areas.space, Half::Upper);
    Some(holds)
}

struct Areas<'a> {
    meter: &'a Meter<'a>,
    space: SharedSpace,
    /// The address of physical memory 0.
    linear: Va,
}

impl Areas<'_> {
    fn map(&self, va: Va, pages: u64, oa: u64, attributes: Attributes) -> Option<()> {
        // SAFETY: no CPU uses the tables.
        let mapped =
            self.meter.unmeasured(|p| unsafe { self.space.on(p).map(va, pages, Pa(oa), attributes) });
        self.meter.tally.done(mapped, "an area cannot be mapped")
    }

    fn aliased<'s, P: Platform>(&'s self, platform: &'s P) -> Aliased<'s, P> {
        Aliased::new(self.space.on(platform), self.linear.0, Rodata::Full)
    }

    /// Makes an area read-only with its aliases, and writable again.
    fn set_memory(&self, va: Va, pages: u64) -> Option<u32> {
        // SAFETY: no CPU uses the tables.
        let read_only = self.meter.hold(None, |p| unsafe { self.aliased(p).set_memory_ro(va, pages) });
        self.expect(va, pages, true);
        // SAFETY: as above.
        let writable = self.meter.hold(None, |p| unsafe { self.aliased(p).set_memory_rw(va, pages) });
        self.expect(va, pages, false);
        read_only.max(writable)
    }

    /// Looks at the first and the last page of an area, and at their aliases.
    fn expect(&self, va: Va, pages: u64, read_only: bool) {
        let g = self.meter.system.geometry;
        for va in [va, Va(va.0 + (pages - 1) * g.page_size())] {
            let leaf = |va| match self.meter.unmeasured(|p| self.space.on(p).read(|reader| reader.entry(va)))
            {
                Some((_, _, Entry::Leaf(leaf))) => leaf,
                _ => Leaf { oa: Pa(0), attributes: Attributes::empty(), contiguous: false, valid: false },
            };
            let page = leaf(va);
            let alias = leaf(Va(self.linear.0 + page.oa.0));
            let is = |leaf: Leaf| leaf.valid && leaf.attributes.contains(Attributes::READ_ONLY) == read_only;
            self.meter
                .tally
                .expect(is(page) && is(alias), format_args!("{va} or its alias has other permissions"));
        }
    }
}
