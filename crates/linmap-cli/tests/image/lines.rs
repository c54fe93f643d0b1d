//! The lines of memory that operations use, as the plugin of `make counts` counts them between the image's marks.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::guest::{Booted, boot, boot_with};

/// QEMU with the plugin.
const QEMU: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../linmap-judge/plugin/lines-qemu");

/// Builds the plugin, or says that nothing is tested.
fn plugin() -> Option<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dev/scripts/lines.sh");
    let output = Command::new(script).output().expect("the script runs");
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() {
        Some(0) => Some(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        Some(77) => {
            eprintln!("NOT TESTED: {}", said.trim());
            None
        }
        _ => panic!("{said}"),
    }
}

/// Boots under the plugin. Returns the counts of windows as well.
fn counted(plugin: &str, options: &[&str]) -> (Booted, Value) {
    let directory = TempDir::new().expect("a directory");
    let out = directory.path().join("lines.json");
    let out = out.to_str().expect("a name in UTF-8");
    let environment = [("LINMAP_LINES_PLUGIN", plugin), ("LINMAP_LINES_OUT", out)];
    let booted =
        boot_with(&[&["--qemu", QEMU], options].concat(), &environment).expect_well("with the plugin");
    let text = std::fs::read_to_string(out).expect("the plugin's counts");
    (booted, serde_json::from_str(&text).expect("JSON"))
}

/// One count of a window.
fn count(booted: &Booted, counts: &Value, window: &str, what: &str) -> u64 {
    let number = booted.number(&format!("/order/{window}")) as usize;
    counts["windows"][number - 1][what].as_u64().unwrap_or_else(|| panic!("{window}: {counts:#}"))
}

/// One page takes few lines, and a table more than its 64; other CPUs write to some of them if they change the map as well. Counts
/// are the same with the plugin and without.
#[test]
fn lines_and_those_of_other_cpus_are_counted() {
    let Some(plugin) = plugin() else { return };
    let alone = ["--count", "--ram", "4G", "--cpus", "2", "--run", "bench"];
    let with_others = ["--count", "--ram", "4G", "--cpus", "2", "--run", "traffic,bench"];
    let (booted, counts) = counted(&plugin, &alone);
    let of = |window: &str, what: &str| count(&booted, &counts, window, what);
    assert!((3..60).contains(&of("protect_page", "code_lines")), "{counts:#}");
    assert!((3..60).contains(&of("protect_page", "data_lines")), "{counts:#}");
    assert!(of("protect_l2", "data_lines") > 64, "{counts:#}");
    assert!(of("protect_page", "atomics") > 0, "{counts:#}");
    assert_eq!(of("protect_page", "shared_lines"), 0, "nobody else does anything");
    assert_eq!(booted.at("/windows"), boot(&alone).expect_well("without").at("/windows"));
    let (booted, counts) = counted(&plugin, &with_others);
    let shared = count(&booted, &counts, "protect_page", "shared_lines");
    let lines = count(&booted, &counts, "protect_page", "data_lines");
    assert!(0 < shared && shared < lines, "{shared} of {lines}");
    assert_eq!(booted.number("/tests/traffic/cpus"), 1);
}
