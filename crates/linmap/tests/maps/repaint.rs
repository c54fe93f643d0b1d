//! A map in large leaves becomes the one that would have been created in pages, bit by bit, at any geometry.

use std::cell::Cell;
use std::ops::ControlFlow::Continue;

use crate::dirty_memory::dirty_memory;
use crate::raw::{load, store};
use linmap::arch::{Descriptor, Entry, Leaf, Level};
use linmap::error::{ChangeError, CreateError, RepaintError};
use linmap::host::{Host, HostHeld, HostMemory};
use linmap::layout::{Run, linear_range};
use linmap::read::{Checks, MarkedRange};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, Layout, Leaves, Memory, OaFormat, Pa, Policy, Region,
    Rodata, SharedSpace, Sharing, Slot, Stats, Tree, Va,
};
use test_support::{Random, geometries, some_geometries};

const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

/// A live address space with its last page mapped, far from the linear map.
struct Live {
    memory: HostMemory,
    space: SharedSpace,
}

impl Live {
    fn new(g: Geometry, frames: usize) -> Self {
        Self::of(&[], g, frames)
    }

    /// With these regions as well.
    fn of(regions: &[Region], g: Geometry, frames: usize) -> Self {
        let oa = Pa(0);
        let level = Level::PAGE;
        let attributes = Attributes::KERNEL_DATA;
        let last = Va(!(g.page_size() - 1));
        let page = Run { va: last, oa, level, contiguous: false, descriptors: 1, attributes };
        let memory = dirty_memory(g, frames);
        let runs = regions.iter().flat_map(|r| r.runs(g)).chain([page]);
        let tree = Tree::build(&memory, g, Half::Upper, runs).expect("frames enough");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        Self { memory, space }
    }

    fn create(&self, layout: &Layout<'_>, leaves: Leaves) {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.memory.platform()).create(layout, leaves) }.expect("enough");
    }

    fn repaint(&self, keep: &[(Va, Va)]) -> Result<Stats, RepaintError> {
        self.space.on(&self.memory.platform()).repaint(linear_range(self.space.geometry()), keep)
    }

    fn all(&self) -> (Va, Va) {
        (Va(self.space.geometry().base(Half::Upper)), Va(u64::MAX))
    }

    fn dump(&self) -> String {
        let mut text = String::new();
        let region = MarkedRange { range: self.all(), start: "upper half", end: "its end" };
        let stats = self
            .space
            .on(&self.memory.platform())
            .read(|reader| reader.dump(region, &mut text))
            .expect("a string takes all");
        assert_eq!(stats, self.space.on(&self.memory.platform()).read(|reader| reader.count(self.all())));
        // Each mapping is a line between the marks.
        assert!(text.lines().count() > 2 && text.contains("upper half"), "{text}");
        text
    }

    /// Every leaf, bit by bit, and what it is made of.
    fn leaves(&self) -> (Vec<(Va, Level, Leaf)>, Stats) {
        let mut leaves = Vec::new();
        let _ = self.space.on(&self.memory.platform()).read(|reader| {
            reader.visit(self.all(), |&linmap::read::Visited { va, level, entry, .. }| {
                if let Entry::Leaf(leaf) = entry {
                    leaves.push((va, level, leaf));
                }
                Continue(())
            })
        });
        (leaves, self.space.on(&self.memory.platform()).read(|reader| reader.count(self.all())))
    }

    /// Returns the mapping of each page.
    fn pages(&self) -> Vec<(Va, Leaf)> {
        let g = self.space.geometry();
        let page = |va: Va, leaf: Leaf, n: u64| {
            (Va(va.0 + n), Leaf { oa: Pa(leaf.oa.0 + n), contiguous: false, ..leaf })
        };
        let leaves = self.leaves().0.into_iter();
        let each = leaves.flat_map(|(va, level, leaf)| {
            (0..g.level_size(level)).step_by(g.page_size() as usize).map(move |n| page(va, leaf, n))
        });
        each.collect()
    }

