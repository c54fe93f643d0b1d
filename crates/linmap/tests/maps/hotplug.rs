//! RAM that came is mapped as if it had been there when the map was created, and RAM that went as if it had not.

use std::ops::ControlFlow::Continue;
use std::ops::Range;

use linmap::arch::{Entry, Level};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::{
    Attributes, Change, Geometry, Granule, Half, Hotplug, Layout, Leaves, OaFormat, Pa, Platform, Policy,
    Region, SharedSpace, Stats, Tree, Va,
};
use test_support::{Random, each, geometries};

type Ram = Vec<Range<Pa>>;

const GB: u64 = 1 << 30;

/// The same offset for all maps of a test: physical address 0 is the first of the half.
fn layout(g: Geometry, ram: &mut Ram) -> Layout<'_> {
    Layout::of_ram(g, ram).and_then(|layout| layout.at(g.base(Half::Upper))).expect("RAM that is reached")
}

struct Map {
    g: Geometry,
    memory: HostMemory,
    space: SharedSpace,
}

impl Map {
    fn new(g: Geometry, ram: &Ram, policy: Policy) -> Self {
        let memory = HostMemory::new(g, 4096);
        let platform = memory.platform();
        let tree = Tree::build(&platform, g, Half::Upper, core::iter::empty()).expect("one page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(policy);
        let leaves = if policy == Policy::Pages { Leaves::Pages } else { Leaves::Largest };
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).create(&layout(g, &mut ram.clone()), leaves) }.expect("frames enough");
        Self { g, memory, space }
    }

    fn hotplug<'a, P: Platform>(&'a self, platform: &'a P) -> Hotplug<'a, P> {
        Hotplug::new(self.space.on(platform), &layout(self.g, &mut vec![Pa(0)..Pa(self.g.page_size())]))
    }

    fn add(&self, ram: &Range<Pa>) -> Result<(), ChangeError> {
        // SAFETY: no CPU uses these tables.
        unsafe { self.hotplug(&self.memory.platform()).add(ram.clone()) }
    }

    fn remove(&self, ram: &Range<Pa>) -> Result<(), ChangeError> {
        // SAFETY: as above.
        unsafe { self.hotplug(&self.memory.platform()).remove(ram.clone()) }
    }

    fn va(&self, pa: u64) -> Va {
        Va(self.g.base(Half::Upper) + pa)
    }

    fn change(&self, pa: u64, change: Change) {
        // SAFETY: as above.
        unsafe { self.space.on(&self.memory.platform()).protect(self.va(pa), 1, change) }
            .expect("it is mapped");
    }

    /// Everything that there is to see: all entries, where tables are told from holes, the counts, and the pages taken.
    fn seen(&self) -> (Vec<(Va, Level, Entry)>, Stats, usize) {
        let (platform, mut seen) = (self.memory.platform(), Vec::new());
        let _ = self.space.on(&platform).read(|reader| {
            reader.visit(self.space.range(), |visited| {
                match visited.entry {
                    Entry::Hole => {}
                    Entry::Table(_) => seen.push((visited.va, visited.level, Entry::Table(Pa(0)))),
                    leaf => seen.push((visited.va, visited.level, leaf)),
                }
                Continue(())
            })
        });
        let stats = self.space.on(&platform).stats();
        assert_eq!(stats, self.space.on(&platform).read(|reader| reader.count(self.space.range())));
        (seen, stats, self.memory.in_use())
    }
}

/// Ranges one after the other: mostly adjacent, from pages to many gigabytes, at most so many tables' worth of pages.
fn any_ram(g: Geometry, random: &mut Random) -> Ram {
    let sizes = g.new_leaf_sizes();
    let (mut at, mut ram) = (random.below(8) * sizes[0].bytes().min(GB), Vec::new());
    for _ in 0..2 + random.below(4) {
        let mut bytes = 0;
        for size in sizes.iter().rev() {
            let most = (sizes[0].bytes().min(64 * GB) / size.bytes()).min(20);
            bytes += size.bytes() * random.below(most + 2) * random.below(2);
        }
        // Sometimes up to where a large leaf could begin.
        if random.one_in(2) {
            let size = sizes[random.below(sizes.len() as u64) as usize].bytes();
            bytes = (at + bytes).next_multiple_of(size) - at;
        }
        let bytes = bytes.clamp(g.page_size(), 200 * GB).min((1 << (g.va_bits() - 1)) - g.page_size() - at);
        if bytes == 0 {
            break;
        }
        ram.push(Pa(at)..Pa(at + bytes));
        at += bytes;
        if random.one_in(4) {
            at += g.page_size() * (1 + random.below(1000));
        }
        if at >= 1 << (g.va_bits() - 1) {
            break;
        }
    }
    ram
}

