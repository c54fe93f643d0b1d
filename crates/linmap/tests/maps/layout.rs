//! Ranges that make no linear map, and errors that name the mistake.

use std::ops::Range;

use linmap::error::LayoutError;
use linmap::layout::{ImageAlias, Kind};
use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa, Rodata, Stats};
use test_support::geometries;

const NO_IMAGE: Range<u64> = 0..0;

/// Returns the mapped RAM, or the reason why there is no layout.
fn lay_out(
    ram: &[Range<u64>],
    carve_outs: &[Range<u64>],
    image: Range<u64>,
) -> Result<(Vec<Range<Pa>>, u64), LayoutError> {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let pa = |r: &Range<u64>| Pa(r.start)..Pa(r.end);
    let mut ram: Vec<_> = ram.iter().map(pa).collect();
    let mut carve_outs: Vec<_> = carve_outs.iter().map(pa).collect();
    let layout = Layout::new(g, &mut ram, &mut carve_outs, pa(&image), Rodata::Full)?;
    Ok((layout.ram().to_vec(), layout.unaligned_bytes()))
}

fn one(range: Range<u64>) -> Vec<Range<u64>> {
    Vec::from([range])
}

fn pages(from: u64, to: u64) -> Range<Pa> {
    Pa(from << 12)..Pa(to << 12)
}

#[test]
fn ram_is_sorted_joined_and_cut_to_pages() {
    // Two that touch inside a page are one, and nothing is lost; ragged ends are, and so are crumbs.
    let joined = lay_out(&[0x1800..0x3000, 0..0x1800], &[], NO_IMAGE);
    assert_eq!(joined, Ok((vec![pages(0, 3)], 0)));
    let cut = lay_out(&[0x8800..0x9000, 0x5001..0x5fff, 0x1001..0x3fff], &[], NO_IMAGE);
    assert_eq!(cut, Ok((vec![pages(2, 3)], 0x800 + 0xffe + 0xfff + 0xfff)));
}

#[test]
fn no_whole_page_is_no_ram() {
    let none = [0x1000..0x1000, 0x1001..0x2fff];
    for count in 0..=2 {
        assert_eq!(lay_out(&none[..count], &[], NO_IMAGE), Err(LayoutError::NoRam));
    }
}

#[test]
fn an_overlap_names_both() {
    use Kind::{CarveOut, Image, Ram};
    let overlap = |first, second| Err(LayoutError::Overlap { first, second });
    let ram = one(0..0x10_0000);
    assert_eq!(
        lay_out(&[0x3000..0x5000, 0x1000..0x4000], &[], NO_IMAGE),
        overlap((Ram, pages(1, 4)), (Ram, pages(3, 5)))
    );
    assert_eq!(
        lay_out(&ram, &[0x3000..0x5000, 0x1000..0x4000], NO_IMAGE),
        overlap((CarveOut, pages(1, 4)), (CarveOut, pages(3, 5)))
    );
    // Only one page is shared, which cannot be both.
    assert_eq!(
        lay_out(&ram, &one(0x3000..0x4800), 0x4800..0x8000),
        overlap((CarveOut, pages(3, 5)), (Image, pages(4, 8)))
    );
}

#[test]
fn carve_outs_and_image_are_in_ram() {
    let ram = [0x1_0000..0x2_0000, 0x3_0000..0x4_0000];
    for range in [0xf000..0x1_1000, 0x1_f000..0x2_1000, 0x1_f000..0x3_1000, 0x2_1000..0x2_2000] {
        let pa = Pa(range.start)..Pa(range.end);
        let not_ram = |kind| Err(LayoutError::NotRam { kind, range: pa.clone() });
        assert_eq!(lay_out(&ram, &one(range.clone()), NO_IMAGE), not_ram(Kind::CarveOut));
        assert_eq!(lay_out(&ram, &[], range.clone()), not_ram(Kind::Image));
    }
    assert!(lay_out(&ram, &one(ram[1].clone()), ram[0].clone()).is_ok());
}

/// Output addresses have 48 bits here; what lies beyond is dropped, to the end of all addresses.
#[test]
fn ram_that_no_descriptor_reaches_is_dropped() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let last = u64::MAX - 0xfff;
    for (start, end, dropped) in [(last - 0x3000, u64::MAX, 0x3000), (1 << 48, last, last - (1 << 48))] {
        let (mut ram, mut none) = ([Pa(start)..Pa(end)], []);
        let layout = Layout::new(g, &mut ram, &mut none, Pa(0)..Pa(0), Rodata::Full).expect("RAM");
        assert_eq!(layout.dropped_bytes(), dropped);
        assert_eq!(layout.runs(Leaves::Largest).count(), 0);
    }
}

