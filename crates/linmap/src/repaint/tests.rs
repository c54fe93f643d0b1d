//! Whatever changes after a repaint has taken the marks is marked: before every hold of every kind of operation.

extern crate std;

use core::cell::Cell;
use core::ops::ControlFlow::Continue;
use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::edit::ChangeError;
use crate::format::{Attributes, Change, Entry, Geometry, Granule, Half, Leaf, OaFormat, Pa, Span, Va};
use crate::plan::{Leaves, Policy, Region, linear_range};
use crate::platform::host::{Host, HostHeld, HostMemory, NoHardware};
use crate::platform::{Combined, Sharing};
use crate::share::SharedSpace;
use crate::share::marks::{self, Parts, words};
use crate::{Aliased, Rodata, Tree};

const M: u64 = 1 << 20;
const PAGE: u64 = 4096;
/// The range that operations change, in blocks at both ends and in pages between them.
const BYTES: u64 = 48 * M;

/// The pages that change, from the second megabyte on.
const PAGES: u64 = (BYTES - 2 * M) / PAGE;
/// The offset of an area that is not in the linear map.
const AREA: u64 = 1 << 47;

/// The translation of each page.
type Pages = BTreeMap<u64, Leaf>;

/// A map, and the moment at which a repaint takes all marks.
struct Scene {
    memory: HostMemory,
    space: SharedSpace<1>,
    base: u64,
}

/// A host on which a repaint takes all marks before one hold. Holds are short.
struct Taken<'a, 'm> {
    scene: &'a Scene,
    host: &'a Host<'m>,
    holds: Cell<u64>,
    /// The hold before which the marks are taken.
    at: u64,
    /// The translations at that moment.
    copied: RefCell<Pages>,
}

// SAFETY: the lock is the host's, and readers hold it.
unsafe impl Sharing for Taken<'_, '_> {
    const HOLD: usize = 512;

    type Held<'h>
        = HostHeld<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> HostHeld<'_> {
        self.holds.set(self.holds.get() + 1);
        if self.holds.get() == self.at {
            (0..words::<1>()).for_each(|word| _ = Parts::take(self.scene.space.state(), word, 0));
            self.copied.replace(self.scene.pages());
        }
        self.host.lock(number)
    }
}

impl Scene {
    fn new() -> Self {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let base = g.base(Half::Upper);
        let memory = HostMemory::new(g, 200);
        let (attributes, leaves) = (Attributes::RAM, Leaves::Largest);
        let region = Region { va: Va(base), oa: Pa(0), bytes: BYTES, attributes, leaves };
        let tree = Tree::build(&memory, g, Half::Upper, region.runs(g)).expect("enough");
        let space = SharedSpace::<1>::of_tree(tree);
        space.set_policy(Policy::Live);
        let scene = Self { memory, space, base };
        let host = scene.memory.platform();
        // Blocks at both ends, so that they are cut.
        scene.space.on(&host).split_to_pages(scene.va(8 * M), 32 * M / PAGE).expect("enough");
        scene
    }

    fn va(&self, offset: u64) -> Va {
        Va(self.base + offset)
    }

    fn pages(&self) -> Pages {
        let (g, mut pages) = (self.space.geometry(), Pages::new());
        // A lock may be about to be taken, but is not held.
        let host = self.memory.platform();
        let _ = self.space.on(&host).read(|reader| {
            reader.visit(linear_range(g), |visited| {
                if let Entry::Leaf(leaf) = visited.entry {
                    for at in (0..g.level_size(visited.level)).step_by(PAGE as usize) {
                        let oa = Pa(leaf.oa.0 + at);
                        pages.insert(visited.va.0 + at, Leaf { oa, contiguous: false, ..leaf });
                    }
                }
                Continue(())
            })
        });
        pages
    }
}

