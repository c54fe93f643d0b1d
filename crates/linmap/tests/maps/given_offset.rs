//! Linear maps at an offset of the caller's choice, and with memory types of its own.

use std::ops::{ControlFlow, Range};

use linmap::arch::Entry;
use linmap::error::LayoutError;
use linmap::host::HostMemory;
use linmap::layout::{Kind, Run};
use linmap::read::{Checks, Finding};
use linmap::{
    Aliased, Attributes, Geometry, Half, Layout, Leaves, MemoryType, Pa, Policy, Rodata, SharedSpace, Stats,
    Tree, Va,
};
use test_support::geometries;
use test_support::prelude::*;

/// Returns the physical memory that runs map, as joined ranges; each run must be at its offset.
fn mapped(g: Geometry, runs: impl Iterator<Item = Run>, offset: u64) -> Vec<Range<u64>> {
    let mut all: Vec<Range<u64>> = Vec::new();
    for run in runs {
        assert_eq!(run.va.0, run.oa.0.wrapping_add(offset), "{run:x?}");
        let end = run.oa.0 + (run.descriptors << g.level_shift(run.level));
        match all.last_mut() {
            Some(last) if last.end == run.oa.0 => last.end = end,
            _ => all.push(run.oa.0..end),
        }
    }
    all
}

/// RAM below 2^36, so that the smallest half has room for it.
fn ram(page: u64) -> [Range<Pa>; 2] {
    [Pa(64 * page)..Pa(1 << 30), Pa(3 << 30)..Pa((3 << 30) + 129 * page)]
}

#[test]
fn any_offset_in_the_upper_half() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        let ends = 0u64.wrapping_sub((3 << 30) + 129 * page);
        // From the base on, in the upper part, at the very end of all addresses, and skewed by a page.
        for offset in [base, base + (2 << 30), ends, base + page, ends - page, base.wrapping_sub(64 * page)] {
            let mut given = ram(page);
            let layout =
                Layout::of_ram(g, &mut given).and_then(|layout| layout.at(offset)).expect("a layout");
            let wanted = ram(page).map(|r| r.start.0..r.end.0).to_vec();
            for leaves in [Leaves::Largest, Leaves::Pages] {
                assert_eq!(mapped(g, layout.runs(leaves), offset), wanted, "{g:?} {offset:#x}");
            }
            assert_eq!((layout.offset(), layout.dropped_bytes()), (offset, 0));
            let planned = Stats::of_runs(g, layout.runs(Leaves::Largest));
            let memory = HostMemory::new(g, planned.tables as usize);
            let tree = Tree::build(&memory, g, Half::Upper, layout.runs(Leaves::Largest)).expect("a tree");
            assert_eq!(tree.stats(), planned, "{g:?} {offset:#x}");
            tree.discard(&memory);
        }
    }
}

/// RAM, and then its image, are laid out as both at once.
#[test]
fn an_image_may_come_later() {
    for g in geometries() {
        let (page, mut one, mut two) = (g.page_size(), ram(g.page_size()), ram(g.page_size()));
        let image = Pa(70 * page + 1)..Pa(75 * page - 1);
        for rodata in [Rodata::Off, Rodata::On, Rodata::Full] {
            let at_once = Layout::new(g, &mut one, &mut [], image.clone(), rodata).expect("a layout");
            let later =
                Layout::of_ram(g, &mut two).and_then(|layout| layout.with_image(image.clone(), rodata));
            let later = later.expect("a layout");
            assert!(at_once.runs(Leaves::Largest).eq(later.runs(Leaves::Largest)), "{g:?} {rodata:?}");
        }
        let outside = Pa(1 << 30)..Pa((1 << 30) + page);
        let refused = Layout::of_ram(g, &mut two).and_then(|layout| layout.with_image(outside, Rodata::Full));
        assert!(matches!(refused, Err(LayoutError::NotRam { kind: Kind::Image, .. })), "{g:?}: {refused:?}");
    }
}

/// Aliases are found where the map is, and nowhere else: by `Aliased`, which has them follow, and by `check`.
#[test]
fn aliases_are_found_where_the_map_is() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        // The map at the end of the half, the area at its beginning.
        let offset = 0u64.wrapping_sub(4 << 30);
        let mut given = ram(page);
        let layout = Layout::of_ram(g, &mut given).and_then(|layout| layout.at(offset)).expect("a layout");
        let memory = HostMemory::new(g, 4096);
        let platform = memory.platform();
        let space = SharedSpace::adopt(
            Tree::build(&memory, g, Half::Upper, layout.runs(Leaves::Largest)).expect("a tree"),
        );
        space.set_policy(Policy::Live);
        let (area, oa) = (Va(base), Pa(64 * page));
        let checks =
            Checks { linear_offset: Some(offset), linear_range: Some(layout.range()), ..Checks::default() };
        let findings = || {
            let mut found = 0;
            let _ = space.on(&platform).read(|reader| {
                reader.check(&checks, |finding| {
                    assert!(matches!(finding, Finding::WritableAlias { .. }), "{g:?}: {finding}");
                    found += 1;
                    ControlFlow::Continue(())
                })
            });
            found
        };
        // SAFETY: no CPU uses these tables.
        unsafe {
            space.on(&platform).map(area, 3, oa, Attributes::KERNEL_RODATA).expect("an area");
            assert!(findings() > 0, "{g:?}");
            let mut aliased =
                Aliased::new(space.on(&platform), offset, Rodata::Full).in_range(layout.range());
            aliased.set_memory_ro(area, 3).expect("read-only");
        }
        assert_eq!(findings(), 0, "{g:?}");
        let (_, _, alias) = space
            .on(&platform)
            .read(|reader| reader.entry(Va(oa.0.wrapping_add(offset))))
            .expect("of the half");
        assert!(matches!(alias, Entry::Leaf(leaf) if !leaf.attributes.is_writable()), "{g:?}: {alias:?}");
    }
}