/// For a larger leaf RAM is dropped, but less than an L2 block.
#[test]
fn a_larger_leaf_may_cost_less_than_a_block() {
    const BLOCK: u64 = 2 << 20;
    let g = Geometry::new(Granule::K4, 39, OaFormat::Bits48).unwrap();
    let reach = 256 << 30;
    // From the first block on the map reaches the end of RAM; from 0 on, which 1G blocks need, it does not.
    for (more, dropped) in [(BLOCK, 0), (BLOCK - 0x1000, BLOCK - 0x1000)] {
        let mut ram = [Pa(BLOCK)..Pa(reach + more)];
        let layout = Layout::of_ram(g, &mut ram).expect("RAM");
        assert_eq!(layout.dropped_bytes(), dropped);
    }
}

/// Carve-outs that share a page after rounding are judged alike with an image and without.
#[test]
fn the_image_does_not_decide_about_carve_outs() {
    let ram = one(0..0x10_0000);
    let carve_outs = [0x1000..0x2800, 0x2c00..0x5000];
    let with = lay_out(&ram, &carve_outs, 0x8000..0x9000);
    assert_eq!(with.is_ok(), lay_out(&ram, &carve_outs, NO_IMAGE).is_ok(), "{with:?}");
}

/// An image of nothing changes nothing, wherever it is said to be.
#[test]
fn an_empty_image_is_nowhere() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    for start in [0, 0x8000, 0x10_0000, 0x20_0000] {
        let mut ram = [Pa(0)..Pa(0x10_0000)];
        let layout = Layout::new(g, &mut ram, &mut [], Pa(start)..Pa(start), Rodata::Full).unwrap();
        assert_eq!(layout.regions(Leaves::Largest).take(9).count(), 1, "at {start:#x}");
    }
}

/// A carve-out that the half does not reach is not silently without pages.
#[test]
fn what_the_map_does_not_reach_is_named() {
    let g = Geometry::new(Granule::K4, 36, OaFormat::Bits48).unwrap();
    let far = Pa(40 << 30)..Pa(41 << 30);
    for kind in [Kind::CarveOut, Kind::Image] {
        let mut ram = [Pa(0)..Pa(64 << 30)];
        let (mut carve_outs, image) = match kind {
            Kind::CarveOut => (vec![far.clone()], Pa(0)..Pa(0)),
            _ => (Vec::new(), far.clone()),
        };
        let error = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full).unwrap_err();
        assert_eq!(error, LayoutError::Dropped { kind, range: far.clone() });
    }
}

/// An empty image is nowhere, even inside a page.
#[test]
fn an_empty_image_inside_a_page_is_no_page() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let mut ram = [Pa(0x5000_0000)..Pa(0x5010_0000)];
    let layout = Layout::new(g, &mut ram, &mut [], Pa(0x5000_0123)..Pa(0x5000_0123), Rodata::Full).unwrap();
    assert_eq!(layout.regions(Leaves::Largest).count(), 1);
}

/// Carve-outs and the image may touch: each is mapped as what it is, and nothing twice.
#[test]
fn a_carve_out_may_end_where_the_image_begins() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    for (image, carve_outs) in [
        (0x4000..0x8000, one(0x2000..0x4000)),
        (0x4000..0x8000, one(0x8000..0xa000)),
        (0x4000..0x8000, vec![0x8000..0xa000, 0x2000..0x4000]),
        // They meet inside a page of the image, or of the carve-out: no page is both.
        (0x4123..0x7fff, vec![0x3000..0x4000, 0x8000..0x8001]),
    ] {
        let mut ram = [Pa(0)..Pa(0x10_0000)];
        let mut given: Vec<_> = carve_outs.iter().map(|r| Pa(r.start)..Pa(r.end)).collect();
        let layout = Layout::new(g, &mut ram, &mut given, Pa(image.start)..Pa(image.end), Rodata::Full);
        let layout = layout.expect("they only touch");
        let regions: Vec<_> = layout.regions(Leaves::Largest).collect();
        let (mut expected, mut next) = (Vec::new(), 0);
        let mut all = carve_outs.clone();
        all.push(image.clone());
        all.sort_by_key(|r| r.start);
        for r in all {
            let (start, end) = (r.start & !0xfff, (r.end + 0xfff) & !0xfff);
            expected.extend((next < start).then_some((next, start, true, Leaves::Largest)));
            let is_image = r == image;
            let leaves = if is_image { Leaves::Largest } else { Leaves::Pages };
            expected.push((start, end, !is_image, leaves));
            next = end;
        }
        expected.push((next, 0x10_0000, true, Leaves::Largest));
        let is: Vec<_> = regions
            .iter()
            .map(|r| (r.oa.0, r.oa.0 + r.bytes, r.attributes.is_writable(), r.leaves))
            .collect();
        assert_eq!(is, expected, "image {image:x?}, carve-outs {carve_outs:x?}");
    }
}

