//! `linmap diff`: with differences, and without.

use linmap::{Attributes, Geometry, Granule, OaFormat};

use crate::core::{Core, Kernel, RAM, debian};
use crate::run::{Ran, linmap};

fn diff(a: &Core, b: &Core, more: &[&str]) -> Ran {
    let (a, b) = (a.path(), b.path());
    let paths = [a.to_str().expect("a path in UTF-8"), b.to_str().expect("a path in UTF-8")];
    linmap(&[&["diff", paths[0], paths[1]], more].concat())
}

#[test]
fn a_page_that_changed_is_two_lines() {
    let before = debian().core(|_| {});
    let page = debian().linear(RAM + (80 << 20));
    let after = debian().core(|tables| tables.change(page, |leaf| leaf | Attributes::READ_ONLY.bits()));
    let ran = diff(&before, &after, &[]).exits(1);
    let shown = ran.stdout();
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("--- core `") && lines[1].starts_with("+++ core `"), "{shown}");
    assert_eq!(
        lines[2..],
        [
            "-0xffff000005000000-0xffff000005001000       4K    4K  RW NX UXN SHD AF MEM/NORMAL-TAGGED  -> 0x45000000",
            "+0xffff000005000000-0xffff000005001000       4K    4K  ro NX UXN SHD AF MEM/NORMAL-TAGGED  -> 0x45000000",
            "1 range differs, 4K",
        ]
    );
    let document = diff(&before, &after, &["--json"]).exits(1).document();
    assert_eq!((&document["schema"], &document["ok"]), (&"linmap.diff/1".into(), &false.into()));
    assert_eq!(document["differences"][0]["va"], "0xffff000005000000");
    assert_eq!(document["bytes"], 4096);
    diff(&before, &after, &["--range", "0xffff000000000000-0xffff000005000000"]).exits(0);
}

#[test]
fn the_same_is_said_to_be_the_same() {
    let core = debian().core(|_| {});
    let ran = diff(&core, &core, &[]).exits(0);
    assert!(
        ran.stdout().ends_with("no difference from 0xffff000000000000 to 0xffffffffffffffff\n"),
        "{}",
        ran.stdout()
    );
    assert_eq!(diff(&core, &core, &["--json"]).exits(0).document()["ok"], true);
}

#[test]
fn large_leaves_differ_from_pages() {
    let (pages, blocks) = (debian().core(|_| {}), Kernel { level: 2, ..debian() }.core(|_| {}));
    let shown = diff(&pages, &blocks, &["--linear"]).exits(1).stdout();
    assert!(shown.contains("     192M    4K  RW") && shown.contains("     192M    2M  RW"), "{shown}");
    assert!(shown.ends_with("1 range differs, 192M\n"), "{shown}");
}

#[test]
fn page_sizes_may_differ() {
    let geometry = Geometry::new(Granule::K64, 48, OaFormat::Bits48).expect("a geometry");
    let (small, large) = (debian().core(|_| {}), Kernel { geometry, ..debian() }.core(|_| {}));
    let shown = diff(&small, &large, &["--linear"]).exits(1).stdout();
    assert!(shown.contains("page size, VA size or address format differ; "), "{shown}");
}
