//! The kernel's data have leaves of their own in the linear map: writable, read-only, or to be hidden.

use std::iter;

use linmap::arch::Entry;
use linmap::error::LayoutError;
use linmap::host::HostMemory;
use linmap::layout::{ImageAlias, Kind};
use linmap::{
    Attributes, Geometry, Granule, Half, Layout, Leaves, OaFormat, Pa, Platform, Rodata, SharedSpace, Tree,
    Va,
};
use test_support::geometries;

const RAM: u64 = 1 << 30;

/// Text and constants, and data after them, in a gigabyte.
fn laid_out(g: Geometry, alias: ImageAlias, work: impl FnOnce(&Layout<'_>)) {
    let page = g.page_size();
    let mut ram = [Pa(RAM)..Pa(RAM + 16384 * page)];
    let (text, data) =
        (Pa(RAM + 33 * page)..Pa(RAM + 70 * page), Pa(RAM + 70 * page + 8)..Pa(RAM + 130 * page));
    let layout = Layout::of_ram(g, &mut ram)
        .and_then(|layout| layout.with_image(text, Rodata::Full))
        .and_then(|layout| layout.with_data(data, alias));
    work(&layout.expect("it is in RAM"));
}

fn created<P: Platform>(platform: &P, layout: &Layout<'_>) -> SharedSpace {
    let tree = Tree::build(platform, layout.geometry(), Half::Upper, iter::empty()).expect("a page");
    let space = SharedSpace::adopt(tree);
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(platform).create(layout, Leaves::Largest) }.expect("frames enough");
    space
}

/// The leaf that translates an address: its validity and its attributes.
fn leaf<P: Platform>(space: &SharedSpace, platform: &P, va: Va) -> (bool, Attributes) {
    match space.on(platform).read(|reader| reader.entry(va)) {
        Some((_, _, Entry::Leaf(leaf))) => (leaf.valid, leaf.attributes),
        other => panic!("{other:?} at {va}"),
    }
}

#[test]
fn each_alias_at_every_geometry() {
    for g in geometries() {
        for alias in [ImageAlias::Writable, ImageAlias::ReadOnly, ImageAlias::Hidden] {
            laid_out(g, alias, |layout| {
                let memory = HostMemory::new(g, 16);
                let platform = memory.platform();
                let space = created(&platform, layout);
                let stats = space.on(&platform).stats();
                if alias == ImageAlias::Hidden {
                    let (data, _) = layout.data();
                    assert_eq!(*data, Pa(RAM + 70 * g.page_size())..Pa(RAM + 130 * g.page_size()));
                    let va = layout.va(data.start).expect("RAM");
                    // SAFETY: no CPU uses these tables. No leaf changes its size under the policy `Fixed`.
                    unsafe { space.on(&platform).set_valid(va, 60, false) }.expect("whole leaves");
                }
                for n in 0..16384 {
                    let va = layout.va(Pa(RAM + n * g.page_size())).expect("RAM");
                    let (valid, attributes) = leaf(&space, &platform, va);
                    let data = (70..130).contains(&n);
                    assert_eq!(valid, !(data && alias == ImageAlias::Hidden), "{g:?}: page {n}");
                    let read_only = (33..70).contains(&n) || data && alias == ImageAlias::ReadOnly;
                    assert_eq!(attributes.contains(Attributes::READ_ONLY), read_only, "{g:?}: page {n}");
                }
                assert_eq!(space.on(&platform).stats(), stats, "no leaf has changed its size");
            });
        }
    }
}

fn four_k() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built")
}

#[test]
fn data_that_are_no_ram_of_their_own_are_refused() {
    let at = |first: u64, last: u64| Pa(RAM + (first << 12))..Pa(RAM + (last << 12));
    let refused = |data, carve_out| {
        let (mut ram, mut carve_outs) = ([at(0, 1 << 18)], [carve_out]);
        let layout = Layout::new(four_k(), &mut ram, &mut carve_outs, at(10, 20), Rodata::On);
        layout.and_then(|layout| layout.with_data(data, ImageAlias::ReadOnly)).map(|_| ())
    };
    let (none, image) = (at(0, 0), (Kind::Image, at(10, 20)));
    assert_eq!(refused(at(20, 30), none.clone()), Ok(()));
    assert_eq!(refused(none.clone(), none.clone()), Ok(()));
    let data = (Kind::Data, at(19, 30));
    assert_eq!(refused(at(19, 30), none.clone()), Err(LayoutError::Overlap { first: image, second: data }));
    let (carved, data) = ((Kind::CarveOut, at(40, 50)), (Kind::Data, at(30, 41)));
    assert_eq!(refused(at(30, 41), at(40, 50)), Err(LayoutError::Overlap { first: carved, second: data }));
    let beyond = at((1 << 18) - 1, (1 << 18) + 1);
    let not_ram = LayoutError::NotRam { kind: Kind::Data, range: beyond.clone() };
    assert_eq!(refused(beyond, none), Err(not_ram));
}