/// RAM that lies before or behind what the half reaches is dropped, and named if it is a carve-out.
#[test]
fn what_the_offset_does_not_reach_is_dropped() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        let all = || [Pa(0)..Pa(8 * page), Pa(16 * page)..Pa(24 * page)];
        let at = |offset, carve_outs: &mut [Range<Pa>]| {
            let mut ram = all();
            let layout = Layout::new(g, &mut ram, carve_outs, Pa(0)..Pa(0), Rodata::Full)?.at(offset)?;
            Ok((mapped(g, layout.runs(Leaves::Largest), offset), layout.dropped_bytes()))
        };
        // The first page that is in the half is the fifth.
        let low = base.wrapping_sub(4 * page);
        assert_eq!(at(low, &mut []), Ok((vec![4 * page..8 * page, 16 * page..24 * page], 4 * page)), "{g:?}");
        // The last is the twentieth.
        let high = 0u64.wrapping_sub(20 * page);
        assert_eq!(at(high, &mut []), Ok((vec![0..8 * page, 16 * page..20 * page], 4 * page)), "{g:?}");
        for (offset, range) in [(low, Pa(0)..Pa(page)), (high, Pa(19 * page)..Pa(21 * page))] {
            let dropped = LayoutError::Dropped { kind: Kind::CarveOut, range: range.clone() };
            assert_eq!(at(offset, &mut [range]), Err(dropped));
        }
    }
}

#[test]
fn offsets_that_cannot_be_are_refused() {
    for g in geometries() {
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        for offset in
            [base + 1, base + page / 2, 0, page, base >> 1, 0u64.wrapping_sub(64 * page), base - (4 << 30)]
        {
            let mut given = ram(page);
            let refused = Layout::of_ram(g, &mut given).expect("a layout").at(offset).map(drop);
            assert_eq!(refused, Err(LayoutError::Offset { offset, page }), "{g:?} {offset:#x}");
        }
    }
}

/// The offset that the library chooses, given back to it, gives the same map.
#[test]
fn the_chosen_offset_is_one_of_them() {
    for g in geometries() {
        let (mut one, mut two) = (ram(g.page_size()), ram(g.page_size()));
        let chosen = Layout::of_ram(g, &mut one).expect("a layout");
        let given =
            Layout::of_ram(g, &mut two).and_then(|layout| layout.at(chosen.offset())).expect("a layout");
        assert!(chosen.runs(Leaves::Largest).eq(given.runs(Leaves::Largest)), "{g:?}");
    }
}

#[test]
fn memory_types_are_those_that_are_asked_for() {
    let g = geometries()[0];
    let (page, mut given) = (g.page_size(), ram(g.page_size()));
    let (image, carve_out) = (Pa(128 * page)..Pa(130 * page), Pa(200 * page)..Pa(201 * page));
    let mut carve_outs = [carve_out];
    let layout = Layout::new(g, &mut given, &mut carve_outs, image.clone(), Rodata::Full).expect("a layout");
    let plain: Vec<Attributes> = layout.regions(Leaves::Largest).map(|region| region.attributes).collect();
    let (five, six) = (MemoryType::new(5), MemoryType::new(6));
    let layout = layout.with_memory_types(five, six);
    for (region, was) in layout.regions(Leaves::Largest).zip(plain) {
        let expected = if image.contains(&region.oa) { six } else { five };
        assert_eq!(
            (region.attributes.memory_type(), region.attributes.of_type(was.memory_type())),
            (expected, was)
        );
    }
}

proptest! {
    /// At any offset: each mapped page of RAM is in the upper half, and each page that fits there is mapped.
    #[test]
    fn any_offset(offset: u64, shift in 0u32..64, which: u16) {
        let all = geometries();
        let g = all[usize::from(which) % all.len()];
        let (page, base) = (g.page_size(), g.base(Half::Upper));
        // Near the base often.
        let offset = base.wrapping_add((offset as i64 >> shift) as u64) & !(page - 1);
        let mut given = ram(page);
        let in_half = |pa: u64| pa.wrapping_add(offset) >= base;
        let ends = ram(page).map(|r| [r.start.0, r.end.0 - page]);
        match Layout::of_ram(g, &mut given).expect("a layout").at(offset) {
            Err(_) => prop_assert!(ends.iter().flatten().all(|&pa| !in_half(pa))),
            Ok(layout) => {
                for &pa in ends.iter().flatten() {
                    prop_assert_eq!(layout.va(Pa(pa)), in_half(pa).then(|| Va(pa.wrapping_add(offset))));
                }
            }
        }
    }
}
