//! Memory that changes its type, and the bit of its address, by break-before-make, while other CPUs run.

use linmap::Granule;

use crate::guest::boot;
use crate::matrix::page_size;

/// The options on CPUs and splits, and the policy that follows.
const ROWS: [(&[&str], &str); 3] = [
    (&["--bbml2", "auto"], "live"),
    (&["--bbml2", "off", "--split", "pages"], "pages"),
    (&["--bbml2", "off", "--split", "park"], "park"),
];

const TASKS: [&str; 6] = ["--ram", "256M", "--cpus", "4", "--run", "retype,realm"];

fn all_policies(granule: Granule) {
    for (options, policy) in ROWS {
        let what = format!("{granule} pages, {options:?}");
        let fixed = ["--page-size", page_size(granule)];
        let booted = boot(&[&fixed[..], options, &TASKS].concat()).expect_well(&what);
        assert_eq!(booted.text("/policy"), policy, "{what}");
        // Ten rounds of three types; ten of sharing, in five of which the monitor refuses once.
        let [remakes, shared, calls] =
            ["retype/remakes", "realm/shared", "realm/calls"].map(|n| booted.number(&format!("/tests/{n}")));
        assert_eq!((remakes, shared, calls), (30, 10, 25), "{what}: {}", booted.console);
        for test in ["retype", "realm"] {
            assert_eq!(booted.number(&format!("/tests/{test}/wrong")), 0, "{what}: {}", booted.console);
        }
        assert!(booted.number("/tests/retype/accesses") > 0, "{what}");
        let [faults, told] = ["faults", "told"].map(|n| booted.number(&format!("/tests/retype/{n}")));
        assert!(told <= faults, "{what}: {told} of {faults}");
        assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
    }
}

#[test]
fn remakes_at_4k() {
    all_policies(Granule::K4);
}

#[test]
fn remakes_at_16k() {
    all_policies(Granule::K16);
}

#[test]
fn remakes_at_64k() {
    all_policies(Granule::K64);
}

/// Where no leaf changes its size, an alias does not come out of one: that is refused, and nothing has changed.
#[test]
fn what_the_policy_rules_out_is_refused() {
    let options = ["--rodata", "on", "--ram", "4G", "--run", "retype,realm"];
    let booted = boot(&options).expect_well("fixed");
    assert_eq!((booted.text("/policy"), booted.number("/tests/retype/wrong")), ("fixed", 0));
    assert_eq!(booted.number("/tests/realm/shared"), 0);
}
