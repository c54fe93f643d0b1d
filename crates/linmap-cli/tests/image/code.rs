//! Areas mapped page by page, code among them: modules are loaded and unloaded, functions are probed, most of RAM is
//! read-only for a while. Code and read-only memory cannot be written by any of its addresses.

use linmap::Granule;
use serde_json::Value;

use crate::guest::{Booted, boot};
use crate::matrix::page_size;

/// The options on CPUs and splits, and the mode and the policy that follow.
const ROWS: [(&[&str], u64, &str); 4] = [
    (&["--bbml2", "auto"], 1, "live"),
    (&["--bbml2", "off", "--split", "pages"], 2, "pages"),
    (&["--bbml2", "off", "--split", "park"], 2, "park"),
    (&["--bbml2", "boot-cpu", "--split", "pages"], 3, "pages"),
];

const TASKS: [&str; 6] = ["--ram", "128M", "--cpus", "4", "--run", "modules,kprobes,vmalloc80"];

/// Runs all three tasks, in every mode and under every policy.
fn all_modes(granule: Granule) {
    for (options, mode, policy) in ROWS {
        let what = format!("{granule} pages, {options:?}");
        let fixed = ["--page-size", page_size(granule)];
        let booted = boot(&[&fixed[..], options, &TASKS].concat()).expect_well(&what);
        let decided = (booted.number("/mode"), booted.text("/policy"), booted.number("/cpus"));
        assert_eq!(decided, (mode, policy, 4), "{what}");
        expect_all(&booted, &what);
    }
}

/// Fails unless all three did their work and found nothing wrong.
fn expect_all(booted: &Booted, what: &str) {
    for test in ["modules", "kprobes", "vmalloc80"] {
        assert_eq!(booted.number(&format!("/tests/{test}/wrong")), 0, "{what}: {}", booted.console);
        assert!(booted.at(&format!("/tests/{test}/milliseconds")).is_u64(), "{what}");
    }
    let cpus = booted.number("/cpus");
    assert!(booted.number("/tests/modules/modules") >= 100, "{what}");
    assert!(booted.number("/tests/kprobes/hits") >= booted.number("/tests/kprobes/probes") * cpus, "{what}");
    assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
    let mapped = booted.number("/tests/vmalloc80/bytes");
    assert_eq!(booted.number("/tests/vmalloc80/written_bytes"), mapped, "{what}");
    assert!(mapped > booted.number("/memory/free_bytes") / 4 * 3, "{what}");
}

#[test]
fn code_at_4k() {
    all_modes(Granule::K4);
}

#[test]
fn code_at_16k() {
    all_modes(Granule::K16);
}

#[test]
fn code_at_64k() {
    all_modes(Granule::K64);
}

/// The fewest and the most address bits, one CPU and many, leaves that never change their size, and an image whose
/// alias is writable.
#[test]
fn code_on_other_machines() {
    for options in [
        ["--page-size", "4k", "--va-bits", "36", "--cpus", "1"],
        ["--page-size", "16k", "--va-bits", "52", "--cpus", "2"],
        ["--page-size", "64k", "--va-bits", "52", "--cpus", "3"],
        ["--page-size", "64k", "--rodata", "on", "--cpus", "4"],
        ["--page-size", "4k", "--rodata", "off", "--cpus", "2"],
        ["--page-size", "4k", "--machine", "gic-version=2", "--cpus", "6"],
    ] {
        let what = format!("{options:?}");
        expect_all(&boot(&[&TASKS[..], &options].concat()).expect_well(&what), &what);
    }
}

/// Two batches of invalidations if aliases change, one for all memory that is freed together, and as many tables
/// afterwards as before.
#[test]
fn what_the_area_costs() {
    // A table that a leaf is split into has 8192 entries at 64K.
    for (granule, leaf_bytes, most) in
        [(Granule::K4, 1 << 30, 21_000), (Granule::K16, 1 << 30, 21_000), (Granule::K64, 1 << 29, 29_000)]
    {
        let fixed = ["--count", "--run", "modules", "--ram", "12G", "--cpus", "1"];
        let booted = boot(&[&fixed[..], &["--page-size", page_size(granule)]].concat());
        let booted = booted.expect_well("counted");
        let window = |name: &str| -> &Value { booted.at(&format!("/windows/{name}")) };
        let number =
            |name: &str, key: &str| window(name)[key].as_u64().unwrap_or_else(|| panic!("{name} {key}"));
        for name in
            ["module_load", "module_unload", "module_load_beside", "module_unload_beside", "set_memory_ro"]
        {
            println!("{granule} {name}: {}", window(name));
        }
        let loaded = number("module_load", "tables_after");
        assert!(loaded > number("module_load", "tables_before"));
        assert_eq!(number("module_unload", "tables_before"), loaded);
        assert_eq!(number("module_unload", "tables_after"), number("module_load", "tables_before"));
        assert_eq!([number("module_load", "tlbi"), number("module_load_beside", "tlbi")], [2, 2]);
        assert_eq!(number("module_unload_beside", "tlbi"), 2);
        let frees = ["free_each", "free_together"];
        let [each, together] = frees.map(|name| (number(name, "tlbi"), number(name, "dsb")));
        // A table above the area's gigabytes goes in a hold of its own.
        assert!(together.0 * 2 < each.0 && together.1 <= 4, "{each:?}, {together:?}");
        // Linux: 495,184 instructions, 528 invalidations, at 4K.
        let made = ["pages", "leaf_bytes", "tlbi"].map(|key| number("set_memory_ro", key));
        assert_eq!(made, [512, leaf_bytes, 2]);
        assert!(number("set_memory_ro", "instructions") <= most, "{}", window("set_memory_ro"));
    }
}