#[test]
fn as_if_it_had_been_there_at_boot() {
    each(60, |seed| {
        let mut random = Random::new(seed);
        let g = random.of(&geometries());
        let all = any_ram(g, &mut random);
        let policy = if random.one_in(4) { Policy::Pages } else { Policy::Live };
        let bytes: u64 = all.iter().map(|r| r.end.0 - r.start.0).sum();
        if policy == Policy::Pages && bytes >> g.page_shift() > 1 << (g.index_bits() + 5) {
            return;
        }
        // The first stays. The others come, and go, in any order.
        let map = Map::new(g, &all[..1].to_vec(), policy);
        let boot = map.seen();
        let mut order: Vec<usize> = (1..all.len()).collect();
        order.sort_by_cached_key(|_| random.bits());
        for &n in &order {
            assert_eq!(map.add(&all[n]), Ok(()), "{g:?}: {:x?} of {all:x?}", all[n]);
        }
        assert_eq!(map.seen(), Map::new(g, &all, policy).seen(), "{g:?}: {all:x?}");
        order.sort_by_cached_key(|_| random.bits());
        for (done, &n) in order.iter().enumerate() {
            assert_eq!(map.remove(&all[n]), Ok(()), "{g:?}: {:x?} of {all:x?}", all[n]);
            let gone = &order[..=done];
            let left: Ram = (0..all.len()).filter(|n| !gone.contains(n)).map(|n| all[n].clone()).collect();
            assert_eq!(map.seen(), Map::new(g, &left, policy).seen(), "{g:?}: {left:x?} of {all:x?}");
        }
        assert_eq!(map.seen(), boot);
    });
}

/// Four gigabytes, the last two of which were added.
fn four() -> (Map, Range<Pa>) {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
    let map = Map::new(g, &vec![Pa(0)..Pa(2 * GB)], Policy::Live);
    let added = Pa(2 * GB)..Pa(4 * GB);
    map.add(&added).expect("frames enough");
    (map, added)
}

#[test]
fn five_hundred_gigabytes_come_and_go() {
    for g in [
        Geometry::new(Granule::K4, 48, OaFormat::Bits48),
        Geometry::new(Granule::K16, 48, OaFormat::Bits48),
        Geometry::new(Granule::K64, 48, OaFormat::Bits48),
    ] {
        let g = g.expect("built");
        let map = Map::new(g, &vec![Pa(GB)..Pa(5 * GB)], Policy::Live);
        let (boot, more) = (map.seen(), Pa(5 * GB)..Pa(517 * GB));
        for _ in 0..3 {
            map.add(&more).expect("frames enough");
            assert_eq!(map.seen(), Map::new(g, &vec![Pa(GB)..Pa(517 * GB)], Policy::Live).seen());
            map.remove(&more).expect("it is RAM");
            assert_eq!(map.seen(), boot);
        }
    }
}

#[test]
fn memory_with_a_special_use_is_not_removed() {
    let page = |pa: u64| 3 * GB + (pa << 12);
    let refused = |what: &str, prepare: &dyn Fn(&Map), restore: Option<Change>| {
        let (map, added) = four();
        prepare(&map);
        let before = map.seen();
        let va = map.va(page(7));
        assert_eq!(map.remove(&added), Err(ChangeError::NotRam { va }), "{what}");
        assert_eq!(map.seen(), before, "{what}");
        if let Some(restore) = restore {
            map.change(page(7), restore);
            map.remove(&added).expect("it is RAM again");
            assert_eq!(map.seen(), Map::new(map.g, &vec![Pa(0)..Pa(2 * GB)], Policy::Live).seen());
        }
    };
    refused("read-only", &|map| map.change(page(7), Change::READ_ONLY), Some(Change::WRITABLE));
    refused("invalid", &|map| map.change(page(7), Change::INVALID), Some(Change::VALID));
    let software = Change::new(Attributes::SOFTWARE, Attributes::empty()).expect("software bits");
    refused("another's", &|map| map.change(page(7), software), None);
    for (oa, attributes) in [(page(8), Attributes::RAM), (page(7), Attributes::KERNEL_DATA)] {
        let elsewhere = |map: &Map| {
            let platform = map.memory.platform();
            // SAFETY: no CPU uses these tables.
            unsafe {
                map.space.on(&platform).unmap(map.va(page(7)), 1).expect("it is mapped");
                map.space.on(&platform).map(map.va(page(7)), 1, Pa(oa), attributes).expect("it is a hole");
            }
        };
        refused("another mapping", &elsewhere, None);
    }
}

