//! The output of plans.

use std::process::Command;

use snapbox::{assert_data_eq, str};

use crate::{KERNEL, document, plan, printed, text};

#[test]
fn page_sizes_side_by_side() {
    let text = printed(&[&["--ram", "256G"], &KERNEL[..]].concat());
    assert_data_eq!(
        text,
        str![[r#"
Linear map: 256G from 0x40000000, 48-bit addresses, rodata=full
Kernel: 256K of code and constants at 0x40200000, as --kernel says

 CPUs that never abort   mode   policy         mapped in
─────────────────────────────────────────────────────────
 all                        1     live   large leaves  <
 not the boot CPU           2    pages             pages
 the boot CPU, not all      3    pages             pages

 page size                          leaves   table pages   table memory   TLB entries to cover RAM   RAM saved
───────────────────────────────────────────────────────────────────────────────────────────────────────────────
 4K pages in pages              67,108,864       131,330           513M                 67,108,804
 4K pages in large leaves  <         1,278             4            16K                        108        513M
 16K pages in pages             16,777,216         8,198         128.1M                 16,777,216
 16K pages in large leaves  <       10,239             7           112K                        429        128M
 64K pages in pages              4,194,304           514          32.1M                  4,194,304
 64K pages in large leaves  <        8,703             3           192K                        333       31.9M
< is what a kernel would do with these options.
Maps with more than 64M of tables are counted without being built.

 4K pages in large leaves   descriptors   covered   share
──────────────────────────────────────────────────────────
 16G contiguous (16 x 1G)           240      240G   93.8%
 1G                                  15       15G    5.9%
 32M contiguous (16 x 2M)           496      992M    0.4%
 2M                                  15       30M   <0.1%
 64K contiguous (16 x 4K)           512        2M   <0.1%

 16K pages in large leaves   descriptors   covered   share
───────────────────────────────────────────────────────────
 1G contiguous (32 x 32M)          8,160      255G   99.6%
 32M                                  31      992M    0.4%
 2M contiguous (128 x 16K)         1,920       30M   <0.1%
 16K                                 128        2M   <0.1%

 64K pages in large leaves    descriptors   covered   share
────────────────────────────────────────────────────────────
 16G contiguous (32 x 512M)           480      240G   93.8%
 512M                                  31     15.5G    6.1%
 2M contiguous (32 x 64K)           8,160      510M    0.2%
 64K                                   32        2M   <0.1%

"#]]
    );
}

/// An AmpereOne with 256 GB was measured to have 504 MiB more.
#[test]
fn what_a_quarter_of_a_terabyte_saves() {
    let plan = document(&[&["--ram", "256G", "--page-size", "4k"], &KERNEL[..]].concat());
    let saved = plan["page_sizes"][0]["saved_bytes"].as_u64().expect("a number");
    assert_eq!(saved >> 20, 512);
    assert_eq!(saved, (131_330 - 4) * 4096);
}

#[test]
fn a_document_for_programs() {
    let plan = document(&[&["--ram", "12G", "--page-size", "64k", "--bbml2", "off"], &KERNEL[..]].concat());
    assert_eq!((plan["schema"].as_str(), plan["ok"].as_bool()), (Some("linmap.plan/1"), Some(true)));
    let page_size = &plan["page_sizes"][0];
    assert_eq!((page_size["mode"].as_u64(), page_size["policy"].as_str()), (Some(2), Some("pages")));
    assert_eq!(page_size["linear"]["tables"], page_size["pages"]["tables"]);
    assert_eq!(page_size["pages"]["built"], true);
    assert_eq!(plan["modes"][1]["asked_for"], true);
}

/// A second of CPU time, however long the host takes.
#[test]
fn terabytes_take_no_time() {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "ulimit -t 1 && exec \"$0\" plan --json --ram 64T \"$@\"",
        env!("CARGO_BIN_EXE_linmap"),
    ]);
    let output = command.args(KERNEL).output().expect("linmap runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a document");
    assert_eq!(plan["page_sizes"][0]["linear"]["bytes"].as_u64(), Some(64 << 40));
}

