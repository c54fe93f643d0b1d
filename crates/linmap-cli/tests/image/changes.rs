//! Changes of the map while it is in use: their effect in the MMU, and their cost.

use linmap::Granule;
use serde_json::Value;

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};
use crate::matrix::page_size;

/// Pages are used, changed and probed at every place in a leaf; if leaves cannot change their size, that is refused.
/// In the end the map is what it was.
#[test]
fn what_is_changed_is_changed_and_nothing_else() {
    for granule in Granule::ALL {
        for (cpu, ram, more, policy) in [
            (AMPERE_ONE, "4G", &[][..], "live"),
            (AMPERE_ONE, "3G", &["--va-bits", "52"], "live"),
            (MAX, "1G", &[], "pages"),
            (MAX, "4G", &["--rodata", "on"], "fixed"),
        ] {
            let fixed = ["--run", "selftest", "--page-size", page_size(granule), "--cpu", cpu, "--ram", ram];
            let what = format!("{granule} pages, {cpu}, {ram}, {more:?}");
            let booted = boot(&[&fixed[..], more].concat()).expect_well(&what);
            assert_eq!(booted.text("/policy"), policy, "{what}");
            assert_eq!(booted.number("/tests/selftest/wrong"), 0, "{what}");
            let least = if (granule, policy) == (Granule::K64, "pages") { 35 } else { 40 };
            assert!(booted.number("/tests/selftest/tried") >= least, "{what}: {}", booted.console);
            assert_eq!(booted.number("/tests/self-check/findings"), 0, "{what}");
        }
    }
}

/// The least RAM leaves room for a part of it.
#[test]
fn little_ram_is_enough() {
    for granule in Granule::ALL {
        boot(&["--run", "selftest,bench", "--page-size", page_size(granule), "--ram", "8M"])
            .expect_well("8M");
    }
}

/// The windows of break-before-make.
const OF_REMAKES: [&str; 2] = ["remake_page", "remake_pages"];

/// The windows of each boot.
const OF_CREATION: [&str; 7] =
    ["layout", "identity_build", "switch", "create", "identity_discard", "image_map", "create_all"];

/// Those of RAM that comes and goes.
const OF_HOTPLUG: [&str; 3] = ["create_64g", "hot_add", "hot_remove"];

/// The expected counts of a window: the leaf, barriers and invalidations.
struct Expected {
    name: &'static str,
    leaf_bytes: u64,
    dsb: u64,
    /// The instructions that Linux takes for the same, if they were counted.
    linux: Option<u64>,
}

const fn expected(name: &'static str, leaf_bytes: u64, dsb: u64, linux: Option<u64>) -> Expected {
    Expected { name, leaf_bytes, dsb, linux }
}

/// A third barrier if a table is built or a run is dissolved, one invalidation for one page or for one table, and
/// never as many instructions as Linux takes.
#[test]
fn a_change_costs_as_little_as_it_can() {
    const M: u64 = 1 << 20;
    let cases: [(Granule, &[Expected]); 3] = [
        (
            Granule::K4,
            &[
                expected("protect_l1", 1 << 30, 3, Some(23_361)),
                expected("protect_l2", 2 * M, 3, Some(12_784)),
                expected("protect_run", 64 << 10, 3, Some(1_060)),
                expected("protect_page", 4 << 10, 2, Some(755)),
                expected("collapse_l2", 2 * M, 2, None),
            ],
        ),
        (
            Granule::K16,
            &[
                expected("protect_l2", 32 * M, 3, Some(46_556)),
                expected("protect_run", 2 * M, 3, None),
                expected("protect_page", 16 << 10, 2, None),
                expected("collapse_l2", 32 * M, 2, None),
            ],
        ),
        (
            Granule::K64,
            &[
                expected("protect_l2", 512 * M, 3, None),
                expected("protect_run", 2 * M, 3, None),
                expected("protect_page", 64 << 10, 2, None),
                expected("collapse_l2", 512 * M, 2, None),
            ],
        ),
    ];
    for (granule, expected) in cases {
        let options = ["--count", "--run", "bench", "--page-size", page_size(granule), "--ram", "12G"];
        let booted = boot(&options).expect_well("counted");
        let others = OF_CREATION.len() + OF_HOTPLUG.len() + OF_REMAKES.len();
        assert_eq!(windows(&booted).len(), expected.len() + others, "{:#}", booted.at("/windows"));
        // A creation builds off line, and an addition beside leaves of every size. Neither visits a page.
        let [create, add, remove] =
            OF_HOTPLUG.map(|name| booted.number(&format!("/windows/{name}/instructions")));
        println!("{granule}: {create} instructions create 64G, {add} add and {remove} remove it");
        let pages = (64 << 30) >> granule.page_shift();
        assert!(create.max(add).max(remove) < pages / 3, "{create}, {add} and {remove} instructions");
        assert_eq!(booted.number("/windows/create_64g/tlbi"), 0);
        for Expected { name, leaf_bytes, dsb, linux } in expected {
            let window = booted.at(&format!("/windows/{name}"));
            let [found_bytes, found_dsb, isb, tlbi, instructions] =
                ["leaf_bytes", "dsb", "isb", "tlbi", "instructions"].map(|key| window[key].as_u64());
            let found = (found_bytes, found_dsb, isb, tlbi);
            assert_eq!(found, (Some(*leaf_bytes), Some(*dsb), Some(1), Some(1)), "{granule} {name}");
            let instructions = instructions.expect("counted");
            println!("{granule} {name}: {instructions} instructions");
            assert!(instructions > 100 && linux.is_none_or(|linux| instructions < linux), "{name}: {window}");
        }
        for name in OF_REMAKES {
            let window = booted.at(&format!("/windows/{name}"));
            let [dsb, isb, tlbi] = ["dsb", "isb", "tlbi"].map(|key| window[key].as_u64().expect("counted"));
            println!("{granule} {name}: {window}");
            // Cut, out, back; one batch.
            assert_eq!((dsb, isb), (7, 2), "{granule} {name}");
            assert!((1..=4).contains(&tlbi), "{granule} {name}: {tlbi}");
        }
        assert_eq!(booted.at("/tests/bench-restore/ok"), true);
        assert_eq!(booted.number("/tests/bench-restore/refused"), 0);
    }
}

/// If no leaf changes its size, there is little to count, and the report has no more.
#[test]
fn what_the_policy_rules_out_is_not_counted() {
    let pages = boot(&["--run", "bench", "--cpu", MAX, "--ram", "1G"]).expect_well("in pages");
    let names: Vec<&str> = windows(&pages).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [&OF_CREATION[..], &["protect_page"], &OF_HOTPLUG].concat());
    assert!(pages.at("/windows/protect_page/instructions").is_null());
    let fixed = boot(&["--run", "bench", "--rodata", "on", "--ram", "4G"]).expect_well("fixed");
    assert_eq!(windows(&fixed).len(), OF_CREATION.len());
    assert!(fixed.says("run=bench: the policy is fixed"), "{}", fixed.console);
    assert!(fixed.number("/tests/bench-restore/refused") > 9_000, "{:#}", fixed.at("/tests"));
}

fn windows(booted: &Booted) -> Vec<(&str, &Value)> {
    let windows = booted.at("/windows").as_object().expect("an object");
    windows.iter().map(|(name, window)| (name.as_str(), window)).collect()
}