    /// Counts, and table pages in use, are those of the tables.
    fn is_sound(&self) {
        let counted = self.space.on(&self.memory.platform()).read(|reader| reader.count(self.all()));
        assert_eq!(self.space.on(&self.memory.platform()).stats(), counted);
        assert_eq!(self.memory.in_use() as u64, counted.tables);
        // Broken runs, above all.
        let _ = self
            .space
            .on(&self.memory.platform())
            .read(|reader| reader.check(&Checks::default(), |finding| panic!("{finding:?}")));
    }
}

fn k4() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
}

/// Ragged RAM with a carve-out, and an image that keeps its leaves.
#[test]
fn it_becomes_the_map_that_is_created_in_pages() {
    for g in geometries() {
        let mut ram = [Pa(G + 0x3_0000)..Pa(2 * G + 0x5_0000), Pa(9 * G + 0x1_0000)..Pa(9 * G + 600 * M)];
        let mut carve_outs = [Pa(9 * G + 70 * M)..Pa(9 * G + 70 * M + 0x10_0000)];
        let image = Pa(G + 0x21_0000)..Pa(G + 0x483_0000);
        let layout =
            Layout::new(g, &mut ram, &mut carve_outs, image.clone(), Rodata::Full).expect("a machine");
        let pages = Stats::of_runs(g, layout.runs(Leaves::Pages));
        let large = Stats::of_runs(g, layout.runs(Leaves::Largest));
        let frames = |tables: u64| (tables + u64::from(g.levels())) as usize;
        let wanted = Live::new(g, frames(pages.tables));
        wanted.create(&layout, Leaves::Pages);
        let live = Live::new(g, frames(2 * pages.tables + large.tables));
        live.create(&layout, Leaves::Largest);
        let alias = |pa: Pa| Va(pa.0.wrapping_add(layout.offset()));
        let keep = (alias(image.start), Va(alias(image.end).0 - 1));
        for turn in 0..2 {
            assert_eq!(live.repaint(&[keep]), Ok(pages), "{g:?}");
            assert_eq!(live.space.policy(), Policy::Pages);
            live.is_sound();
            assert_eq!(live.space.on(&live.memory.platform()).changes().parkings, turn + 1);
        }
        assert!(live.dump() == wanted.dump(), "{g:?}: the dumps differ");
        assert!(live.leaves() == wanted.leaves(), "{g:?}: the leaves differ");
    }
}

/// RAM in leaves of each size, side by side, some of it kept and not valid, at a page that is not global.
fn mixed(g: Geometry) -> (Vec<Region>, u64) {
    let base = g.base(Half::Upper);
    let mut at = g.leaf_sizes().iter().map(|s| s.bytes()).find(|&s| s <= 4 * G).expect("pages");
    let mut regions = Vec::new();
    for size in g.leaf_sizes().iter().rev().filter(|s| s.bytes() <= G) {
        let va = at.next_multiple_of(size.bytes());
        let attributes = Attributes::RAM;
        let leaves = Leaves::Largest;
        regions.push(Region { va: Va(base + va), oa: Pa(va), bytes: size.bytes(), attributes, leaves });
        at = va + size.bytes() + g.page_size();
    }
    (regions, base)
}

/// Leaves within the kept ranges stay, and all others become pages.
#[test]
fn leaves_in_kept_ranges_keep_their_size() {
    for g in some_geometries(12) {
        let (regions, _) = mixed(g);
        for (n, region) in regions.iter().enumerate() {
            let pages = Stats::of_runs(
                g,
                regions.iter().flat_map(|r| Region { leaves: Leaves::Pages, ..*r }.runs(g)),
            );
            let live = Live::of(&regions, g, 2 * pages.tables as usize + 20);
            let (before, platform) = (live.leaves().0, live.memory.platform());
            let last = region.va.0 + (region.bytes - 1);
            // All of it, and all but its last page.
            let short = Va(last.saturating_sub(g.page_size()));
            for keep in [(region.va, Va(last)), (region.va, short)] {
                let stats = live.repaint(&[keep, (Va(1), Va(0))]).expect("frames enough");
                live.is_sound();
                let page = |l: &(Va, Level, Leaf)| l.1 == Level::PAGE && !l.2.contiguous;
                let kept = before.iter().filter(|l| region.va <= l.0 && l.0.0 <= last);
                let now = live.leaves().0;
                let in_it: Vec<_> = now.iter().filter(|l| region.va <= l.0 && l.0.0 <= last).collect();
                if keep.1.0 == last {
                    assert!(kept.eq(in_it), "{g:?}, {n}");
                } else {
                    assert!(now.iter().all(page), "{g:?}, {n}");
                    assert_eq!(stats.bytes(g), regions.iter().map(|r| r.bytes).sum::<u64>());
                }
                assert!(now.iter().filter(|l| l.0 < region.va || last < l.0.0).all(page), "{g:?}, {n}");
                live.space.set_policy(Policy::Live);
            }
            live.space
                .on(&platform)
                .collapse(live.all().0, 1 << (g.va_bits() - g.page_shift()))
                .expect("parked");
            assert!(live.leaves().0 == before, "{g:?}, {n}: not as before");
        }
    }
}

