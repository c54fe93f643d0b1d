//! Work over RAM in pages and in large leaves: every cell of the plan ran as often as planned, under every policy, and no
//! result was wrong. Times are not looked at.

use kernel_plan::measure::{Cell, Effort, Map, cells};
use serde_json::Value;

use crate::guest::{AMPERE_ONE, Booted, MAX, boot};

/// The CPUs: as many as parkings are quick with.
const CPUS: u64 = 2;

/// Boots two CPUs with 1 GiB of RAM and these options.
fn measured(options: &[&str]) -> Booted {
    let all = ["--run", "measure", "--ram", "1G", "--cpus", "2"];
    let booted = boot(&[&all[..], options].concat()).expect_well(&format!("{options:?}"));
    assert_eq!(booted.number("/tests/measure/wrong"), 0, "{options:?}: {}", booted.console);
    assert_eq!(
        (booted.at("/measure/emulated"), booted.text("/measure/effort")),
        (&Value::from(true), "quick")
    );
    assert!(booted.says("measure: this CPU is emulated: its times mean nothing"), "{}", booted.console);
    booted
}

/// Every cell has as many turns and steps as planned over these maps, and no other is there.
fn expect_plan(booted: &Booted, maps: &[Map]) {
    let planned: Vec<Cell> = cells(Effort::Quick, booted.number("/measure/bytes"), CPUS).collect();
    let found = booted.at("/measure/cells").as_object().expect("an object");
    assert_eq!(found.len(), planned.len());
    for cell in &planned {
        let name = format!("{}-{}-{}", cell.work.name(), cell.bytes(), cell.cpus);
        let found = &found[&name];
        assert_eq!(
            (&found["steps"], &found["wrong"]),
            (&(cell.steps * cell.cpus).into(), &0.into()),
            "{name}"
        );
        for map in Map::ALL {
            let turns = if maps.contains(&map) { Value::from(cell.turns) } else { Value::Null };
            assert_eq!(found[map.name()]["turns"], turns, "{name}: {found}");
        }
    }
    let turns: usize = planned.iter().map(|cell| cell.turns * maps.len()).sum();
    let steps: u64 = planned.iter().map(|c| c.steps * c.cpus * (c.turns * maps.len()) as u64).sum();
    assert_eq!(
        (booted.number("/tests/measure/turns"), booted.number("/tests/measure/steps")),
        (turns as u64, steps)
    );
}

/// These changes of the map were timed, three times each, and no other.
fn expect_changes(booted: &Booted, names: &[&str]) {
    let changes = booted.at("/measure/changes").as_object().expect("an object");
    assert_eq!(changes.keys().collect::<Vec<_>>(), names);
    for (name, change) in changes {
        let ns: Vec<_> = change["ns"].as_array().expect("times").iter().map(Value::as_u64).collect();
        assert!(ns.len() == 5 && ns.is_sorted() && change["times"] == 3, "{name}: {change}");
    }
}

/// All that are timed where leaves may be split.
const CHANGES: [&str; 8] = [
    "create_pages",
    "create_large",
    "park",
    "split",
    "collapse",
    "split_loaded",
    "collapse_loaded",
    "repaint",
];

#[test]
fn each_work_runs_as_planned_over_both_maps() {
    let live = measured(&["--cpu", AMPERE_ONE]);
    expect_plan(&live, &Map::ALL);
    expect_changes(&live, &CHANGES);
    assert_eq!(live.number("/measure/leaf_bytes/large"), 32 << 20);
    let park = measured(&["--cpu", MAX, "--split", "park", "--page-size", "16k"]);
    expect_plan(&park, &Map::ALL);
    expect_changes(&park, &CHANGES);
    assert!(park.number("/parking/parkings") > 0);
}

/// A repaint puts all into pages, and what is collapsed afterwards leaves the crash kernel's memory there: the image compares the
/// leaves of each size with those before.
#[test]
fn the_crash_kernels_memory_stays_in_pages() {
    for size in ["4k", "16k"] {
        let booted = measured(&["--append", "crashkernel=64M", "--page-size", size]);
        expect_changes(&booted, &CHANGES);
        let pages = booted
            .at("/linear/leaves")
            .as_array()
            .expect("leaves")
            .iter()
            .filter(|leaf| leaf["size"] == booted.document["page_size"] && leaf["contiguous"] == false);
        let pages: u64 = pages.filter_map(|leaf| leaf["descriptors"].as_u64()).sum();
        assert!(pages * booted.number("/page_size") >= 64 << 20, "{:#}", booted.at("/linear"));
    }
}

/// Where the policy has no large leaves, or does not split them, the other map is not measured.
#[test]
fn a_policy_with_one_map_measures_that_one() {
    for (options, map) in [(["--page-size", "64k"], Map::Pages), (["--rodata", "on"], Map::Large)] {
        let booted = measured(&[&["--cpu", MAX], &options[..]].concat());
        expect_plan(&booted, &[map]);
        expect_changes(&booted, &CHANGES[..3]);
    }
}