#[test]
fn a_hole_is_named_and_nothing_goes() {
    let (map, added) = four();
    let hole = Pa(3 * GB)..Pa(3 * GB + (1 << 12));
    map.remove(&hole).expect("it is RAM");
    let before = map.seen();
    assert_eq!(map.remove(&added), Err(ChangeError::Hole { va: map.va(hole.start.0) }));
    assert_eq!(map.seen(), before);
    map.add(&hole).expect("it was RAM");
    assert_eq!(map.seen(), four().0.seen());
}

#[test]
fn what_is_there_is_not_added() {
    let (map, added) = four();
    let before = map.seen();
    let over = Pa(added.end.0 - (1 << 21))..Pa(added.end.0 + (70 << 30));
    assert_eq!(map.add(&over), Err(ChangeError::Occupied { va: map.va(over.start.0) }));
    let around = Pa(GB)..Pa(90 * GB);
    assert_eq!(map.add(&around), Err(ChangeError::Occupied { va: map.va(GB) }));
    assert_eq!(map.seen(), before);
}

#[test]
fn ranges_that_are_none_of_the_map_are_refused() {
    let (map, _) = four();
    let before = map.seen();
    for range in [Pa(8 * GB + 8)..Pa(9 * GB), Pa(8 * GB)..Pa(9 * GB - 8)] {
        let pa = if range.start.0 & 8 != 0 { range.start } else { range.end };
        for refused in [map.add(&range), map.remove(&range)] {
            assert!(
                matches!(refused, Err(ChangeError::Unaligned(linmap::error::Unaligned::Pa(at))) if at == pa)
            );
        }
    }
    let reach = (Pa(0), Pa(1 << 48));
    for (start, pa) in [(1 << 50, 1 << 50), ((1 << 48) - GB, 1 << 48)] {
        let range = Pa(start)..Pa(start + 2 * GB);
        assert_eq!(map.add(&range), Err(ChangeError::NotReached { pa: Pa(pa), reach }));
    }
    for (first, after) in [(GB, GB), (3 * GB, GB), (u64::MAX << 12, 0)] {
        assert_eq!((map.add(&(Pa(first)..Pa(after))), map.remove(&(Pa(first)..Pa(after)))), (Ok(()), Ok(())));
    }
    assert_eq!(map.seen(), before);
}

#[test]
fn without_table_pages_nothing_changes() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
    // It ends within a leaf of every size, so tables are needed to add and to remove.
    let ram = Pa(2 * GB + (5 << 12))..Pa(4 * GB + (3 << 21) + (7 << 12));
    for left in 0..8 {
        let map = Map::new(g, &vec![Pa(0)..Pa(2 * GB)], Policy::Live);
        let before = map.seen();
        let taken: Vec<_> = core::iter::from_fn(|| linmap::Memory::take(&map.memory)).collect();
        let give =
            |pages: Vec<linmap::Frame>| pages.into_iter().for_each(|f| linmap::Memory::give(&map.memory, f));
        let mut taken = taken;
        give(taken.split_off(taken.len() - left));
        let added = map.add(&ram);
        give(taken);
        match added {
            Ok(()) => assert!(left >= 3),
            Err(ChangeError::OutOfFrames { .. }) => assert_eq!(map.seen(), before),
            other => panic!("{other:?}"),
        }
        if added.is_ok() {
            let part = Pa(3 * GB + (1 << 12))..Pa(4 * GB - (1 << 12));
            let before = map.seen();
            let taken: Vec<_> = core::iter::from_fn(|| linmap::Memory::take(&map.memory)).collect();
            assert!(matches!(map.remove(&part), Err(ChangeError::OutOfFrames { .. })));
            give(taken);
            assert_eq!(map.seen(), before);
        }
    }
}