/// After changes of all kinds, and with mappings that are kept and not valid.
#[test]
fn what_pages_say_stays() {
    let g = k4();
    let (regions, _) = mixed(g);
    let live = Live::of(&regions, g, 4000);
    let platform = live.memory.platform();
    let at = |n: usize, page: u64| Va(regions[n].va.0 + page * g.page_size());
    // SAFETY: no CPU uses the addresses of tables in host memory.
    unsafe {
        live.space.on(&platform).set_valid(at(2, 3), 100, false).expect("mapped");
        live.space.on(&platform).protect(at(3, 1), 5000, Change::READ_ONLY).expect("mapped");
        live.space.on(&platform).set_valid(at(4, 0), regions[4].bytes >> 12, false).expect("mapped");
        live.space.on(&platform).unmap(at(2, 300), 7).expect("mapped");
    }
    let before = live.pages();
    live.repaint(&[]).expect("enough");
    live.is_sound();
    assert!(live.pages() == before);
}

/// At every single allocation: all is as before, and the next one that has enough succeeds.
#[test]
fn frames_that_run_out_change_nothing() {
    for g in some_geometries(3) {
        let base = g.base(Half::Upper);
        let sizes = g.leaf_sizes();
        let block =
            sizes.iter().find(|s| s.level < Level::PAGE && !s.contiguous && s.bytes() <= G).expect("one");
        let bytes = block.bytes().min(40 << (2 * g.page_shift() - 3)) + 3 * g.page_size();
        let (attributes, leaves) = (Attributes::RAM, Leaves::Largest);
        let region = Region { va: Va(base), oa: Pa(0), bytes, attributes, leaves };
        let pages = Stats::of_runs(g, Region { leaves: Leaves::Pages, ..region }.runs(g));
        let large = Stats::of_runs(g, region.runs(g)).tables + u64::from(g.levels());
        for spare in 0..=pages.tables {
            let live = Live::of(&[region], g, (large + spare.saturating_sub(1)) as usize);
            // The root of the tree that was grafted has been given back.
            let taken = if spare == 0 { live.memory.take() } else { None };
            let (before, in_use) = (live.dump(), live.memory.in_use());
            if spare == pages.tables {
                live.repaint(&[]).expect("enough");
                live.is_sound();
                continue;
            }
            assert_eq!(live.repaint(&[]), Err(RepaintError::OutOfFrames { taken: spare }), "{g:?}");
            assert_eq!((live.dump(), live.memory.in_use()), (before, in_use), "{g:?}");
            assert_eq!(live.space.policy(), Policy::Live);
            taken.into_iter().for_each(|frame| live.memory.give(frame));
            live.is_sound();
        }
    }
}

