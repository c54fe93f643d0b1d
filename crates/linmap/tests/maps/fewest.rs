//! The map has the fewest leaves, TLB entries and table pages, and maps all RAM and nothing else.
//!
//! Random machines at every geometry. Two searches that share nothing with the library say what the
//! fewest are: one over all tilings of the pages, one over all cuts of the tree. What is then built is
//! compared with the machine entry by entry, and by a page walk of the tests' own.

mod by_pages;
mod by_tree;
mod high_addresses;
pub(crate) mod machine;
mod manual;
mod map;
mod placement;
mod trees;
mod walker;

use linmap::{Geometry, Leaves, Rodata, Stats};
use test_support::prelude::*;

use machine::{Machine, machines};
use map::{Cost, Map};
use test_support::geometries;

/// Lengths and gaps for which every tiling can be tried, in 4K pages; up to some tens of MiB.
fn small_machines() -> impl Strategy<Value = Machine> {
    machines(10..24, 8..22)
}

/// From pages to terabytes.
fn large_machines() -> impl Strategy<Value = Machine> {
    machines(12..42, 10..43)
}

fn leaves() -> impl Strategy<Value = Leaves> {
    prop_oneof![3 => Just(Leaves::Largest), 1 => Just(Leaves::Pages)]
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig::with_cases(cases)
}

/// Returns the library's layout for the machine, and the map that is wanted, unless there is no whole page.
fn planned(machine: &Machine, g: Geometry, leaves: Leaves) -> Option<(Cost, Map)> {
    machine.laid_out(g, Rodata::Full, |layout| {
        let stats = Stats::of_runs(g, layout.runs(leaves));
        let sizes = g.leaf_sizes();
        let (descriptors, tlb_entries) =
            (sizes.iter().map(|s| stats.descriptors(*s)).sum(), stats.tlb_entries(g));
        let cost = Cost { descriptors, tlb_entries, tables: stats.tables };
        (cost, Map::new(machine, g, &layout, leaves))
    })
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn no_tiling_of_the_pages_is_better(machine in small_machines(), leaves in leaves()) {
        for g in geometries() {
            let machine = machine.scaled(g.page_size() >> 12);
            let Some((cost, map)) = planned(&machine, g, leaves) else { continue };
            prop_assert_eq!(cost, by_pages::fewest(&map), "{:?}", g);
        }
    }

    #[test]
    fn the_two_searches_agree(machine in small_machines(), leaves in leaves()) {
        for g in geometries().into_iter().step_by(7) {
            let machine = machine.scaled(g.page_size() >> 12);
            let Some((_, map)) = planned(&machine, g, leaves) else { continue };
            prop_assert_eq!(by_tree::fewest(&map), by_pages::fewest(&map), "{:?}", g);
        }
    }
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn no_cut_of_the_tree_is_better(machine in large_machines(), leaves in leaves()) {
        for g in geometries() {
            let Some((cost, map)) = planned(&machine, g, leaves) else { continue };
            prop_assert_eq!(cost, by_tree::fewest(&map), "{:?}", g);
        }
    }
}