/// Under the policy `Fixed` RAM comes and goes as far as leaves keep their size.
#[test]
fn fixed_leaves_stay_as_they_are() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
    let map = Map::new(g, &vec![Pa(0)..Pa(GB + (1 << 21))], Policy::Fixed);
    let boot = map.seen();
    let more = Pa(GB + (1 << 21))..Pa(4 * GB);
    map.add(&more).expect("no leaf changes its size");
    let region = |first: u64, last: u64| Region::new(map.va(first), Pa(first), last - first, Attributes::RAM);
    let regions = [region(0, GB + (1 << 21)), region(GB + (1 << 21), 4 * GB)];
    let stats = Stats::of_runs(g, regions.into_iter().flat_map(|r| r.runs(g)));
    assert_eq!(map.seen().1, stats);
    let half = Pa(3 * GB + (1 << 20))..Pa(4 * GB);
    assert!(matches!(map.remove(&half), Err(ChangeError::NeedsResize { policy: Policy::Fixed, .. })));
    map.remove(&more).expect("whole leaves");
    assert_eq!(map.seen(), boot);
}

#[test]
fn pinned_pages_do_not_merge() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
    for pinned in [false, true] {
        let map = Map::new(g, &vec![Pa(0)..Pa(2 * GB - (1 << 20))], Policy::Live);
        if pinned {
            let last = map.va(2 * GB - (1 << 20) - g.page_size());
            map.space.on(&map.memory.platform()).pin(last, 1).expect("frames enough");
        }
        map.add(&(Pa(2 * GB - (1 << 20))..Pa(2 * GB))).expect("frames enough");
        let entry = map
            .space
            .on(&map.memory.platform())
            .read(|reader| reader.entry(map.va(2 * GB - (1 << 20))))
            .expect("mapped");
        assert_eq!(entry.1.number() == 3, pinned);
    }
}

/// The caller may know better than the policy which leaves are right.
#[test]
fn leaves_are_those_that_the_caller_wants() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
    let more = Pa(GB - (1 << 21))..Pa(3 * GB);
    for (policy, leaves) in [(Policy::Live, Leaves::Pages), (Policy::Pages, Leaves::Largest)] {
        let map = Map::new(g, &vec![Pa(0)..Pa(GB - (1 << 21))], policy);
        let boot = map.seen();
        // SAFETY: no CPU uses these tables.
        unsafe { map.hotplug(&map.memory.platform()).with_leaves(leaves).add(more.clone()) }
            .expect("frames enough");
        let region = |first: u64, last: u64, leaves| Region {
            leaves,
            ..Region::new(map.va(first), Pa(first), last - first, Attributes::RAM)
        };
        let at_boot = if policy == Policy::Pages { Leaves::Pages } else { Leaves::Largest };
        let regions = [region(0, more.start.0, at_boot), region(more.start.0, more.end.0, leaves)];
        // Neither merges with what was there: a part of it is in pages.
        assert_eq!(map.seen().1, Stats::of_runs(g, regions.into_iter().flat_map(|r| r.runs(g))));
        map.remove(&more).expect("whole leaves");
        assert_eq!(map.seen(), boot);
    }
}

/// Memory of others beside it that was mapped in pages stays so: it is not the same, and keeps even its own leaves.
#[test]
fn what_is_beside_it_and_not_the_same_keeps_its_leaves() {
    for g in geometries() {
        let run = g.contiguous_entries(Level::PAGE) as u64 * g.page_size();
        if run == g.page_size() {
            continue;
        }
        let map = Map::new(g, &Vec::from([Pa(0)..Pa(GB)]), Policy::Live);
        let (platform, pages) = (map.memory.platform(), run >> g.page_shift());
        let bit = Attributes::from_bits_retain(1 << 55);
        let special = Change::new(bit, Attributes::empty()).expect("a software bit");
        map.space.on(&platform).split_to_pages(map.va(run), pages).expect("frames enough");
        // SAFETY: no CPU uses these tables.
        unsafe { map.space.on(&platform).protect(map.va(run), pages, special) }.expect("it is mapped");
        let beside =
            || map.space.on(&platform).read(|reader| reader.count((map.va(run), Va(map.va(2 * run).0 - 1))));
        let before = beside();
        map.remove(&(Pa(0)..Pa(run))).expect("RAM");
        map.add(&(Pa(0)..Pa(run))).expect("a hole");
        assert_eq!(beside(), before, "{g:?}");
        // A collapse there would have made a run of them.
        map.space.on(&platform).collapse(map.va(run), 1).expect("nobody parks");
        assert_ne!(beside(), before, "{g:?}");
    }
}