/// The basis of the kernel's place, which decides a few of the leaves.
#[test]
fn what_the_kernels_place_rests_on_is_said() {
    let kernel = document(&[&["--ram", "4G"], &KERNEL[..]].concat())["kernel"].clone();
    assert_eq!((&kernel["basis"], &kernel["read_only"][0]), (&"named".into(), &"0x40200000".into()));
    let none = ["--ram", "4G", "--kernel", "none"];
    assert!(document(&none)["kernel"].is_null());
    assert!(printed(&none).contains("\nKernel: none in the plan; --kernel says where one is\n"));
}

/// As after `cargo install`: without an image the built-in size is taken, and reported as assumed.
#[test]
fn without_an_image_its_size_is_assumed() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let linmap = directory.path().join("bin/linmap");
    std::fs::create_dir(directory.path().join("bin")).expect("a directory");
    std::fs::hard_link(env!("CARGO_BIN_EXE_linmap"), &linmap).expect("a link");
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(&linmap);
        let output = command.args(arguments).current_dir(directory.path()).output().expect("linmap runs");
        assert_eq!((output.status.code(), &*crate::text(&output.stderr)), (Some(0), ""), "{arguments:?}");
        crate::text(&output.stdout)
    };
    let text = run(&["plan", "--ram", "256G"]);
    assert!(text.contains("at 0x40200000, assumed, as large as this version's own; --kernel says"), "{text}");
    let document: serde_json::Value =
        serde_json::from_str(&run(&["plan", "--ram", "256G", "--json"])).expect("a document");
    let kernel = &document["kernel"];
    assert_eq!(kernel["basis"], "assumed");
    // The kernel is in the plan: its alias is apart from large leaves.
    // It ends with whole pages, at 4K with a run of 64K.
    let ends = |range: &serde_json::Value| {
        let text = range[1].as_str().and_then(|text| text.strip_prefix("0x")).expect("an address");
        u64::from_str_radix(text, 16).expect("a number")
    };
    for (planned, whole) in document["page_sizes"].as_array().expect("page sizes").iter().zip([64, 16, 64]) {
        let alias = &planned["memory"]["image"];
        assert_eq!(alias[0], kernel["read_only"][0], "{alias}");
        assert_eq!(ends(alias), ends(&kernel["read_only"]).next_multiple_of(whole << 10), "{alias}");
    }
}

#[test]
fn what_does_not_fit_is_said() {
    let text = printed(&[&["--ram", "256T", "--page-size", "4k"], &KERNEL[..]].concat());
    assert!(text.contains("With 4K pages 128T of RAM is out of reach."), "{text}");
}

#[test]
fn sweeps_and_their_plots() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    for (sweep, rows) in [("ram", 3 * 6), ("page-size", 3), ("fragmentation", 3)] {
        let path = directory.path().join(format!("{sweep}.svg"));
        let path = path.to_str().expect("a plain path");
        let options = [&["--ram", "32G", "--sweep", sweep, "--svg", path], &KERNEL[..]].concat();
        let document = document(&options);
        assert_eq!(document["schema"], "linmap.plan.sweep/1");
        assert!(document["rows"].as_array().is_some_and(|all| all.len() >= rows), "{document:#}");
        let svg = std::fs::read_to_string(path).expect("a plot");
        assert!(svg.starts_with("<svg ") && svg.contains("<polyline"), "{svg}");
        let again = crate::document(&options);
        assert_eq!(document, again, "{sweep}: the same seed, the same numbers");
    }
}

#[test]
fn collapse_keeps_the_map_small() {
    let options = [&["--ram", "64G", "--page-size", "4k", "--sweep", "fragmentation"], &KERNEL[..]].concat();
    let document = document(&options);
    for row in document["rows"].as_array().expect("rows") {
        let of = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(of("collapsed_table_bytes") <= of("churned_table_bytes"), "{row}");
        assert!(of("churned_table_bytes") <= of("back_table_bytes") + 4096, "{row}");
        if of("read_only_pages") >= 16 {
            assert!(of("churned_tlb_entries") > 4 * of("collapsed_tlb_entries"), "{row}");
        }
    }
}

#[test]
fn options_of_random_pages_apply_to_nothing_else() {
    for (option, more) in [("--seed", &[][..]), ("--rounds", &[]), ("--rounds", &["--sweep", "ram"])] {
        let output = plan(&[&["--ram", "4G", option, "2"], more].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{option} {more:?}");
        assert!(said.contains(&format!("{option} does not apply: only --sweep fragmentation")), "{said}");
    }
}
