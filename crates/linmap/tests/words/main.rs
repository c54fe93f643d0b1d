//! Two callers in different gigabytes store to no common word of the library, and to no common cache line: neither of
//! the map's state nor of the locks.
//!
//! Each operation runs in one gigabyte and then in another one, and every store to the state and to the locks is noted,
//! instruction by instruction. The tables are the map itself, and table pages the platform's, so they are not watched.
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

mod watch;

use std::collections::BTreeSet;

use linmap::error::ChangeError;
use linmap::host::{SharedMemory, Threads};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Platform, Policy, SharedSpace, Tree, Va,
};
use watch::Watched;

/// The bytes that two callers' stores must not share: two cache lines, which are often fetched together.
const LINE: usize = 128;

/// All that callers store to, without the tables.
struct State<const LOCKS: usize> {
    space: SharedSpace,
    threads: Threads<LOCKS>,
}

/// The operations, which run one after the other in a gigabyte that is one block.
const OPERATIONS: [&str; 10] = [
    "split 1G",
    "protect a page",
    "protect pages",
    "split 2M",
    "invalidate",
    "make valid",
    "unmap",
    "map",
    "split to pages",
    "collapse",
];

/// Carries out an operation on pages of the gigabyte that begins at `va`.
fn operate<P: Platform>(space: &SharedSpace, p: &P, va: Va, name: &str) -> Result<(), ChangeError> {
    let at = |number| page(va, number);
    // SAFETY: no CPU uses these tables.
    unsafe {
        match name {
            "split 1G" => space.on(p).protect(at(7), 1, Change::READ_ONLY),
            "protect a page" => space.on(p).protect(at(7), 1, Change::WRITABLE),
            "protect pages" => space.on(p).protect(at(16), 100, Change::READ_ONLY),
            "split 2M" => space.on(p).protect(at(5 * 512), 1, Change::READ_ONLY),
            "invalidate" => space.on(p).set_valid(at(16), 100, false),
            "make valid" => space.on(p).set_valid(at(16), 100, true),
            "unmap" => space.on(p).unmap(at(512), 512),
            "map" => space.on(p).map(at(512), 512, pa(at(512)), Attributes::RAM),
            "split to pages" => space.on(p).split_to_pages(at(1024), 512),
            "collapse" => space.on(p).collapse(at(1024), 512),
            other => panic!("no operation {other}"),
        }
    }
}

fn page(va: Va, number: u64) -> Va {
    Va(va.0 + (number << 12))
}

/// Returns the physical address of everything. Blocks of 1G can form no contiguous run, which would join gigabytes.
fn pa(va: Va) -> Pa {
    Pa((va.0 & ((1 << 39) - 1)) + (1 << 30))
}

/// Returns the units of `bytes` bytes that an operation stores to in both of two gigabytes, with its name.
fn common<const LOCKS: usize>(gigabytes: [u64; 2], bytes: usize) -> Vec<(&'static str, usize)> {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let memory = SharedMemory::new(g, 256);
    let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
    let state = Watched::new(State { space: SharedSpace::adopt(tree), threads: Threads::<LOCKS>::new() });
    let State { space, threads } = state.get();
    // SAFETY: nothing else locks the tables of this memory.
    let platform = unsafe { memory.platform(threads) };
    space.set_policy(Policy::Live);
    let start = Va(g.base(Half::Upper));
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&platform).map(start, 128 << 18, pa(start), Attributes::RAM) }.expect("room");
    let mut found = Vec::new();
    for name in OPERATIONS {
        let mut both = gigabytes.map(|gigabyte| {
            let before = state.bytes();
            let stored = state.stores(|| {
                operate(space, &platform, page(start, gigabyte << 18), name).expect(name);
            });
            let units: BTreeSet<usize> = stored.iter().map(|at| at / bytes).collect();
            // Whatever differs now was seen.
            let after = state.bytes();
            let differ = (0..before.len()).filter(|&at| before[at] != after[at]).map(|at| at / bytes);
            assert!(differ.into_iter().all(|unit| units.contains(&unit)), "{name}: a store was not seen");
            assert!(!units.is_empty(), "{name} stores its lock at least");
            units
        });
        let [first, second] = &mut both;
        found.extend(first.intersection(second).map(|unit| (name, *unit)));
    }
    found
}

#[test]
fn callers_in_different_gigabytes_store_to_no_common_line() {
    for gigabytes in [[1, 2], [0, 63], [5, 70]] {
        let found = common::<64>(gigabytes, LINE);
        assert!(found.is_empty(), "{} of {gigabytes:?}: {:?}", found.len(), &found[..found.len().min(20)]);
    }
    println!("words stored by both: {}", common::<64>([1, 2], 8).len());
}

/// The controls: a common lock, be it the only one or that of two gigabytes, is found.
#[test]
fn a_common_lock_is_found() {
    assert!(common::<1>([1, 2], 8).len() >= OPERATIONS.len());
    assert!(common::<64>([1, 65], 8).len() >= OPERATIONS.len());
}
