//! Pages go out of the linear map and come back: what CPUs see, and what it costs.

use linmap::Granule;

use crate::guest::{AMPERE_ONE, MAX, boot};
use crate::loader::Loader;
use crate::matrix::page_size;

/// Whatever leaves there are, and whether CPUs have to be parked to split them.
#[test]
fn pages_go_and_come_back() {
    for granule in Granule::ALL {
        for (cpu, policy, more) in [
            (AMPERE_ONE, "live", &[][..]),
            (AMPERE_ONE, "live", &["--va-bits", "52"]),
            (MAX, "pages", &[]),
            (MAX, "park", &["--split", "park"]),
        ] {
            let fixed = ["--run", "pagealloc", "--cpus", "4", "--ram", "4G", "--cpu", cpu];
            let what = format!("{granule} pages, {cpu}, {more:?}");
            let options = [&fixed[..], &["--page-size", page_size(granule)], more].concat();
            let booted = boot(&options).expect_well(&what);
            assert_eq!(booted.text("/policy"), policy, "{what}");
            assert_eq!(booted.number("/tests/pagealloc/wrong"), 0, "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/pagealloc/rounds"), 4 * 300, "{what}");
            assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
        }
    }
}

/// Invalidations are the flush's alone, and what comes back needs none. The control is the flush.
#[test]
fn what_goes_is_invalidated_once() {
    for granule in Granule::ALL {
        let options = ["--count", "--run", "pagealloc", "--page-size", page_size(granule), "--ram", "4G"];
        let booted = boot(&options).expect_well("counted");
        let count = |window: &str, key: &str| booted.number(&format!("/windows/{window}/{key}"));
        for name in
            ["pages_out", "pages_back", "pages_apart_out", "pages_apart_back", "page_out", "page_back"]
        {
            assert_eq!(count(name, "tlbi"), 0, "{granule} {name}");
        }
        assert_eq!([count("pages_flush", "tlbi"), count("page_flush", "tlbi")], [1, 1], "{granule}");
        assert_eq!([count("pages_apart_flush", "dsb"), count("pages_flush", "dsb")], [2, 2], "{granule}");
        for name in ["pages_out", "pages_back"] {
            assert!(count(name, "instructions") <= 12 * 512, "{granule} {name}");
        }
    }
}

/// Where leaves cannot change their size, none is cut.
#[test]
fn a_fixed_map_stays() {
    let booted =
        boot(&["--run", "pagealloc", "--ram", "1G", "--rodata", "on", "--cpu", MAX]).expect_well("fixed");
    assert!(booted.says("run=pagealloc: the policy is fixed"), "{}", booted.console);
}

/// Where RAM has fewer pages than a task changes, the task is skipped.
#[test]
fn too_little_ram_is_no_failure() {
    let tasks = "pagealloc,bench,late,modes,selftest,stress:100,together,local";
    for granule in Granule::ALL {
        let line = format!("pagesize={} run={tasks}", page_size(granule));
        let loader = Loader::new().memory(&[(0x5000_0000, 1 << 20)]).bootargs(&line);
        let booted = loader.boot().expect_well(&format!("{granule} pages"));
        let skipped = "run=pagealloc: skipped, as it changes the map of 512 free pages";
        assert!(booted.says(skipped), "{}", booted.console);
    }
    let options = ["--run", "pagealloc", "--page-size", "64k", "--ram", "64M"];
    let booted = boot(&options).expect_well("few pages");
    assert!(booted.says("run=pagealloc: skipped"), "{}", booted.console);
}
