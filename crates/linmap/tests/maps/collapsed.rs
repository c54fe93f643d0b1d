//! The cost of splits, by reason, and the gain of a collapse: each is what counting the tables before and after shows.

use linmap::arch::Level;
use linmap::host::HostMemory;
use linmap::{Attributes, Change, Geometry, Half, Pa, Policy, Reason, SharedSpace, SplitCost, Tree, Va};
use test_support::geometries;
use test_support::prelude::*;

/// A range in pages of a map, how it changes, and for which reason.
type Step = (u64, u64, u8, u8);

/// Does steps on a map of three tables' worth of leaves of the last but one level. Returns what each reason cost, and what
/// the tables show: the TLB entries added, the counts predicted and the counts after a collapse.
fn run(g: Geometry, steps: &[Step]) {
    let memory = HostMemory::new(g, 64);
    let hardware = memory.platform();
    let tree = Tree::build(&hardware, g, Half::Upper, core::iter::empty()).expect("a root");
    let space = SharedSpace::adopt(tree);
    space.set_policy(Policy::Live);
    let (start, size) = (Va(g.base(Half::Upper)), g.level_size(Level::new(2)));
    let blocks = (2 * g.entries(Level::new(2)).min(64) as u64).min((1 << g.va_bits()) / size);
    let pages = (blocks * size) >> g.page_shift();
    // SAFETY: no CPU uses these tables.
    unsafe { space.on(&hardware).map(start, pages, Pa(0), Attributes::RAM) }.expect("room");
    let range = (start, Va(start.0 + (blocks * size - 1)));
    let entries = || space.on(&hardware).read(|reader| reader.count(range)).tlb_entries(g);
    let mut costs = [SplitCost::default(); Reason::COUNT];
    for &(at, length, change, reason) in steps {
        let (first, reason) = (at % pages, Reason::new(reason % 8).expect("below eight"));
        let length = (1 + length % 600).min(pages - first);
        let change =
            [Change::READ_ONLY, Change::WRITABLE, Change::INVALID, Change::VALID][usize::from(change % 4)];
        let before = (entries(), space.on(&hardware).changes().splits);
        let mut live = space.on(&hardware).because(reason);
        // SAFETY: no CPU uses these tables.
        unsafe { live.protect(Va(start.0 + (first << g.page_shift())), length, change) }.expect("room");
        let cost = &mut costs[usize::from(reason.number())];
        cost.tlb_entries += entries() - before.0;
        cost.splits += space.on(&hardware).changes().splits - before.1;
    }
    for reason in Reason::all() {
        assert_eq!(space.split_cost(reason), costs[usize::from(reason.number())], "{reason} {g:?}");
    }
    assert_eq!(space.split_cost(Reason::NONE), SplitCost::default());
    let predicted = space.on(&hardware).read(|reader| reader.count_collapsed(range));
    space.on(&hardware).collapse(start, pages).expect("nobody parks");
    assert_eq!(predicted, space.on(&hardware).read(|reader| reader.count(range)), "{g:?}");
    assert_eq!(
        predicted,
        space.on(&hardware).read(|reader| reader.count_collapsed(range)),
        "a second collapse brings nothing back: {g:?}"
    );
}

proptest! {
    /// Any geometry, any changes.
    #[test]
    fn costs_and_what_comes_back_are_what_the_tables_show(
        g in any::<prop::sample::Index>(),
        steps in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u8>(), any::<u8>()), 0..6),
    ) {
        run(*g.get(&geometries()), &steps);
    }
}

/// One page of a block out and back: all comes back, with a limit on leaves as without.
#[test]
fn one_page_and_back() {
    for g in geometries() {
        for g in [g, g.with_largest_leaf(g.level_size(Level::new(2)))] {
            run(g, &[(3, 0, 0, 1), (3, 0, 1, 1)]);
        }
    }
}

#[test]
fn reasons_have_names_and_a_bound() {
    let names: Vec<String> = Reason::all().map(|reason| reason.to_string()).collect();
    assert_eq!(names, ["module", "bpf", "guard", "crash", "user", "own-6", "own-7"]);
    assert_eq!((Reason::new(7).map(Reason::number), Reason::new(8)), (Some(7), None));
}