/// A range that is not whole entries of the root, or leaves the half.
#[test]
fn ranges_are_whole_entries_of_the_root() {
    for g in geometries() {
        let live = Live::new(g, 20);
        let (platform, (first, last)) = (live.memory.platform(), linear_range(g));
        let (page, half) = (g.page_size(), 1u64 << (g.va_bits() - 1));
        let part = |va| Err(RepaintError::PartOfEntry { va: Va(va) });
        let outside = |va, pages| Err(RepaintError::OutsideHalf { va: Va(va), pages });
        let rows = [
            ((first.0 + page, last.0), part(first.0 + page)),
            ((first.0, last.0 - 1), part(last.0 - 1)),
            ((first.0, last.0 - page), part(last.0 - page)),
            ((first.0 + 1, last.0 + page), part(first.0 + 1)),
            ((first.0 - page, last.0), outside(first.0 - page, half / page + 1)),
            ((0, half - 1), outside(0, half / page)),
            ((0, u64::MAX), outside(0, 1 << (64 - g.page_shift()))),
        ];
        for ((from, to), refusal) in rows {
            assert_eq!(
                live.space.on(&platform).repaint((Va(from), Va(to)), &[]),
                refusal,
                "{g:?} {from:x} {to:x}"
            );
        }
        let empty = live.space.on(&platform).repaint((last, first), &[]);
        assert!(matches!(empty, Err(RepaintError::OutsideHalf { .. })), "{empty:?}");
        // All of the half, and both of its parts.
        for (from, to) in [(first.0, last.0), (last.0 + 1, u64::MAX), (first.0, u64::MAX)] {
            live.space.on(&platform).repaint((Va(from), Va(to)), &[]).expect("whole entries");
            live.is_sound();
        }
    }
}

/// Tables that this library would not write are left alone.
#[test]
fn what_is_not_understood_is_refused() {
    let g = k4();
    // A table with restrictions is understood.
    for (level, bits) in [(0, 1), (3, 1), (2, 0)] {
        let (regions, base) = mixed(g);
        let live = Live::of(&regions[..4], g, 60);
        // The way to the 2M block, and to the first page.
        let va = if level == 2 { regions[2].va.0 } else { regions[0].va.0 };
        let (mut table, mut now) = (live.space.root(), g.root());
        while now < Level::new(level) {
            let entry = load(&live.memory, Slot { table, index: g.index(va - base, now) });
            let Entry::Table(next) = entry.decode(g, now) else { panic!("{entry:x?}") };
            (table, now) = (next, now.next());
        }
        let index = if level == 0 { 5 } else { g.index(va - base, now) };
        let slot = Slot { table, index };
        let before = load(&live.memory, slot);
        store(&live.memory, slot, Descriptor(bits));
        let in_use = live.memory.in_use();
        let result = live.repaint(&[]);
        if bits == 0 {
            assert!(result.is_ok());
            continue;
        }
        assert!(matches!(result, Err(RepaintError::NotUnderstood { .. })), "{level}: {result:?}");
        assert_eq!((live.memory.in_use(), live.space.policy()), (in_use, Policy::Live));
        store(&live.memory, slot, before);
        live.repaint(&[]).expect("as it was");
    }
}

/// A host on which something else happens whenever somebody is about to take the lock.
struct Meanwhile<'a, 'm> {
    host: &'a Host<'m>,
    locks: Cell<u64>,
    meanwhile: &'a dyn Fn(u64),
}

// SAFETY: the lock is the host's, and readers hold it.
unsafe impl Sharing for Meanwhile<'_, '_> {
    type Held<'h>
        = HostHeld<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> HostHeld<'_> {
        self.locks.set(self.locks.get() + 1);
        (self.meanwhile)(self.locks.get());
        self.host.lock(number)
    }
}

/// The number of descriptors that are copied in one hold of the lock.
const PIECE: usize = <Host<'_> as Sharing>::HOLD;

