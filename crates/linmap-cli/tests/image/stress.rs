//! Random changes of the map by all CPUs; permissions by mode and policy; the crash kernel's memory.

use linmap::Granule;
use test_support::{Random, Rows, is_one};

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};
use crate::matrix::{MODES, Row, page_size};

/// The mode in which they do not.
const FIXED: Row = (&["--cpu", MAX, "--rodata", "on"], 2, "fixed");

/// Fails unless so many operations were done, each page has its expected permissions, and nothing is lost.
fn expect_stressed(booted: &Booted, operations: u64, what: &str) {
    let number = |key| booted.number(&format!("/stress/{key}"));
    assert_eq!((number("operations"), number("faults_wrong")), (operations, 0), "{what}: {}", booted.console);
    assert_eq!(booted.number("/tests/stress/wrong"), 0, "{what}: {}", booted.console);
    assert!(number("faults_expected") > number("probes") / 4, "{what}: {}", booted.at("/stress"));
    assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
}

/// With CPUs in turns, which is fast. The frame source refuses pages in the second half, which ends some operations.
fn all_modes(granule: Granule) {
    let mut modes = Rows::new();
    let mut refused = 0;
    for row in MODES.into_iter().chain([FIXED]) {
        refused += modes.row(|seed| in_mode(granule, row, seed)).unwrap_or(0);
    }
    assert!(refused > 0 || granule != Granule::K4 || is_one(), "no operation ran out of table pages");
}

/// Returns how many operations ran out of table pages.
fn in_mode(granule: Granule, (options, mode, policy): Row, seed: u64) -> u64 {
    // Enough RAM for the leaves of the scratch range to be blocks. To fill it with pages takes time.
    let more = if policy == "pages" { 29 } else { 509 };
    let ram = format!("{}G", 3 + Random::new(seed).size(more));
    let machine = ["--ram", &ram, "--count", "--crashkernel", "64M", "--page-size", page_size(granule)];
    let run = format!("modes,crash,stress:1000:{seed}");
    let what = format!("{granule} pages, {ram}, {options:?}, {run}");
    let booted = boot(&[&machine[..], options, &["--run", &run]].concat()).expect_well(&what);
    let decided = (booted.number("/mode"), booted.text("/policy"), booted.number("/cpus"));
    assert_eq!(decided, (mode, policy, 4), "{what}");
    expect_stressed(&booted, 1000, &what);
    assert_eq!(booted.number("/stress/needs_resize") > 0, policy == "fixed", "{what}");

    let [splits, parkings] = ["splits", "parkings"].map(|key| booted.number(&format!("/tests/modes/{key}")));
    assert_eq!(splits > 0, matches!(policy, "live" | "park"), "{what}");
    assert_eq!(parkings > 0, policy == "park", "{what}");
    let crash = |key| booted.number(&format!("/tests/crash/{key}"));
    assert_eq!((crash("bytes"), crash("left")), (64 << 20, (32 << 20) + granule.page_size()), "{what}");
    let names: Vec<&str> =
        booted.at("/tests/names").as_array().into_iter().flatten().filter_map(|n| n.as_str()).collect();
    assert_eq!(names, ["self-check", "modes", "crash", "stress"], "{what}");
    assert_eq!((booted.number("/tests/passed"), booted.number("/tests/failed")), (4, 0), "{what}");
    booted.number("/stress/out_of_frames")
}

#[test]
fn at_random_at_4k() {
    all_modes(Granule::K4);
}

#[test]
fn at_random_at_16k() {
    all_modes(Granule::K16);
}

#[test]
fn at_random_at_64k() {
    all_modes(Granule::K64);
}

/// The reservation stays in pages, although changes before it have been collapsed: with little RAM it shares its tables with
/// what changes.
#[test]
fn a_collapse_leaves_the_crash_kernels_pages() {
    for granule in Granule::ALL {
        let fixed = ["--cpus", "4", "--ram", "2G", "--crashkernel", "64M", "--run", "early,crash"];
        let what = format!("{granule} pages");
        let booted = boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat()).expect_well(&what);
        assert_eq!(booted.number("/tests/crash/bytes"), 64 << 20, "{what}: {}", booted.console);
    }
}

/// With CPUs at the same time.
#[test]
fn at_random_and_at_once() {
    let mut modes = Rows::new();
    for (split, granule) in [("pages", Granule::K64), ("park", Granule::K4)] {
        for bbml2 in ["auto", "off"] {
            modes.row(|seed| {
                let run = format!("stress:400:{seed}");
                let ram = format!("{}G", Random::new(seed).size(16));
                let fixed = ["--ram", &ram, "--cpus", "4", "--data", "hidden", "--run", &run];
                let more = ["--bbml2", bbml2, "--split", split, "--page-size", page_size(granule)];
                let booted = boot(&[&fixed[..], &more].concat()).expect_well(split);
                expect_stressed(&booted, 400, &format!("{more:?}, {run}"));
            });
        }
    }
}

/// On one CPU a seed is a sequence, step by step, up to the point from which pages are refused.
#[test]
fn a_seed_is_a_sequence() {
    let stress = |run| {
        let booted = boot(&["--ram", "1G", "--cpus", "1", "--cpu", AMPERE_ONE, "--run", run]);
        let booted = booted.expect_well(run);
        let again = ["digest", "probes", "faults_expected", "out_of_frames"];
        again.map(|key| booted.at(&format!("/stress/{key}")).clone())
    };
    let first = stress("stress:4000:7");
    assert_eq!(stress("stress:4000:7"), first);
    assert_ne!(stress("stress:4000:8")[0], first[0]);
}

/// The seed draws how much RAM there is. QEMU reserves none of it on the host.
#[test]
fn at_random_with_any_amount_of_ram() {
    test_support::each(3, |seed| {
        let random = &mut Random::new(seed);
        let (granule, (options, _, policy)) = (random.of(&Granule::ALL), random.of(&MODES));
        // Pages take memory and time.
        let most = if policy == "pages" { 16 } else { 512 };
        let (ram, run) =
            (format!("{}G", random.size(most)), format!("stress:1000:{}", random.below(1 << 32)));
        let all = ["--count", "--page-size", page_size(granule), "--ram", &ram, "--run", &run];
        let what = format!("{all:?}, {options:?}");
        expect_stressed(&boot(&[&all[..], options].concat()).expect_well(&what), 1000, &what);
    });
}

/// From hardly any RAM to more than there is, at any VA size.
#[test]
fn at_random_with_little_ram_and_at_the_ends_of_addresses() {
    let mut machines = Rows::new();
    for (granule, va_bits, ram) in [
        (Granule::K4, "48", "16M"),
        (Granule::K64, "48", "16M"),
        (Granule::K4, "36", "4G"),
        (Granule::K64, "52", "64G"),
    ] {
        machines.row(|seed| {
            let run = format!("crash,modes,stress:1000:{seed}");
            let fixed = ["--count", "--crashkernel", "3M", "--run", &run];
            let more = ["--page-size", page_size(granule), "--va-bits", va_bits, "--ram", ram];
            let booted = boot(&[&fixed[..], &more].concat()).expect_well(ram);
            expect_stressed(&booted, 1000, &format!("{more:?}, {run}"));
        });
    }
}