type Platform<'s> = Combined<'s, HostMemory, NoHardware, Taken<'s, 's>>;
type Operation = fn(&Scene, &Platform<'_>) -> Result<(), ChangeError>;

/// Calls an operation once for each of its holds.
fn at_each_hold(name: &str, prepare: fn(&Scene, &Host<'_>), operation: Operation) {
    let (mut at, mut last) = (1, 1);
    while at <= last {
        let scene = Scene::new();
        let host = scene.memory.platform();
        prepare(&scene, &host);
        let state = scene.space.state();
        let (Va(first), Va(last_va)) = linear_range(scene.space.geometry());
        let all = Span { first, last: last_va };
        assert!(state.attention.repaint_begins());
        state.copied.set(all);
        marks::clear(state, &host);
        let taken = Taken { scene: &scene, host: &host, holds: Cell::new(0), at, copied: RefCell::default() };
        // SAFETY: the lock is the host's own.
        operation(&scene, &unsafe { scene.memory.platform().with_sharing(&taken) }).expect("it is possible");
        last = taken.holds.get();

        let mut marked = BTreeMap::new();
        for word in 0..words::<1>() {
            let mut parts = Parts::take(state, word, scene.base);
            while let Some(part) = parts.next(Span { last: scene.base + 2 * BYTES, ..all }) {
                marked.insert(part.first, part.last);
                parts.from = part.last + 1;
            }
        }
        let (before, after) = (taken.copied.take(), scene.pages());
        let is_marked = |va: &u64| marked.range(..=*va).next_back().is_some_and(|(_, last)| va <= last);
        let changed = before.keys().chain(after.keys()).filter(|va| before.get(va) != after.get(va));
        let mut forgotten = changed.filter(|va| !is_marked(va));
        assert_eq!(forgotten.next(), None, "{name}: marks taken before hold {at} of {last}");
        at += 1;
    }
    assert!(last > 1, "{name}");
}

/// Prepares nothing.
fn nothing(_: &Scene, _: &Host<'_>) {}

#[test]
fn changes_after_the_marks_were_taken_are_marked() {
    // SAFETY: no CPU uses the addresses of tables in host memory.
    unsafe {
        at_each_hold("protect", nothing, |scene, on| {
            scene.space.on(on).protect(scene.va(M), PAGES, Change::READ_ONLY)
        });
        let read_only = |scene: &Scene, host: &Host<'_>| {
            let pages = (BYTES - 4 * M) / PAGE;
            scene.space.on(host).protect(scene.va(2 * M), pages, Change::READ_ONLY).expect("mapped");
        };
        at_each_hold("protect the ends", read_only, |scene, on| {
            scene.space.on(on).protect(scene.va(M), PAGES, Change::READ_ONLY)
        });
        at_each_hold("protect one page", nothing, |scene, on| {
            scene.space.on(on).protect(scene.va(M), 1, Change::READ_ONLY)
        });
        at_each_hold("set_valid", nothing, |scene, on| {
            scene.space.on(on).set_valid(scene.va(M), PAGES, false)
        });
        at_each_hold("unmap", nothing, |scene, on| scene.space.on(on).unmap(scene.va(M), PAGES));
        at_each_hold("unmap_all", nothing, |scene, on| {
            scene.space.on(on).unmap_all(&[(scene.va(30 * M), 10), (scene.va(9 * M), 10 * M / PAGE)])
        });
        at_each_hold("map", nothing, |scene, on| {
            scene.space.on(on).map(scene.va(BYTES), 10 * M / PAGE, Pa(PAGE), Attributes::RAM)
        });
        at_each_hold("aliases", area_of_all, |scene, on| {
            let mut aliased = Aliased::new(scene.space.on(on), scene.base, Rodata::Full);
            aliased.set_memory_ro(scene.va(AREA), PAGES)
        });
    }
}

/// Maps an area beyond the linear map to the same memory.
fn area_of_all(scene: &Scene, host: &Host<'_>) {
    // SAFETY: no CPU uses the addresses of tables in host memory.
    unsafe { scene.space.on(host).map(scene.va(AREA), PAGES, Pa(M), Attributes::RAM) }.expect("a hole");
    scene.space.on(host).split_to_pages(scene.va(AREA), PAGES).expect("enough");
}