/// A hold of the lock lasts for some 4,096 descriptors, whatever there is to copy: pages, or the largest leaves, in
/// runs or not, which keep their size.
#[test]
fn no_hold_of_the_lock_is_long() {
    for g in some_geometries(4) {
        let entries = 1usize << g.index_bits();
        let table_of = |level: Level| g.level_size(level) << g.index_bits();
        let below_root = |level: &Level| *level > g.root() && g.may_be_leaf(*level);
        let largest = (g.root().number()..3).map(Level::new).find(below_root);
        for (level, kept, runs) in
            [(Some(Level::PAGE), false, true), (largest, true, true), (largest, true, false)]
        {
            let Some(level) = level else { continue };
            let room = (1u64 << (g.va_bits() - 1)).min(1 << (g.oa_bits() - 1));
            let tables = (6 * PIECE / entries).max(6).min((room / table_of(level)) as usize);
            let (va, bytes) = (Va(g.base(Half::Upper)), tables as u64 * table_of(level));
            let (attributes, leaves) = (Attributes::RAM, Leaves::Largest);
            // Aligned for leaves of this level, or for runs of them, and for nothing larger.
            let oa = Pa(g.level_size(level) * if runs { g.contiguous_entries(level) as u64 } else { 1 });
            let live = Live::of(&[Region { va, oa, bytes, attributes, leaves }], g, 3 * tables + 100);
            let host = live.memory.platform();
            // Before the first hold as many pages are taken as any may need; before each other one those that the last used.
            let (last, reserved, most) = (Cell::new(live.memory.in_use()), Cell::new(false), Cell::new(0));
            let meanwhile = |_| {
                let now = live.memory.in_use();
                let taken = now.saturating_sub(last.replace(now));
                // The root of the copy is taken before.
                if taken > 1 && reserved.replace(true) {
                    most.set(most.get().max(taken));
                }
            };
            let busy = Meanwhile { host: &host, locks: Cell::new(0), meanwhile: &meanwhile };
            // SAFETY: the lock is the host's own.
            let platform = unsafe { live.memory.platform().with_sharing(&busy) };
            let keep = if kept { &[(va, Va(va.0 + (bytes - 1)))][..] } else { &[] };
            let new = live.space.on(&platform).repaint(linear_range(g), keep).expect("frames enough");
            live.is_sound();
            assert!(new.tables as usize >= tables, "{g:?}, kept: {kept}: {new:?}");
            // The last table may be begun before the end of the hold; those above it come in addition.
            let whole = PIECE / entries + 1 + g.levels() as usize;
            assert!(most.get() <= whole, "{g:?}, kept: {kept}: {} tables in one hold", most.get());
        }
    }
}

/// Changes of all kinds before every hold of the lock, most of them of copied ranges: the map is
/// the one that comes of the same changes without a repaint, and the repaint returns.
#[test]
fn others_change_the_map_meanwhile() {
    let mut cases = test_support::Rows::new();
    for g in some_geometries(4) {
        let (mut regions, base) = mixed(g);
        // It takes several holds of the lock.
        let bytes = G.max(8 << (g.page_shift() + g.index_bits()));
        let last = regions[regions.len() - 1];
        let va = (last.va.0 - base + last.bytes + g.page_size()).next_multiple_of(bytes);
        regions.push(Region { va: Va(base + va), oa: Pa(va), bytes, ..last });
        for keeps in [false, true] {
            cases.row(|seed| change_meanwhile(g, &regions, keeps, seed));
        }
    }
}

