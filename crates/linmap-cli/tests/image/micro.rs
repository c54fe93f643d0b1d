//! Single uses of page tables, counted: all of them at every page size, the same in every run, and nothing is left.

use linmap::Granule;
use serde_json::Value;

use crate::fixed::{FIXED, image};
use crate::guest::{Booted, boot};
use crate::matrix::page_size;

const WINDOWS: [&str; 30] = [
    "layout",
    "identity_build",
    "switch",
    "create",
    "identity_discard",
    "image_map",
    "create_all",
    "map_page",
    "unmap_page",
    "module_load_first",
    "module_unload_first",
    "module_load",
    "module_unload",
    "module_load_beside",
    "module_unload_beside",
    "trim",
    "free_each",
    "free_together",
    "set_memory_ro",
    "set_memory_rw",
    "churn_1",
    "churn_16",
    "churn_512",
    "walk",
    "build_tables",
    "walk_all",
    "walk_pages",
    "copy_tables",
    "unmap_tables",
    "copy_tables_adjacent",
];

/// Boots with the least RAM for all of them, and these options.
fn micro(granule: Granule, options: &[&str]) -> Booted {
    let all = ["--run", "micro", "--ram", "1G", "--page-size", page_size(granule)];
    let what = format!("{granule} pages, {options:?}");
    let booted = boot(&[&all[..], options].concat()).expect_well(&what);
    assert_eq!(booted.number("/tests/micro/wrong"), 0, "{what}: {}", booted.console);
    assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
    assert_eq!(windows(&booted).collect::<Vec<_>>(), WINDOWS, "{what}: {}", booted.console);
    booted
}

/// Returns the windows in the order in which they were counted; a repaint belongs to the boot.
fn windows(booted: &Booted) -> impl Iterator<Item = &str> {
    let names = booted.at("/windows").as_object().expect("an object").keys().map(String::as_str);
    names.filter(|name| *name != "repaint")
}

/// Each page is in the copy, and each table is freed with its last page.
fn expect_tables(booted: &Booted, granule: Granule) {
    let page = 1 << granule.page_shift();
    let (leaves, last_tables) = ((1 << 30) / page, (1 << 30) / page / (page / 8));
    let number = |name: &str, key: &str| booted.number(&format!("/windows/{name}/{key}"));
    for name in ["copy_tables", "copy_tables_adjacent"] {
        let copied = ["leaves", "source_leaves"].map(|key| number(name, key));
        assert_eq!(copied, [leaves; 2], "{granule} {name}");
    }
    for name in ["walk_all", "unmap_tables"] {
        assert_eq!(number(name, "leaves"), leaves, "{granule} {name}");
    }
    let tables = number("copy_tables", "tables");
    assert!((last_tables + 1..=last_tables + 3).contains(&tables), "{granule}: {tables}");
    let unmapped = ["tables_before", "tables_after"].map(|key| number("unmap_tables", key));
    assert_eq!(unmapped, [tables, 1], "{granule}");
    for (load, unload) in [("module_load", "module_unload"), ("module_load_beside", "module_unload_beside")] {
        assert_eq!(number(load, "tables_before"), number(unload, "tables_after"), "{granule}");
    }
    // The first takes a table that stays for the next, until it is given back.
    let first = number("module_load_first", "tables_before");
    for name in ["module_unload_first", "module_unload"] {
        assert_eq!(number(name, "tables_after"), first + 1, "{granule} {name}");
    }
    let trimmed = ["tables_before", "tables_after"].map(|key| number("trim", key));
    assert_eq!(trimmed, [first + 1, first], "{granule}");
}

fn counted_at(granule: Granule) {
    let options = ["--count", "--cpus", "1"];
    let counted = [(); 2].map(|()| micro(granule, &options));
    let [first, second] = [0, 1].map(|n: usize| counted[n].at("/windows"));
    assert_eq!(first, second, "counts repeat exactly");
    for (name, window) in first.as_object().expect("an object") {
        println!("{granule} {name}: {window}");
        assert!(window["instructions"].as_u64().is_some_and(|n| n > 100), "{granule} {name}: {window}");
    }
    expect_tables(&counted[0], granule);
    if granule == FIXED {
        // The same source, built for one page size.
        let fixed = micro(granule, &[&options[..], &["--image", &image()]].concat());
        expect_tables(&fixed, granule);
    }
}

#[test]
fn micro_at_4k() {
    counted_at(Granule::K4);
}

#[test]
fn micro_at_16k() {
    counted_at(Granule::K16);
}

#[test]
fn micro_at_64k() {
    counted_at(Granule::K64);
}

/// Without counts, and with leaves that have to change their size.
#[test]
fn micro_under_every_policy() {
    for (options, policy) in [
        (["--bbml2", "off", "--split", "pages"], "pages"),
        (["--bbml2", "off", "--split", "park"], "park"),
        (["--bbml2", "boot-cpu", "--split", "pages"], "pages"),
        (["--bbml2", "off", "--rodata", "on"], "fixed"),
    ] {
        for granule in Granule::ALL {
            let booted = micro(granule, &options);
            assert_eq!(booted.text("/policy"), policy, "{granule} pages, {options:?}");
            assert!(booted.at("/windows/walk/instructions").is_null());
            expect_tables(&booted, granule);
        }
    }
}

/// A use without enough RAM is left out, and named.
#[test]
fn what_does_not_fit_is_named() {
    let booted = boot(&["--run", "micro", "--ram", "64M", "--page-size", "64k"]).expect_well("64M");
    assert!(booted.says("warning: set_memory_ro, set_memory_rw: not counted, as"), "{}", booted.console);
    assert!(!windows(&booted).any(|name| name.starts_with("set_memory")), "{:#}", booted.at("/windows"));
    assert_eq!(booted.at("/windows/copy_tables/leaves"), &Value::from(16_384));
}
