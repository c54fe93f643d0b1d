//! All libraries make, change and read the same maps, or refuse.

use linmap::Granule;
use linmap::arch::Level;

use super::Lacks;
use crate::host::{Case, LIBRARIES, Operation, Plan, Pool};

const GIB: u64 = 1 << 30;

/// Measures a sample with each library and compares the leaves with the plan.
fn all(operation: Operation, granule: Granule, level: i8, bytes: u64) -> Vec<Result<f64, Lacks>> {
    let plan = Plan::new(granule, Level::new(level), bytes);
    let case = Case { copies: 2, turns: 2, ..Case::new(operation, plan) };
    let pool = Pool::new(plan.geometry, case.pages());
    LIBRARIES.iter().map(|(_, sample)| sample(&pool, &case, true).map(|cost| cost.ns)).collect()
}

#[test]
fn all_libraries_make_the_maps_that_are_planned() {
    for (level, bytes) in [(3, GIB + (6 << 20)), (2, 3 * GIB + (8 << 20)), (1, 5 * GIB)] {
        for operation in [Operation::Create, Operation::Protect] {
            for result in all(operation, Granule::K4, level, bytes) {
                assert!(result.expect("all can do that") > 0.0);
            }
        }
    }
}

#[test]
fn blocks_are_split_and_pages_collapse() {
    for operation in [Operation::ProtectParts, Operation::Split, Operation::Collapse] {
        let can: Vec<_> = all(operation, Granule::K4, 2, GIB).iter().map(Result::is_ok).collect();
        assert!(can[0]);
        assert_eq!(can[1], operation == Operation::ProtectParts, "aarch64-paging: {operation:?}");
        assert!(!can[2..].contains(&true), "{operation:?}");
    }
}

#[test]
fn walks_and_look_ups_find_what_is_mapped() {
    for level in [1, 2, 3] {
        let walks: Vec<_> =
            all(Operation::Walk, Granule::K4, level, 2 * GIB).iter().map(Result::is_ok).collect();
        assert_eq!(walks[..3], [true; 3]);
        assert!(all(Operation::LookUp, Granule::K4, level, 2 * GIB).iter().all(Result::is_ok));
    }
}

#[test]
fn larger_pages_are_for_linmap_alone() {
    for granule in [Granule::K16, Granule::K64] {
        for operation in [Operation::Create, Operation::Protect, Operation::Walk] {
            let can: Vec<_> = all(operation, granule, 3, 4 * GIB).iter().map(Result::is_ok).collect();
            assert!(can[0] && !can[1..].contains(&true));
        }
        assert!(all(Operation::Split, granule, 2, 4 * GIB)[0].is_ok());
    }
}
