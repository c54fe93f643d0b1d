//! A saved dump gives the answers of its source, or names the facts that it lacks.

use std::path::Path;

use linmap::arch::Level;
use linmap::{Attributes, Geometry, Granule, OaFormat};

use crate::core::{Core, Kernel, RAM, debian};
use crate::run::{linmap, piped};
use crate::tables::Tables;

/// Returns one kernel for each geometry, with leaves of each size that fits into its memory.
fn kernels() -> Vec<Kernel> {
    use Granule::{K4, K16, K64};
    use OaFormat::{Bits48, Lpa, Lpa2};
    let geometries = [
        (K4, 39, Bits48, 2),
        (K4, 48, Bits48, 3),
        (K4, 48, Bits48, 2),
        (K4, 52, Lpa2, 3),
        (K16, 36, Bits48, 2),
        (K16, 47, Bits48, 3),
        (K16, 48, Bits48, 2),
        (K16, 52, Lpa2, 2),
        (K64, 42, Bits48, 3),
        (K64, 48, Bits48, 3),
        (K64, 52, Lpa, 3),
    ];
    let kernel = |(granule, bits, format, level)| {
        let geometry = Geometry::new(granule, bits, format).expect("a geometry");
        Kernel { geometry, level, ..debian() }
    };
    geometries.map(kernel).to_vec()
}

