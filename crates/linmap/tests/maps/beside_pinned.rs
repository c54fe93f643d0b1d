//! Pages that are taken and put back by a caller who can never wait, beside long calls of others whose pages are all around them:
//! a guard's pool (KFENCE) and secret memory beside modules that are loaded and lists that change. None is ever refused.
//!
//! At each moment at which the long call holds no lock, in turn, all of them are taken and put back.

use std::cell::Cell;
use std::ops::Range;

use linmap::arch::Entry;
use linmap::{Aliased, Attributes, Change, ChangeFlags, MemoryType, Remake, Rodata, SharedSpace, Va};
use test_support::{Random, each};

use crate::between_holds::{Interrupted, Platform, geometry, pa, with_map};

const PAGE: u64 = 1 << 12;
/// The pages of RAM.
const RAM: u64 = 4 << 18;
/// The modules' area, in pages from the start of the map: it has the memory of the chunks in another order.
const AREA: u64 = 1 << 34;
/// An area that has the chunks and pinned pages where RAM has them.
const ALONG: u64 = 1 << 33;

fn at(page: u64) -> Va {
    Va(geometry().base(linmap::Half::Upper) + page * PAGE)
}

/// The pages of the long calls, and those between them.
struct Pages {
    chunks: Vec<Range<u64>>,
    pinned: Vec<u64>,
    /// The chunks in the order of the area.
    order: Vec<usize>,
}

impl Pages {
    /// Up to 60 chunks, each followed by a pinned page, anywhere in RAM.
    fn draw(random: &mut Random) -> Self {
        let count = 1 + random.below(60);
        let mut ends: Vec<u64> = (0..2 * count).map(|_| random.below(RAM / 64)).collect();
        ends.sort_unstable();
        ends.dedup();
        let longest = [1, 2, 40, 63][random.index(4)];
        let chunks: Vec<Range<u64>> =
            ends.iter().map(|n| n * 64..n * 64 + 1 + random.below(longest)).collect();
        let pinned = chunks.iter().map(|chunk| chunk.end).filter(|page| page % 64 != 0).collect();
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        (1..order.len()).rev().for_each(|n| order.swap(n, random.index(n + 1)));
        Self { chunks, pinned, order }
    }

