//! The kernel's data are hidden in the linear map, and seen only while someone looks.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::{iter, thread};

use linmap::host::{HostMemory, SharedMemory, Threads};
use linmap::{
    Attributes, ChangeError, Entry, Geometry, Granule, Half, Hidden, ImageAlias, Kind, Layout, LayoutError,
    Leaves, OaFormat, Pa, Platform, Rodata, SharedSpace, Tree, Va,
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
                let hidden = Hidden::new(&space, layout);
                assert_eq!(hidden.is_some(), alias == ImageAlias::Hidden);
                if let Some(hidden) = &hidden {
                    // SAFETY: no CPU uses these tables. No leaf changes its size under the policy `Fixed`.
                    unsafe { hidden.hide(&platform) }.expect("whole leaves");
                    assert_eq!(hidden.range(), (layout.va(Pa(RAM + 70 * g.page_size())).expect("RAM"), 60));
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

#[test]
fn views_within_views_end_with_the_last() {
    laid_out(four_k(), ImageAlias::Hidden, |layout| {
        let memory = HostMemory::new(layout.geometry(), 16);
        let platform = memory.platform();
        let space = created(&platform, layout);
        let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
        let (va, _) = hidden.range();
        let valid = || leaf(&space, &platform, va).0;
        assert!(valid() && !hidden.is_hidden());
        // SAFETY: no CPU uses these tables.
        unsafe {
            hidden.hide(&platform).expect("whole leaves");
            assert!(!valid() && hidden.is_hidden());
            let within = hidden.shown(&platform, || {
                let inner = hidden.shown(&platform, valid);
                // A view is under way, so it stays.
                hidden.hide(&platform).expect("left to the view");
                (inner, valid())
            });
            assert_eq!(within, Ok((Ok(true), true)));
        }
        assert!(!valid() && hidden.is_hidden());
    });
}

#[test]
fn a_change_that_fails_leaves_it_as_it_was() {
    laid_out(four_k(), ImageAlias::Hidden, |layout| {
        let memory = HostMemory::new(layout.geometry(), 16);
        let platform = memory.platform();
        let space = created(&platform, layout);
        let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
        let (va, pages) = hidden.range();
        // SAFETY: no CPU uses these tables.
        unsafe {
            hidden.hide(&platform).expect("whole leaves");
            space.on(&platform).unmap(va, pages).expect("whole leaves");
            let hole = ChangeError::Hole { va };
            assert_eq!(hidden.shown(&platform, || unreachable!("nothing is there")), Err::<(), _>(hole));
            assert!(hidden.is_hidden());
            // A page of a run, which may not be split.
            let part = Hidden::of(&space, Va(va.0 - (20 << 12)), 1);
            assert!(matches!(part.hide(&platform), Err(ChangeError::NeedsResize { .. })));
            assert!(!part.is_hidden());
        }
    });
}

/// Threads look at once: each that looks finds the range valid, and nobody finds it so when all have gone.
#[test]
fn many_look_at_once() {
    laid_out(four_k(), ImageAlias::Hidden, |layout| {
        let (memory, threads) = (SharedMemory::new(layout.geometry(), 16), Threads::<64, 64>::new());
        // SAFETY: the locks of these threads are these.
        let platform = unsafe { memory.platform(&threads) };
        let space = created(&platform, layout);
        let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
        let (va, pages) = hidden.range();
        // SAFETY: no CPU uses these tables.
        unsafe { hidden.hide(&platform) }.expect("whole leaves");
        let (looked, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
        let valid = || (0..pages).step_by(7).all(|n| leaf(&space, &platform, Va(va.0 + (n << 12))).0);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..300 {
                        // SAFETY: as above.
                        match unsafe { hidden.shown(&platform, valid) } {
                            Ok(valid) => {
                                looked.fetch_add(1, SeqCst);
                                wrong.fetch_add(u64::from(!valid), SeqCst);
                            }
                            Err(ChangeError::Busy { .. }) => thread::yield_now(),
                            Err(other) => panic!("{other}"),
                        }
                    }
                });
            }
        });
        assert!(looked.into_inner() != 0);
        assert_eq!(wrong.into_inner(), 0);
        assert!(hidden.is_hidden() && !leaf(&space, &platform, va).0);
    });
}
