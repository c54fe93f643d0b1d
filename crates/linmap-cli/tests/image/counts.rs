//! The exact cost of creating the map.

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};

/// No invalidation and no barrier for each entry, whatever the size of RAM; the same in every run.
#[test]
fn creation_is_counted_exactly_and_needs_no_invalidation() {
    for (cpu, page_size) in [(AMPERE_ONE, "4k"), (MAX, "4k"), (AMPERE_ONE, "64k"), (MAX, "16k")] {
        let options = ["--count", "--run", "", "--cpu", cpu, "--page-size", page_size, "--ram", "16G"];
        let booted = [(); 2].map(|()| boot(&options).expect_well("a counted run"));
        let window =
            |name: &str| booted.each_ref().map(|booted| booted.at(&format!("/windows/{name}")).clone());
        let (counted, all) = (window("create"), window("create_all"));
        assert_eq!(counted[0], counted[1], "counts repeat exactly");
        // The way to the first map and from the temporary one, one invalidation each, are in the full sum.
        assert_eq!(all[0], all[1], "counts repeat exactly");
        assert_eq!((&all[0]["tlbi"], &all[0]["dsb"], &all[0]["isb"]), (&2.into(), &6.into(), &7.into()));
        assert_eq!(all[0]["instructions"].as_u64(), Some(sum_of_steps(&booted[0])));
        assert_eq!(
            (&counted[0]["tlbi"], &counted[0]["dsb"], &counted[0]["isb"]),
            (&0.into(), &2.into(), &1.into())
        );
        let instructions = counted[0]["instructions"].as_u64().expect("counted");
        assert!(instructions > 100, "{instructions} instructions cannot have made a map");
    }
}

/// Returns the instructions of all steps of a creation.
fn sum_of_steps(booted: &Booted) -> u64 {
    ["layout", "identity_build", "switch", "create", "identity_discard"]
        .map(|step| booted.number(&format!("/windows/{step}/instructions")))
        .iter()
        .sum()
}

/// Each page costs less than two instructions; large leaves cost next to nothing.
#[test]
fn creation_is_linear_in_pages_and_flat_in_blocks() {
    let instructions = |cpu: &str, ram: &str| {
        let booted = boot(&["--count", "--run", "", "--cpu", cpu, "--ram", ram]).expect_well(ram);
        booted.number("/windows/create/instructions")
    };
    let (small, large) = (instructions(MAX, "8G"), instructions(MAX, "16G"));
    let pages = (8 << 30) / 4096;
    assert!(large - small < 2 * pages, "{small} for 8G, {large} for 16G");
    let (small, large) = (instructions(AMPERE_ONE, "8G"), instructions(AMPERE_ONE, "16G"));
    assert!(large < small + 1000, "{small} for 8G, {large} for 16G");
}

/// Without --count nothing is counted, and the report says so instead of 0.
#[test]
fn what_is_not_counted_is_null() {
    let booted = boot(&["--run", "", "--ram", "1G"]).expect_well("uncounted");
    assert!(booted.at("/windows/create/instructions").is_null());
}
