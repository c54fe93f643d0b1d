//! `linmap plan` predicts the report of `linmap boot`: for each page size, each mode and policy, little RAM and much,
//! with and without a crash kernel.

use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use test_support::{Random, Rows};

use crate::guest::{Booted, boot};
use crate::loader::{Loader, reserved};

/// Returns the plan for options that both commands have.
fn plan(options: &[&str]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    let output =
        command.args(["plan", "--json"]).args(options).stdin(Stdio::null()).output().expect("linmap runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), &*said), (Some(0), ""), "{options:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{options:?}: no JSON document: {e}"))
}

/// Returns the part that both documents have.
fn common(document: &Value, page_size: &Value) -> Value {
    let keys = ["/page_size", "/va_bits", "/levels", "/mode", "/policy", "/linear"];
    let of = |from: &Value, key| from.pointer(key).cloned().unwrap_or_else(|| panic!("no {key} in {from:#}"));
    let rodata = of(document, "/rodata");
    let memory = of(page_size, "/memory");
    let mut all: Vec<Value> = keys.iter().map(|key| of(page_size, key)).collect();
    all.extend([rodata, memory["ram"].clone(), memory["image"].clone(), memory["carve_outs"].clone()]);
    Value::Array(all)
}

/// Fails unless the plan and the report are equal.
fn compare(options: &[&str], more: &[&str]) -> Booted {
    let what = format!("{options:?} {more:?}");
    let planned = plan(options);
    let booted = boot(&[options, &["--run", ""], more].concat()).expect_well(&what);
    let [page_size] = planned["page_sizes"].as_array().map(Vec::as_slice).expect("page sizes") else {
        panic!("{what}: one page size was asked for")
    };
    assert_eq!(common(&planned, page_size), common(&booted.document, &booted.document), "{what}");
    booted
}

/// Returns the ends of the image and of its read-only part, from its start.
fn image_sizes(document: &Value) -> [u64; 2] {
    let address = |range: &str, end: usize| -> u64 {
        let text = document["kernel"][range][end].as_str().expect("an address");
        u64::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
    };
    ["image", "read_only"].map(|range| address(range, 1) - address("image", 0))
}

/// A plan without a built image, as after `cargo install`, is the plan with it. Each compiler makes an image of another size, so
/// that of another than wrote the sizes down is only near.
#[test]
fn a_plan_without_an_image_is_the_same() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let elsewhere = directory.path().join("bin/linmap");
    std::fs::create_dir(directory.path().join("bin")).expect("a directory");
    std::fs::hard_link(env!("CARGO_BIN_EXE_linmap"), &elsewhere).expect("a link");
    let run = |program: &std::path::Path, arguments: &[&str]| -> Value {
        let output = Command::new(program).args(arguments).current_dir(directory.path()).output();
        serde_json::from_slice(&output.expect("linmap runs").stdout).expect("a document")
    };
    let here = std::path::Path::new(env!("CARGO_BIN_EXE_linmap"));
    let plan = ["plan", "--ram", "256G", "--json"];
    let (mut measured, mut assumed) = (run(here, &plan), run(&elsewhere, &plan));
    let basis = |document: &mut Value| document["kernel"]["basis"].take();
    assert_eq!((basis(&mut measured), basis(&mut assumed)), ("measured".into(), "assumed".into()));
    let sizes = [&measured, &assumed].map(image_sizes);
    let is_near = |(built, written): (u64, u64)| built.abs_diff(written) <= written / 10;
    assert!(
        sizes[0].into_iter().zip(sizes[1]).all(is_near),
        "the image has grown to {sizes:x?}; `make figures ARGS=--update` writes its size down"
    );
    for what in ["machine", "modes", "rodata", "notes"] {
        assert_eq!(measured[what], assumed[what], "{what}");
    }
    if sizes[0] == sizes[1] {
        let tlb = ["tlb", "--ram", "4G", "--accesses", "10000", "--json"];
        assert_eq!((measured, run(here, &tlb)), (assumed, run(&elsewhere, &tlb)));
    }
}

/// Promises, read-only memory, splits, and the mode and policy that follow.
type Decision = (&'static str, &'static str, &'static str, u64, &'static str);

/// Every mode and policy.
const DECISIONS: [Decision; 7] = [
    ("auto", "full", "pages", 1, "live"),
    ("off", "full", "pages", 2, "pages"),
    ("off", "full", "park", 2, "park"),
    ("boot-cpu", "full", "park", 3, "park"),
    ("2", "full", "park", 3, "park"),
    ("auto", "on", "pages", 1, "fixed"),
    ("off", "off", "pages", 2, "fixed"),
];

/// With little RAM and with much.
fn every_mode(page_size: &str) {
    let mut rows = Rows::new();
    for most in [8 << 10, 512 << 10] {
        for decision in DECISIONS {
            rows.row(|seed| {
                in_mode(page_size, &format!("{}M", 511 + Random::new(seed).size(most)), decision);
            });
        }
    }
}

fn in_mode(page_size: &str, ram: &str, (bbml2, rodata, split, mode, policy): Decision) {
    // The option on splits has no effect if nothing is split.
    let split = if rodata == "full" { split } else { "pages" };
    let machine = ["--page-size", page_size, "--ram", ram];
    let options = [&machine[..], &["--bbml2", bbml2, "--rodata", rodata, "--split", split]].concat();
    let booted = compare(&options, &[]);
    assert_eq!((booted.number("/mode"), booted.text("/policy")), (mode, policy), "{options:?}");
}

#[test]
fn pages_of_4k() {
    every_mode("4k");
}

#[test]
fn pages_of_16k() {
    every_mode("16k");
}

#[test]
fn pages_of_64k() {
    every_mode("64k");
}

/// Both report the reason that a map cannot be made, in the same words.
#[test]
fn tables_that_fit_nowhere() {
    let taken = reserved(&[(0x4000_0000, 0x3fff_0000)]);
    let loader = Loader::new().tree(|tree| tree.root.add_child(taken));
    let loader = loader.bootargs("pagesize=4k bbml2=off rodata=full split=pages");
    let booted = loader.boot();
    assert_eq!(booted.status, Some(2), "{}", booted.console);
    let mut tree = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    tree.write_all(loader.bytes_of_tree()).expect("a file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.args(["plan", "--page-size", "4k", "--bbml2", "off", "--rodata", "full", "--split", "pages"]);
    let planned = command.arg("--dtb").arg(tree.path()).output().expect("linmap runs");
    assert_eq!(planned.status.code(), Some(2));
    let expected = format!("error: with 4K pages: {}\n", booted.text("/fault"));
    assert_eq!(String::from_utf8_lossy(&planned.stderr), expected);
}

/// From sizes at which 16K pages take a table for each 64 GiB up to the limit of QEMU 7.2: its SMBIOS tables have no
/// room for 60T.
#[test]
fn machines_as_large_as_qemu_makes_them() {
    for (page_size, ram, va_bits) in [
        ("4k", "16T", "52"),
        ("4k", "54T", "48"),
        ("16k", "2900G", "48"),
        ("16k", "3T", "48"),
        ("64k", "54T", "52"),
    ] {
        compare(&["--page-size", page_size, "--ram", ram, "--va-bits", va_bits], &[]);
    }
}

/// The map is made for the boot CPU and put into pages for another CPU.
#[test]
fn a_repainted_map() {
    for page_size in ["4k", "16k", "64k"] {
        for ram in ["1G", "12G"] {
            let options = ["--page-size", page_size, "--ram", ram, "--bbml2", "boot-cpu", "--split", "pages"];
            let booted = compare(&options, &[]);
            assert_eq!((booted.number("/mode"), booted.text("/policy")), (3, "pages"), "{options:?}");
        }
    }
}

#[test]
fn every_kind_of_address() {
    for (page_size, va_bits) in
        [("4k", "36"), ("4k", "39"), ("4k", "52"), ("16k", "36"), ("16k", "52"), ("64k", "42"), ("64k", "52")]
    {
        for bbml2 in ["auto", "off"] {
            let options = ["--page-size", page_size, "--va-bits", va_bits, "--ram", "40G", "--bbml2", bbml2];
            compare(&options, &[]);
        }
    }
}

/// Its place is decided by the plan of memory, which both commands share.
#[test]
fn a_crash_kernel() {
    for page_size in ["4k", "16k", "64k"] {
        for area in ["64M", "256M", "300M", "256M@0x60000000"] {
            for ram in ["1G", "12G"] {
                let options = ["--page-size", page_size, "--ram", ram, "--crashkernel", area];
                let booted = compare(&options, &[]);
                assert_ne!(booted.at("/memory/carve_outs"), &json!([]), "{options:?}");
            }
        }
    }
}

/// Sizes that are no multiples of any leaf.
#[test]
fn odd_sizes() {
    for page_size in ["4k", "16k", "64k"] {
        for ram in ["8M", "24M", "100M", "1000M", "1025M", "2000008K", "3333M"] {
            compare(&["--page-size", page_size, "--ram", ram], &[]);
        }
    }
}