fn change_meanwhile(g: Geometry, regions: &[Region], keeps: bool, seed: u64) {
    let pages =
        Stats::of_runs(g, regions.iter().flat_map(|r| Region { leaves: Leaves::Pages, ..*r }.runs(g)));
    let frames = 3 * pages.tables as usize + 200;
    let (live, other) = (Live::of(regions, g, frames), Live::of(regions, g, frames));
    let (page, largest) = (g.page_size(), regions[regions.len() - 1]);
    let change = |on: &Live, n: u64| {
        let mut random = Random::new(seed.wrapping_add(n));
        let some = random.of(regions);
        // A few pages are changed again and again.
        let first = random.below(64) % (some.bytes / page);
        let count = (random.below(9) + 1).min(some.bytes / page - first);
        let (va, host) = (Va(some.va.0 + first * page), on.memory.platform());
        let (next, whole) = (Va(some.va.0 + some.bytes), largest.bytes / page);
        // SAFETY: no CPU uses the addresses of tables in host memory.
        let result = unsafe {
            match n % 9 {
                0 | 1 => on.space.on(&host).protect(va, count, Change::READ_ONLY),
                2 => on.space.on(&host).protect(va, count, Change::WRITABLE),
                3 => on.space.on(&host).set_valid(va, count, false),
                4 => on.space.on(&host).unmap(va, count),
                // The page after it comes and goes.
                5 => match on.space.on(&host).map(next, 1, Pa(0), Attributes::RAM) {
                    Err(ChangeError::Occupied { .. }) => on.space.on(&host).unmap(next, 1),
                    mapped => mapped,
                },
                6 => on.space.on(&host).collapse(largest.va, whole),
                7 => on.space.on(&host).split_to_pages(va, count),
                _ if !n.is_multiple_of(10) => Ok(()),
                _ => on.space.on(&host).protect(largest.va, whole, Change::WRITABLE),
            }
        };
        // The repaint has claimed the range.
        let refused = matches!(result, Err(ChangeError::Busy { .. }));
        assert!(refused || matches!(result, Ok(()) | Err(ChangeError::Hole { .. })), "{result:?}");
        !refused
    };
    let host = live.memory.platform();
    let meanwhile = |n| {
        // When CPUs are on the new tree it is in pages, and leaves change their size no more.
        // What is kept is copied in the first hold after it has begun.
        if n > 2 && live.space.policy() == Policy::Live {
            for n in 5 * n..5 * n + 5 {
                assert!(!change(&live, n) || change(&other, n));
            }
        }
        if n < 40 && n % 4 == 3 && live.space.policy() == Policy::Live {
            assert!(!created(&live, g) || created(&other, g));
        }
    };
    let busy = Meanwhile { host: &host, locks: Cell::new(0), meanwhile: &meanwhile };
    // SAFETY: the lock is the host's own.
    let platform = unsafe { live.memory.platform().with_sharing(&busy) };
    // All but the last.
    let keep: Vec<_> =
        regions[..regions.len() - 1].iter().map(|r| (r.va, Va(r.va.0 + (r.bytes - 1)))).collect();
    let keep = if keeps { &keep[..] } else { &[] };
    live.space.on(&platform).repaint(linear_range(g), keep).expect("frames enough");
    live.is_sound();
    assert!(live.pages() == other.pages(), "{g:?}: the maps differ");
    let page_mapped =
        |l: &(Va, Level, Leaf)| l.0 > linear_range(g).1 || (l.1 == Level::PAGE && !l.2.contiguous);
    assert!(keeps || live.leaves().0.iter().all(page_mapped), "{g:?}: not in pages");
    let holds = holds_undisturbed(&other);
    // The first pass, as many holds again, and the rest, which was claimed. A second copy of an entry counts twice, and
    // grafts mark whole entries of the root: each word is looked up in all of their gigabytes. Then what was given back.
    assert!(busy.locks.get() <= 6 * holds + 3000, "{g:?}: {} holds, {holds} at least", busy.locks.get());
}

/// Returns the number of holds of a repaint if nobody changes anything meanwhile.
fn holds_undisturbed(live: &Live) -> u64 {
    let host = live.memory.platform();
    let busy = Meanwhile { host: &host, locks: Cell::new(0), meanwhile: &|_| {} };
    // SAFETY: the lock is the host's own.
    let platform = unsafe { live.memory.platform().with_sharing(&busy) };
    live.space.on(&platform).repaint(linear_range(live.space.geometry()), &[]).expect("frames enough");
    busy.locks.get()
}

/// A map of two regions that is repainted, with the first one, which is a leaf, kept.
struct KeptLeaf {
    live: Live,
    g: Geometry,
    /// The second one takes several holds of the lock.
    regions: [Region; 2],
    /// A page in the middle of the leaf.
    page: Va,
}

impl KeptLeaf {
    /// Runs some work with a leaf of each size.
    fn of_each_size(work: impl Fn(&Self)) {
        for g in some_geometries(4) {
            for size in g.leaf_sizes().iter().filter(|s| s.level < Level::PAGE && s.bytes() <= G) {
                let base = g.base(Half::Upper);
                let bytes = G.max(8 << (g.page_shift() + g.index_bits()));
                let (attributes, leaves) = (Attributes::RAM, Leaves::Largest);
                let region = |va, bytes| Region { va: Va(base + va), oa: Pa(va), bytes, attributes, leaves };
                let regions = [region(0, size.bytes()), region(2 * bytes, bytes)];
                let live = Live::of(&regions, g, 3000);
                work(&Self { live, g, regions, page: Va(base + size.bytes() / 2) });
            }
        }
    }

    /// Repaints the map, with some work at each lock.
    fn repaint(&self, meanwhile: impl Fn(u64)) {
        let busy =
            Meanwhile { host: &self.live.memory.platform(), locks: Cell::new(0), meanwhile: &meanwhile };
        // SAFETY: the lock is the host's own.
        let platform = unsafe { self.live.memory.platform().with_sharing(&busy) };
        let kept = self.regions[0];
        let keep = (kept.va, Va(kept.va.0 + (kept.bytes - 1)));
        self.live.space.on(&platform).repaint(linear_range(self.g), &[keep]).expect("frames enough");
        self.live.is_sound();
    }
}

