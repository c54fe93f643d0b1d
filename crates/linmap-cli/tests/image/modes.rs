//! Every mode and policy at every page size, with all CPUs at work: leaves change their size under them, one parking
//! at a time, and a map becomes pages while it is used. All of it with CPUs in turns; a part with CPUs at the same
//! time.

use linmap::Granule;

use crate::guest::{AMPERE_ONE, Booted, boot};
use crate::matrix::{MODES, Row, boot_and_compare, page_size};

/// The mode in which they do not.
const FIXED: Row = (&["--rodata", "on"], 1, "fixed");

fn parkings(booted: &Booted) -> u64 {
    booted.document.pointer("/parking/parkings").and_then(serde_json::Value::as_u64).unwrap_or_default()
}

fn all_modes(granule: Granule) {
    for (options, mode, policy) in MODES.into_iter().chain([FIXED]) {
        let what = format!("{granule} pages, {options:?}");
        let rodata = if policy == "fixed" { &[][..] } else { &["--rodata", "full"] };
        let tasks = ["--run", "dump,together,selftest", "--cpus", "4", "--count"];
        let booted = boot_and_compare(granule, 48, AMPERE_ONE, 2, &[options, rodata, &tasks].concat());
        let decided = (booted.number("/mode"), booted.text("/policy"), booted.number("/cpus"));
        assert_eq!(decided, (mode, policy, 4), "{what}");
        assert_eq!(booted.number("/tests/together/wrong"), 0, "{what}: {}", booted.console);
        assert_eq!(booted.number("/tests/together/cpus"), 4, "{what}");
        let least = match (mode, policy) {
            // Fewer if leaves are so large that other CPUs have pages in them, which keeps them split.
            (_, "park") => 20,
            (3, "pages") => 1,
            _ => 0,
        };
        let parked = parkings(&booted);
        assert!(parked >= least && (parked == 0) == (least == 0), "{what}: {parked} parkings");
        let repainted = booted.document.pointer("/windows/repaint").is_some();
        assert_eq!(repainted, (mode, policy) == (3, "pages"), "{what}");
    }
}

#[test]
fn modes_at_4k() {
    all_modes(Granule::K4);
}

#[test]
fn modes_at_16k() {
    all_modes(Granule::K16);
}

#[test]
fn modes_at_64k() {
    all_modes(Granule::K64);
}

/// A mode and a policy at each page size, by CPUs that run at the same time.
#[test]
fn at_the_same_time() {
    for (granule, (options, mode, policy)) in Granule::ALL.into_iter().zip([MODES[0], MODES[2], MODES[3]]) {
        let what = format!("{granule} pages, {options:?}");
        let fixed = ["--ram", "1G", "--cpus", "4", "--run", "together", "--page-size", page_size(granule)];
        let booted = boot(&[&fixed, options].concat()).expect_well(&what);
        assert_eq!((booted.number("/mode"), booted.text("/policy")), (mode, policy), "{what}");
        assert_eq!(booted.number("/tests/together/wrong"), 0, "{what}: {}", booted.console);
        assert_eq!(parkings(&booted) > 0, mode != 1, "{what}");
    }
}

/// The most CPUs, parked again and again.
#[test]
fn sixty_four_cpus_park() {
    for split in ["pages", "park"] {
        let fixed = ["--count", "--ram", "1G", "--cpus", "64", "--bbml2", "63", "--run", "cpus,selftest"];
        let options = [&fixed[..], &["--split", split]].concat();
        let booted = boot(&options).expect_well(split);
        assert_eq!((booted.number("/mode"), booted.text("/policy"), booted.number("/cpus")), (3, split, 64));
        assert!(parkings(&booted) > 0, "{}", booted.console);
    }
}

/// The time for which CPUs stop does not depend on the size of RAM or of a page.
#[test]
fn a_repaint_stops_cpus_for_a_moment() {
    for granule in Granule::ALL {
        for ram in ["4G", "64G"] {
            let fixed = ["--count", "--bbml2", "3", "--cpus", "4", "--run", "", "--ram", ram];
            let booted = boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat());
            let booted = booted.expect_well(ram);
            let stopped = booted.number("/windows/repaint/stopped_instructions");
            assert!(stopped <= 4000, "{granule} pages, {ram}: {stopped}");
        }
    }
}

/// The same where the root stays: its entries are stored, which may be leaves of 1G. Everything works afterwards.
#[test]
fn a_repaint_in_place_stops_cpus_for_a_moment() {
    for (page_size, va_bits, ram, entries) in
        [("4k", "48", "4G", 1), ("4k", "39", "64G", 64), ("16k", "47", "64G", 1), ("64k", "42", "4G", 8)]
    {
        let what = format!("{page_size} pages, {va_bits} bits, {ram}");
        let fixed = ["--count", "--bbml2", "3", "--cpus", "4", "--run", "cpus,selftest", "--ram", ram];
        let more = ["--page-size", page_size, "--va-bits", va_bits, "--append", "root=stays"];
        let booted = boot(&[&fixed[..], &more].concat()).expect_well(&what);
        assert_eq!((booted.number("/mode"), booted.text("/policy")), (3, "pages"), "{what}");
        assert_eq!(booted.number("/windows/repaint/root_entries"), entries, "{what}");
        let stopped = booted.number("/windows/repaint/stopped_instructions");
        assert!(stopped <= 4000, "{what}: {stopped}");
    }
}

/// One page is taken out of a block while all other CPUs are parked.
#[test]
fn a_parked_split_takes_a_few_stores() {
    for granule in Granule::ALL {
        let fixed = ["--count", "--bbml2", "off", "--split", "park", "--cpus", "8", "--run", "bench"];
        let booted = boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat()).expect_well("8 CPUs");
        let park = |key| booted.number(&format!("/windows/park/{key}"));
        assert_eq!(park("cpus"), 8);
        assert!(park("instructions") <= 100, "{}", park("instructions"));
        assert!(park("stopped_instructions") > park("instructions"));
    }
}
