//! `linmap check`: its findings in maps that are wrong in one way each.

use linmap::arch::{Descriptor, Level};
use linmap::{Attributes, Pa};

use crate::core::{Core, Kernel, RAM, TABLES, debian};
use crate::tables::Tables;

/// Returns the findings in Debian's map after a change.
fn found(change: impl FnOnce(&mut Tables)) -> Vec<(String, String)> {
    let core = debian().core(change);
    let document = core.run("check", &["--json"]).exits(1).document();
    assert_eq!((&document["schema"], &document["ok"]), (&"linmap.check/1".into(), &false.into()));
    let text = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
    let list = document["findings"].as_array().expect("findings");
    list.iter().map(|finding| (text(&finding["kind"]), text(&finding["region"]))).collect()
}

fn one(kind: &str, region: &str) -> Vec<(String, String)> {
    vec![(kind.to_owned(), region.to_owned())]
}

#[test]
fn a_map_that_is_right_has_no_findings() {
    let ran = debian().core(|_| {}).run("check", &[]).exits(0);
    assert!(ran.stdout().ends_with("Nothing found.\n"), "{}", ran.stdout());
}

#[test]
fn each_mistake_is_named() {
    let linear = |pa: u64| debian().linear(pa);
    let image = debian().image();
    let writable = |leaf: u64| leaf & !Attributes::READ_ONLY.bits();
    assert_eq!(found(|t| t.change(image, writable))[0], one("writable_and_executable", "kernel")[0]);
    assert_eq!(
        found(|t| t.change(linear(RAM + 0x20_0000), writable)),
        one("writable_alias_of_code", "kernel")
    );
    assert_eq!(
        found(|t| t.change(linear(RAM + 0x40_0000), writable)),
        one("writable_alias_of_constants", "kernel")
    );
    assert_eq!(
        found(|t| t.change(linear(RAM + 0x300_0000), writable)),
        one("writable_alias_of_code", "modules")
    );
    assert_eq!(found(|t| t.change(linear(RAM), |leaf| leaf ^ 0x1000)), one("not_linear", "linear"));
    assert_eq!(found(|t| t.change(linear(RAM), |leaf| leaf | 1 << 52)), one("broken_run", "linear"));
    assert_eq!(found(|t| t.change(linear(RAM), |leaf| leaf & !2)), one("reserved", "linear"));
    assert_eq!(found(|t| t.change(linear(RAM), |leaf| leaf | 1 << 48)), one("reserved_bits", "linear"));
}

/// Outside of the linear map, too.
#[test]
fn mappings_of_the_same_memory_that_contradict_each_other_are_named() {
    let kernel = debian();
    let vmalloc = kernel.modules() + (512 << 20);
    let again = |pa: u64, attributes: Attributes| {
        move |tables: &mut Tables| tables.map(vmalloc, pa, 3, 2, attributes, false)
    };
    let (ram, text) = (RAM + (80 << 20), RAM + 0x20_0000);
    assert_eq!(found(again(ram, Attributes::DEVICE)), one("device_and_normal", "vmalloc"));
    // Text that a second mapping writes to; in the linear map it is read-only.
    let written = found(again(text, Attributes::KERNEL_DATA));
    assert_eq!(written, one("writable_and_executable_elsewhere", "vmalloc"));
    // The same memory once more, with nothing against it.
    let fine = kernel.core(again(ram, Attributes::KERNEL_DATA)).run("check", &[]).exits(0).stdout();
    assert!(fine.ends_with("Nothing found.\n"), "{fine}");
    let pool = kernel.core(again(ram, Attributes::RAM.of_type(linmap::MemoryType::NORMAL_NC)));
    let pool = pool.run("check", &[]).exits(0).stdout();
    assert!(pool.contains("8K of memory are mapped as Normal-NC and as cached memory, too"), "{pool}");
}

#[test]
fn tables_that_are_wrong_are_found_and_not_followed() {
    let g = debian().geometry;
    let behind = debian().linear(RAM + (1 << 30));
    let at = Level::new(1);
    let table = |pa| Descriptor::table(Pa(pa), g).0;
    assert_eq!(found(|t| *t.slot(behind, at) = table(TABLES)), one("loop", "linear"));
    assert_eq!(found(|t| *t.slot(behind, at) = table(0x1000)), one("table_outside_ram", "linear"));
    assert_eq!(
        found(|t| *t.slot(behind, at) = *t.slot(debian().linear(RAM), at)).last(),
        one("shared_table", "linear").last()
    );
}

/// A writable leaf below a table that says read-only is not writable.
#[test]
fn restrictions_of_tables_are_applied() {
    let kernel = Kernel { rodata_full: false, ..debian() };
    let linear = kernel.linear(RAM + 0x300_0000);
    let writable = kernel.core(|_| {}).run("check", &[]).exits(1).stdout();
    assert!(writable.contains("code that is writable in the linear map   modules      64"), "{writable}");
    let restricted = kernel.core(|tables| *tables.slot(linear, Level::new(2)) |= 1 << 62);
    restricted.run("check", &[]).exits(0);
    let words = restricted.run("walk", &[&format!("{linear:#x}")]).exits(0).stdout();
    assert!(
        words.contains("EL1: read; EL0: no access\nwith what the tables above say: APTable[1]: read-only\n"),
        "{words}"
    );
}

#[test]
fn many_findings_are_counted_and_a_few_listed() {
    let kernel = Kernel { rodata_full: false, ..debian() };
    let core = kernel.core(|_| {});
    let few = core.run("check", &[]).exits(1).stdout();
    assert!(few.contains("  and 61 more\n"), "{few}");
    let all = core.run("check", &["--all"]).exits(1).stdout();
    assert_eq!(all.lines().filter(|line| line.contains("but the linear map can write")).count(), 64);
}

/// Tables that point to one another have countless paths; the time is bounded all the same.
#[test]
fn a_knot_of_tables_ends() {
    let kernel = debian();
    let mut tables = kernel.tables();
    let g = tables.geometry;
    let knot = tables.end();
    for level in 0..4u64 {
        let next = Pa(knot.0 + (level + 1) % 4 * 4096);
        tables.pages.insert(Pa(knot.0 + level * 4096), vec![Descriptor::table(next, g).0; 512]);
    }
    let hole = kernel.linear(RAM) + (1 << 40);
    *tables.slot(hole, Level::new(0)) = Descriptor::table(knot, g).0;
    let core = Core::new(&tables, kernel.ram, Some(&kernel.info()));
    core.run("check", &[]).exits(1);
    core.run("walk", &[&format!("{hole:#x}")]).exits(0);
}