/// Leaves that are to keep their size and do not for a while: the new tree has them as the old one does in the
/// end, though it is not specified when a run forms again.
#[test]
fn kept_leaves_come_and_go() {
    KeptLeaf::of_each_size(|kept| {
        let &KeptLeaf { ref live, g, regions, page } = kept;
        let host = live.memory.platform();
        let (whole, last) = (regions[1].bytes / g.page_size(), Cell::new(0));
        kept.repaint(|n| {
            if n < 3 || live.space.policy() != Policy::Live {
                return;
            }
            let change = if n % 2 == 0 { Change::WRITABLE } else { Change::READ_ONLY };
            // SAFETY: no CPU uses the addresses of tables in host memory.
            unsafe {
                match live.space.on(&host).protect(page, 1, change) {
                    // The repaint has claimed the range.
                    Err(ChangeError::Busy { .. }) => return,
                    changed => changed.expect("it is mapped"),
                }
                // So much has changed that it takes several holds again.
                live.space.on(&host).protect(regions[1].va, whole, change).expect("it is mapped");
            }
            last.set(n);
            live.space.on(&host).collapse(page, 1).expect("it may");
        });
        assert!(last.get() > 5, "{g:?}");
        let end = regions[0].va.0 + regions[0].bytes;
        let leaves = live.leaves().0;
        let read_only = leaves.iter().filter(|l| l.0.0 < end && !l.2.attributes.is_writable());
        let pages: u64 = read_only.map(|l| g.level_size(l.1)).sum();
        assert_eq!(pages, if last.get() % 2 == 0 { 0 } else { g.page_size() }, "{g:?}, {regions:?}");
    });
}

/// A page of a leaf that is to keep its size becomes read-only once, after the leaf was copied: the other parts of the leaf
/// still map what they did.
#[test]
fn the_other_parts_of_a_kept_leaf_stay() {
    KeptLeaf::of_each_size(|kept| {
        let &KeptLeaf { ref live, g, regions, page } = kept;
        let (host, once) = (live.memory.platform(), Cell::new(false));
        kept.repaint(|n| {
            if n == 4 && live.space.policy() == Policy::Live {
                // SAFETY: no CPU uses the addresses of tables in host memory.
                unsafe { live.space.on(&host).protect(page, 1, Change::READ_ONLY) }.expect("it is mapped");
                once.set(true);
            }
        });
        assert!(once.get(), "{g:?}, {regions:?}");
        let leaves = live.leaves().0;
        let linear = leaves.iter().filter(|l| l.0 <= linear_range(g).1);
        let base = g.base(Half::Upper);
        assert!(linear.clone().all(|l| l.2.oa.0 == l.0.0 - base), "{g:?}, {regions:?}: other memory");
        let read_only: Vec<_> = linear.filter(|l| !l.2.attributes.is_writable()).map(|l| l.0).collect();
        assert_eq!(read_only, [page], "{g:?}, {regions:?}");
    });
}

/// The first entry of the root that is free, in the part that is repainted, is mapped by a creation. Returns false if it is
/// claimed.
fn created(live: &Live, g: Geometry) -> bool {
    let base = g.base(Half::Upper);
    let entries = (1 << (g.va_bits() - 1)) >> g.level_shift(g.root());
    let free = (0..entries).find(|&index| {
        let slot = Slot { table: live.space.root(), index };
        load(&live.memory, slot) == Descriptor::HOLE
    });
    let Some(index) = free else { return true };
    let va = Va(base + ((index as u64) << g.level_shift(g.root())));
    let (attributes, leaves) = (Attributes::RAM, Leaves::Largest);
    let region = Region { va, oa: Pa(0), bytes: g.level_size(Level::new(2)), attributes, leaves };
    // SAFETY: no CPU uses these tables.
    match unsafe { live.space.on(&live.memory.platform()).create_regions([region]) } {
        Err(CreateError::Busy { .. }) => false,
        created => created.map(|_| true).expect("a hole"),
    }
}