/// Adds entries that are hard to save: contiguous runs, invalid pages with and without the software-present bit,
/// ignored bits, tables that restrict what lies below them, descriptors without a meaning.
fn hard(kernel: Kernel, tables: &mut Tables) {
    let g = kernel.geometry;
    let page = g.page_size();
    let run = g.contiguous_entries(Level::PAGE) as u64;
    let at = |index: u64| kernel.linear(RAM + (8 << 20) + index * page);
    for index in 0..2 * run {
        let first = kernel.linear(RAM + (8 << 20)).next_multiple_of(run * page);
        tables.change(first + index * page, |leaf| leaf | 1 << 52);
    }
    for index in (4 * run..4 * run + 40).step_by(2) {
        tables.change(at(index), |leaf| leaf & !1);
        tables.change(at(index + 1), |leaf| leaf & !1 | 1 << 11);
    }
    tables.change(at(5 * run + 50), |leaf| leaf | 0b1010 << 55 | 1 << 60);
    tables.change(at(5 * run + 52), |leaf| leaf & !2);
    let above = Level::new(2);
    *tables.slot(kernel.linear(RAM), above) |= 3 << 59;
    *tables.slot(kernel.modules(), above) |= 1 << 60;
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

/// Runs each command on a core and on a saved dump of it.
#[track_caller]
fn assert_same(core: &Core, kernel: Kernel) {
    let json = core.run("dump", &["--json"]).exits(0);
    let path = core.file("saved.json");
    std::fs::write(&path, &json.0.stdout).expect("room");
    let (path, own) = (text(&path), core.path());
    let own = text(&own);

    let again = piped(&["dump", "-", "--json"], &json.0.stdout).exits(0);
    assert_eq!(again.stdout(), json.stdout(), "a dump of the dump");
    assert_eq!(again.stderr(), "", "nothing is missing");
    let page = format!("{:#x}", kernel.linear(RAM + (80 << 20)));
    let range = format!("{:#x}-{:#x}", kernel.modules(), kernel.modules() + (1 << 30));
    let lines: [&[&str]; 10] = [
        &["dump"],
        &["dump", "--csv"],
        &["dump", "--region", "kernel"],
        &["dump", "--region", "linear", "--csv"],
        &["stat"],
        &["stat", "--json"],
        &["walk", "_stext", "--json"],
        &["walk", &page, "--json"],
        &["check", "--json"],
        &["dump", "--range", &range],
    ];
    for line in lines {
        let with = |source: &str| {
            let ran = linmap(&[&line[..1], &[source], &line[1..]].concat());
            assert_eq!(ran.stderr(), "", "{line:?}");
            (ran.0.status.code(), ran)
        };
        let ((status, of_core), (saved_status, of_saved)) = (with(own), with(path));
        assert_eq!(status, saved_status, "{line:?}");
        match line[0] {
            "walk" => {
                let (mut a, mut b) = (of_core.document(), of_saved.document());
                assert_eq!(a["translation"], b["translation"], "{line:?}");
                let levels =
                    |d: &mut serde_json::Value| d["levels"].as_array_mut().expect("levels").split_off(0);
                let (a, b) = (levels(&mut a), levels(&mut b));
                for (a, b) in a.iter().zip(&b) {
                    let is_table = a["kind"] == "table";
                    assert_eq!((&a["kind"], &a["index"]), (&b["kind"], &b["index"]));
                    assert!(b["table"].is_null(), "an address was made up: {b}");
                    assert_eq!(b["descriptor"].is_null(), is_table, "{b}");
                    assert!(is_table || (&a["descriptor"], &a["fields"]) == (&b["descriptor"], &b["fields"]));
                }
            }
            "check" => {
                let (a, b) = (of_core.document(), of_saved.document());
                assert_eq!((&a["findings"], &a["tables"]), (&b["findings"], &b["tables"]));
            }
            _ => assert_eq!(of_core.stdout(), of_saved.stdout(), "{line:?}"),
        }
    }
    linmap(&["diff", own, path]).exits(0);
}

#[test]
fn a_saved_dump_answers_as_its_source_does_at_every_geometry() {
    for kernel in kernels() {
        assert_same(&kernel.core(|_| {}), kernel);
        assert_same(&kernel.core(|tables| hard(kernel, tables)), kernel);
    }
}

/// Random changes of leaves and holes.
#[test]
fn so_does_that_of_a_random_map() {
    test_support::each(8, random_map);
}

fn random_map(seed: u64) {
    let mut noise = crate::noise::Noise::of(seed);
    let kernels = kernels();
    let kernel = kernels[noise.next() as usize % kernels.len()];
    let core = kernel.core(|tables| {
        let page = kernel.geometry.page_size();
        for _ in 0..1 << (noise.next() % 10) {
            let at = kernel.linear(RAM + noise.next() % (64 << 20) / page * page);
            let attributes = Attributes::from_bits_truncate(noise.next());
            let bits = match noise.next() % 6 {
                0 => attributes.bits(),
                1 => 1,
                2 => 1 << 11,
                3 => 1 << 52,
                4 => 0xf << 55,
                _ => u64::MAX >> 12 << 12,
            };
            let count = 1 + noise.next() % 20;
            for index in 0..count {
                let va = at + index * page;
                if va < kernel.linear(RAM + (64 << 20)) {
                    tables.change(va, |leaf| if bits > 1 << 60 { 0 } else { leaf ^ bits });
                }
            }
        }
        if noise.next().is_multiple_of(2) {
            *tables.slot(kernel.linear(RAM), Level::new(2)) |= (noise.next() % 8) << 59;
        }
    });
    assert_same(&core, kernel);
}

#[test]
fn a_dump_of_a_part_is_a_dump_of_that_part() {
    let core = debian().core(|_| {});
    let page = "0xffff000004000000-0xffff000004001000";
    for selection in [["--region", "linear"], ["--region", "kernel"], ["--range", page]] {
        let json = core.run("dump", &[&selection[..], &["--json"]].concat()).exits(0);
        let again = piped(&["dump", "-", "--json"], &json.0.stdout).exits(0);
        assert_eq!(again.stdout(), json.stdout(), "{selection:?}");
        let shown = core.run("dump", &selection).exits(0).stdout();
        let ran = piped(&["dump", "-"], &json.0.stdout).exits(0).says("addresses that are not from");
        assert_eq!(ran.stdout(), shown, "{selection:?}");
    }
    let linear = core.run("dump", &["--region", "linear", "--json"]).exits(0).0.stdout;
    let ran = piped(&["dump", "-", "--region", "kernel"], &linear).exits(2);
    ran.says("0xffff800008010000 to 0xffff80000940ffff: not saved; it has what lies from 0xffff000000000000");
    piped(&["walk", "-", "_stext"], &linear).exits(2).says("0xffff800008010000: not saved");
    let document = piped(&["stat", "-", "--json"], &linear).exits(0).document();
    assert_eq!(document["release"], "6.1.0-40-arm64");
    assert_eq!(document["linear"]["tables"], 131);
    let missing = document["missing"].as_array().expect("a list");
    assert!(
        missing.iter().any(|text| text.as_str().is_some_and(|text| text.contains("not from"))),
        "{missing:?}"
    );
}

/// Facts that a text lacks are reported as missing, and nothing is made up.
#[test]
fn a_text_says_what_it_does_not_have() {
    let core = debian().core(|tables| hard(debian(), tables));
    let shown = core.run("dump", &[]).exits(0).stdout();
    let ran = piped(&["dump", "-"], shown.as_bytes()).exits(0).says("not saved: output addresses");
    // A region without marker lines is somewhere, and a text does not say where.
    let fixmap = "---[ Fixmap start ]---\n---[ Fixmap end ]---\n";
    let lines = shown.replace(fixmap, "");
    assert_eq!(ran.stdout(), lines);
    let json = piped(&["dump", "-", "--json"], shown.as_bytes()).exits(0);
    assert_eq!(piped(&["dump", "-", "--json"], &json.0.stdout).exits(0).stdout(), json.stdout());
    assert_eq!(piped(&["dump", "-"], &json.0.stdout).exits(0).stdout(), lines);
    let walked = piped(&["walk", "-", "0xffff000004000000"], shown.as_bytes()).exits(0).stdout();
    assert!(walked.contains("where its table is and its descriptor were not saved"), "{walked}");
    assert!(!walked.contains("AttrIndx"), "no field is made up: {walked}");
    let document =
        piped(&["walk", "-", "0xffff000004000000", "--json"], shown.as_bytes()).exits(0).document();
    for level in document["levels"].as_array().expect("levels") {
        assert!(level["table"].is_null() && level["descriptor"].is_null(), "{level}");
        assert_eq!(level["fields"], serde_json::json!([]));
    }
}

/// A dump in the first version of the schema.
#[test]
fn the_first_form_is_still_read() {
    let core = debian().core(|_| {});
    let mut document = core.run("dump", &["--json"]).exits(0).document();
    let object = document.as_object_mut().expect("an object");
    for key in ["kernel", "cpu", "parts", "table_limits", "missing"] {
        assert!(object.remove(key).is_some(), "{key}");
    }
    object.insert("schema".to_owned(), "linmap.dump/1".into());
    for row in object["rows"].as_array_mut().expect("rows") {
        row.as_object_mut().expect("a row").remove("descriptor");
    }
    let old = document.to_string();
    let ran = piped(&["stat", "-"], old.as_bytes()).exits(0).says("an older form, linmap.dump/1");
    assert!(ran.stdout().contains("Linux 6.1.0-40-arm64"), "{}", ran.stdout());
    let shown = core.run("dump", &[]).exits(0).stdout();
    assert_eq!(piped(&["dump", "-"], old.as_bytes()).exits(0).stdout(), shown);
    piped(&["stat", "-"], old.replace("dump/1", "dump/9").as_bytes()).exits(2).says("a newer linmap wrote");
}
