//! A few pages that some threads change while others read them, in tables that come and go: small enough for Miri, which finds
//! accesses that are a race by the rules of the language.

use std::ops::ControlFlow;
use std::thread;

use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::host::{SharedMemory, Threads};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Platform, Policy, SharedSpace, Tree, Va,
};

/// The changes of a thread.
const CHANGES: u64 = if cfg!(miri) { 2 } else { 200 };
/// The pages of a thread: enough for two changes of eight at once.
const PAGES: u64 = 19;
/// The threads that change pages: one in a table that stays, one in a table that comes and goes.
const THREADS: u64 = 2;
/// The pages from the first of one thread to the first of the next.
const APART: u64 = 512;

/// Changes the pages of a thread, all of them together. Calls again while a claim of another thread is in the way; and when table
/// pages are short, gives back those that readers have left.
fn change<P: Platform>(space: &SharedSpace, platform: &P, give_back: impl Fn(), (va, pa): (Va, Pa)) {
    let until_done = |call: &dyn Fn() -> Result<(), ChangeError>| {
        while let Err(error) = call() {
            match error {
                ChangeError::Busy { .. } => thread::yield_now(),
                ChangeError::OutOfFrames { .. } => {
                    thread::yield_now();
                    give_back();
                }
                other => panic!("{other}"),
            }
        }
    };
    // SAFETY: no CPU uses these tables.
    unsafe {
        for _ in 0..CHANGES {
            until_done(&|| space.on(platform).map(va, PAGES, pa, Attributes::RAM));
            until_done(&|| space.on(platform).protect(va, PAGES, Change::READ_ONLY));
            until_done(&|| space.on(platform).protect(va, 1, Change::WRITABLE));
            until_done(&|| space.on(platform).set_valid(va, PAGES, false));
            until_done(&|| space.on(platform).unmap(va, PAGES));
        }
    }
}

#[test]
fn readers_see_whole_entries_beside_changes_of_eight_at_once() {
    let g = Geometry::new(Granule::K4, 39, OaFormat::Bits48).expect("a geometry");
    let (memory, threads) = (SharedMemory::new(g, 32), Threads::<64>::new());
    // SAFETY: these tables have no other locks.
    let platform = &unsafe { memory.platform(&threads) };
    let tree = Tree::build(platform, g, Half::Upper, std::iter::empty()).expect("a root");
    let space = &SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let at = |page: u64| (Va(g.base(Half::Upper) + (page << 12)), Pa((page << 12) + (1 << 32)));
    let pa_of = |va: Va| Pa(va.0 - g.base(Half::Upper) + (1 << 32));
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(platform).map(at(0).0, 1, at(0).1, Attributes::RAM) }.expect("room");
    let range = (at(0).0, at(THREADS * APART).0);
    thread::scope(|scope| {
        for n in 0..THREADS {
            let give_back = || threads.readers().give_back(&memory);
            scope.spawn(move || change(space, platform, give_back, at(1 + n * APART)));
        }
        for _ in 0..2 * CHANGES {
            _ = space.on(platform).read(|reader| {
                reader.visit(range, |found| {
                    if let Entry::Leaf(leaf) = found.entry {
                        assert_eq!(leaf.oa, pa_of(found.va), "{}", found.va);
                    }
                    ControlFlow::Continue(())
                })
            });
            assert!(space.on(platform).read(|reader| reader.count(range)).tlb_entries(g) >= 1);
            assert!(
                space.on(platform).read(|reader| reader.translate(at(5).0)).is_none_or(|pa| pa == at(5).1)
            );
        }
    });
    assert_eq!(space.on(platform).stats(), space.on(platform).read(|reader| reader.count(range)));
    threads.readers().give_back(&memory);
    assert_eq!(memory.in_use() as u64, space.on(platform).stats().tables, "no page is lost");
}