    fn size(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.end - chunk.start).sum()
    }

    fn map<const HOLD: usize>(&self, space: &SharedSpace, platform: &Platform<'_, '_, HOLD>) {
        let map = |va, pages, oa, attributes| {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(platform).map(va, pages, oa, attributes) }.expect("room");
        };
        map(at(0), RAM, pa(at(0)), Attributes::RAM);
        let mut next = AREA;
        for n in &self.order {
            let chunk = &self.chunks[*n];
            map(at(next), chunk.end - chunk.start, pa(at(chunk.start)), Attributes::KERNEL_DATA);
            next += chunk.end - chunk.start;
        }
        for chunk in &self.chunks {
            map(
                at(ALONG + chunk.start),
                chunk.end - chunk.start,
                pa(at(chunk.start)),
                Attributes::KERNEL_DATA,
            );
        }
        for page in &self.pinned {
            map(at(ALONG + page), 1, pa(at(*page)), Attributes::KERNEL_DATA);
            [0, ALONG].iter().for_each(|of| space.on(platform).pin(at(of + page), 1).expect("room"));
        }
    }

    /// Takes pinned pages and puts them back, and asserts that each call is done.
    fn take<const HOLD: usize>(&self, space: &SharedSpace, platform: &Platform<'_, '_, HOLD>) {
        let some = self.pinned.iter().step_by(self.pinned.len().div_ceil(8).max(1));
        for va in some.flat_map(|page| [at(*page), at(ALONG + page)]) {
            // SAFETY: no CPU uses these tables.
            unsafe {
                for valid in [false, true] {
                    space
                        .on(platform)
                        .change(va, 1, Change::of_validity(valid), ChangeFlags::LATER)
                        .expect("a guard's page");
                }
                for change in [Change::INVALID, Change::VALID] {
                    space.on(platform).change(va, 1, change, ChangeFlags::LATER).expect("secret memory");
                }
                space.on(platform).flush(va, 1).expect("a page");
            }
        }
    }

    /// A long call. Afterwards all is as before, but for leaves that were split.
    fn call<const HOLD: usize>(&self, space: &SharedSpace, platform: &Platform<'_, '_, HOLD>, which: u64) {
        let mut aliased = Aliased::new(space.on(platform), at(0).0.wrapping_sub(pa(at(0)).0), Rodata::Full);
        let size = self.size();
        // SAFETY: no CPU uses these tables.
        unsafe {
            match which {
                0 => {
                    let list = self.order.iter().flat_map(|n| self.chunks[*n].clone()).map(at);
                    for change in [Change::INVALID, Change::VALID] {
                        let flags = ChangeFlags::empty();
                        space.on(platform).change_pages(list.clone(), change, flags).expect("mapped");
                    }
                }
                1 => {
                    aliased.set_memory_ro(at(AREA), size).expect("mapped");
                    self.chunks.iter().for_each(|chunk| assert!(!self.is_writable(space, platform, chunk)));
                    aliased.set_memory_rw(at(AREA), size).expect("mapped");
                    self.chunks.iter().for_each(|chunk| assert!(self.is_writable(space, platform, chunk)));
                }
                2 => {
                    for remade in [MemoryType::NORMAL_NC, MemoryType::NORMAL] {
                        let step = || {
                            self.take(space, platform);
                            Ok::<(), std::convert::Infallible>(())
                        };
                        let remake = Remake::memory_type(remade);
                        aliased.remake(at(AREA), size, remake, step).expect("mapped");
                    }
                }
                _ => {
                    let ranges: Vec<(Va, u64)> = self
                        .chunks
                        .iter()
                        .map(|chunk| (at(ALONG + chunk.start), chunk.end - chunk.start))
                        .collect();
                    space.on(platform).unmap_all(&ranges).expect("mapped");
                    for (chunk, (va, pages)) in self.chunks.iter().zip(ranges) {
                        let oa = pa(at(chunk.start));
                        space.on(platform).map(va, pages, oa, Attributes::KERNEL_DATA).expect("a hole");
                    }
                }
            }
        }
    }

    /// Returns true if linear memory of a chunk is writable: all of it, or none.
    fn is_writable<const HOLD: usize>(
        &self,
        space: &SharedSpace,
        platform: &Platform<'_, '_, HOLD>,
        chunk: &Range<u64>,
    ) -> bool {
        let is = |page: u64| match space.on(platform).read(|reader| reader.entry(at(page))) {
            Some((_, _, Entry::Leaf(leaf))) => !leaf.attributes.contains(Attributes::READ_ONLY),
            _ => panic!("page {page} is mapped"),
        };
        let first = is(chunk.start);
        assert!(chunk.clone().all(|page| is(page) == first), "a chunk changes as a whole");
        first
    }

    /// Makes a call with the pinned pages being taken before each of its holds in turn.
    fn beside<const HOLD: usize>(&self, which: u64) {
        let taken = Cell::new(0);
        let otherwise =
            |space: &SharedSpace, platform: &Platform<'_, '_, HOLD>, _: &Interrupted<'_, HOLD>| {
                taken.set(taken.get() + 1);
                self.take(space, platform);
            };
        with_map::<HOLD>(otherwise, |space, platform, hardware| {
            self.map(space, platform);
            // The moments of a long list are many: later ones are farther apart.
            let mut moment = 1;
            loop {
                let before = taken.get();
                hardware.left.set(moment);
                self.call(space, platform, which);
                hardware.left.set(0);
                if taken.get() == before {
                    break;
                }
                moment += 1 + moment / 16;
            }
            assert!(!space.has_pending() && !space.is_claimed());
            for page in &self.pinned {
                let Some((_, level, Entry::Leaf(leaf))) =
                    space.on(platform).read(|reader| reader.entry(at(*page)))
                else {
                    panic!("page {page} is mapped");
                };
                assert_eq!((leaf.oa, level.number(), leaf.valid), (pa(at(*page)), 3, true));
            }
        });
    }
}

#[test]
fn pinned_pages_are_never_refused() {
    each(24, |seed| {
        let mut random = Random::new(seed);
        let pages = Pages::draw(&mut random);
        match (random.below(2), random.below(4)) {
            (0, which) => pages.beside::<8>(which),
            (_, which) => pages.beside::<64>(which),
        }
    });
}