/// Carve-outs and the image may reach from the first mapped byte to the last one, and no page further.
#[test]
fn the_ends_of_the_map_are_reached() {
    let g = Geometry::new(Granule::K4, 36, OaFormat::Bits48).unwrap();
    let all = Pa(0)..Pa(64 << 30);
    let of = |carve_outs: &mut [Range<Pa>], image: Range<Pa>| {
        Layout::new(g, &mut [all.clone()], carve_outs, image, Rodata::Full)
            .map(|layout| layout.mapped().clone())
    };
    let mapped = of(&mut [], Pa(0)..Pa(0)).expect("RAM");
    assert_eq!(mapped, Pa(0)..Pa(32 << 30));
    let (page, end) = (g.page_size(), mapped.end.0);
    for range in [Pa(0)..Pa(page), Pa(end - page)..Pa(end), mapped.clone()] {
        assert_eq!(of(&mut [range.clone()], Pa(0)..Pa(0)), Ok(mapped.clone()));
        assert_eq!(of(&mut [], range), Ok(mapped.clone()));
    }
    for range in [Pa(end - page)..Pa(end + page), Pa(end)..Pa(end + page)] {
        let dropped = |kind| Err(LayoutError::Dropped { kind, range: range.clone() });
        assert_eq!(of(&mut [range.clone()], Pa(0)..Pa(0)), dropped(Kind::CarveOut));
        assert_eq!(of(&mut [], range.clone()), dropped(Kind::Image));
    }
}

/// The estimate is never too low, and near where a map has few tables: RAM of every alignment, with all kinds of ranges, at
/// offsets that leave no large leaf aligned as well.
#[test]
fn no_tree_has_more_tables_than_estimated() {
    const G: u64 = 1 << 30;
    let mut estimated = 0;
    for (g, at) in geometries().into_iter().flat_map(|g| [0, 1, 5].map(|at| (g, at))) {
        let first = at * 0x7_0000 + G;
        let mut ram = [Pa(first)..Pa(3 * G - 0x5_0000), Pa(9 * G + 0x1_0000)..Pa(11 * G + 0x3000)];
        let mut carve_outs = [Pa(10 * G)..Pa(10 * G + 0x30_0000)];
        let image = Pa(G + 0x29_0000)..Pa(G + 0x43_0000);
        let Ok(layout) = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full) else { continue };
        let layout = layout
            .with_data(Pa(G + 0x43_0000)..Pa(G + 0x55_0000), ImageAlias::ReadOnly)
            .expect("beside the image");
        let skewed = layout.clone().at(layout.offset().wrapping_add(g.page_size()));
        for layout in [Some(layout), skewed.ok()].into_iter().flatten() {
            for leaves in [Leaves::Largest, Leaves::Pages] {
                let exact = Stats::of_runs(g, layout.runs(leaves)).tables;
                let most = layout.most_tables(leaves);
                assert!(exact <= most, "{g:?} at {first:#x}, {leaves:?}: {exact} of {most}");
                assert!(most <= exact + 80, "{g:?} at {first:#x}, {leaves:?}: {exact} of {most}");
                estimated += 1;
            }
        }
    }
    assert!(estimated > 100, "{estimated} maps");
}

/// A layout and its runs take n log n for n banks and carve-outs. If each were compared with all others, they would take many
/// minutes.
#[test]
fn a_layout_of_very_many_ranges_is_made_at_once() {
    const BANKS: u64 = 1 << 20;
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    let in_each = |first: u64, end: u64| (0..BANKS).rev().map(move |n| pages(n << 4 | first, n << 4 | end));
    let mut ram: Vec<_> = in_each(1, 9).collect();
    let mut carve_outs: Vec<_> = in_each(2, 3).collect();
    let image = in_each(4, 6).next().unwrap();
    let layout = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full).expect("a layout");
    // Of each bank three, and of the last one two more for the image.
    assert_eq!(layout.regions(Leaves::Largest).count() as u64, 3 * BANKS + 2);
    assert_eq!(Stats::of_runs(g, layout.runs(Leaves::Largest)).bytes(g), BANKS << 15);
    for n in 0..BANKS {
        let mapped = [0, 1, 8, 9].map(|page| layout.va(Pa((n << 4 | page) << 12)).is_some());
        assert_eq!(mapped, [false, true, true, false], "bank {n}");
    }
}
