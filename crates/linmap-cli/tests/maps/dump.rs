//! `linmap dump`: text in the form of Linux, and rows that can be read back.

use snapbox::{assert_data_eq, str};

use crate::core::{Kernel, debian};
use crate::run::linmap;

#[test]
fn the_linear_map_as_linux_prints_it() {
    let ran = debian().core(|_| {}).run("dump", &["--region", "linear"]).exits(0);
    assert_eq!(ran.stderr(), "");
    assert_data_eq!(
        ran.stdout(),
        str![[r#"
---[ Linear Mapping start ]---
0xffff000000000000-0xffff000000200000           2M PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED
0xffff000000200000-0xffff000000600000           4M PTE       ro NX SHD AF            UXN    MEM/NORMAL
0xffff000000600000-0xffff000003000000          42M PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED
0xffff000003000000-0xffff000003040000         256K PTE       ro NX SHD AF            UXN    MEM/NORMAL
0xffff000003040000-0xffff000010000000      212736K PTE       RW NX SHD AF            UXN    MEM/NORMAL-TAGGED
0xffff000010000000-0xffff000040000000         768M PMD
0xffff000040000000-0xffff008000000000         511G PUD
0xffff008000000000-0xffff800000000000      130560G PGD
---[ Linear Mapping end ]---

"#]]
    );
}

#[test]
fn regions_are_named_and_in_order() {
    let core = debian().core(|_| {});
    let shown = core.run("dump", &[]).exits(0).stdout();
    let markers: Vec<&str> = shown.lines().filter(|line| line.starts_with("---[")).collect();
    assert_eq!(
        markers,
        [
            "---[ Linear Mapping start ]---",
            "---[ Linear Mapping end ]---",
            "---[ Modules start ]---",
            "---[ Modules end ]---",
            "---[ vmalloc() area ]---",
            "---[ vmalloc() end ]---",
            "---[ Fixmap start ]---",
            "---[ Fixmap end ]---",
            "---[ vmemmap start ]---",
            "---[ vmemmap end ]---",
        ]
    );
    let kernel = core.run("dump", &["--region", "kernel", "--csv"]).exits(0).stdout();
    assert_data_eq!(
        kernel,
        str![[r#"
region,va,bytes,level,kind,pa,attributes,contiguous,valid,words
kernel,0xffff800008010000,2097152,3,leaf,0x40200000,0x40000000000780,false,true,ro x UXN SHD AF MEM/NORMAL
kernel,0xffff800008210000,2097152,3,leaf,0x40400000,0x60000000000780,false,true,ro NX UXN SHD AF MEM/NORMAL
kernel,0xffff800008410000,16777216,3,leaf,0x40600000,0x60000000000700,false,true,RW NX UXN SHD AF MEM/NORMAL

"#]]
    );
}

#[test]
fn a_range_is_that_of_a_line() {
    let core = debian().core(|_| {});
    let shown = core.run("dump", &["--range", "0xffff000003000000-0xffff000003040000"]).exits(0).stdout();
    assert_eq!(shown.lines().count(), 3);
    assert!(shown.contains("\n0xffff000003000000-0xffff000003040000         256K PTE       ro"), "{shown}");
    let empty = core.run("dump", &["--range", "0xffff500000000000-0xffff500000001000"]).exits(0).stdout();
    assert!(empty.contains("PGD\n"), "a hole is said to be one: {empty}");
    core.run("dump", &["--range", "0x1000-0x2000"])
        .exits(2)
        .says("with 48 VA bits they start at 0xffff000000000000");
}

/// Every command gives the same answers on a saved dump as on its source.
#[test]
fn a_saved_dump_is_a_source() {
    for level in [3, 2] {
        let core = Kernel { level, ..debian() }.core(|_| {});
        let json = core.run("dump", &["--json"]).exits(0);
        assert_eq!(json.document()["schema"], "linmap.dump/2");
        let text = core.run("dump", &[]).exits(0);
        for (saved, is_text) in [(json, false), (text, true)] {
            let path = core.file("saved");
            std::fs::write(&path, &saved.0.stdout).expect("room");
            let path = path.to_str().expect("a path in UTF-8");
            let whole = core.run("dump", &["--region", "linear"]).exits(0).stdout();
            assert_eq!(linmap(&["dump", path, "--region", "linear"]).exits(0).stdout(), whole);
            let core_path = core.path();
            let same =
                linmap(&["diff", core_path.to_str().expect("a path in UTF-8"), path]).exits(0).stdout();
            let words = if is_text { "output addresses were not compared" } else { "no difference from" };
            assert!(same.contains(words), "{same}");
            let counts = |path: &str| {
                linmap(&["stat", path, "--json"]).exits(0).document()["linear"]["leaves"].clone()
            };
            assert_eq!(counts(path), counts(core_path.to_str().expect("a path in UTF-8")));
            let tables = |path: &str| {
                linmap(&["stat", path, "--json"]).exits(0).document()["linear"]["tables"].clone()
            };
            assert_eq!(tables(path), tables(core_path.to_str().expect("a path in UTF-8")));
            linmap(&["check", path]).exits(0);
            linmap(&["walk", path, "0xffff800008010000"]).exits(0);
        }
    }
}

#[test]
fn what_is_written_is_valid_json_row_by_row() {
    let document = debian().core(|_| {}).run("dump", &["--json", "--region", "linear"]).exits(0).document();
    assert_eq!(document["geometry"]["granule"], "4K");
    assert_eq!(document["release"], "6.1.0-40-arm64");
    assert_eq!(document["regions"][0]["name"], "linear");
    let rows = document["rows"].as_array().expect("rows");
    assert_eq!(rows[0]["pa"], "0x40000000");
    assert_eq!(rows[1]["words"], "ro NX UXN SHD AF MEM/NORMAL");
    assert_eq!(rows[1]["region"], "linear");
    let bytes: u64 = rows.iter().filter_map(|row| row["bytes"].as_u64()).sum();
    assert_eq!(bytes, 1 << 47);
}
