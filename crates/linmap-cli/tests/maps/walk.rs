//! `linmap walk`: one address at a time.

use crate::core::{RAM, debian};

#[test]
fn a_symbol_is_an_address() {
    let core = debian().core(|_| {});
    let by_name = core.run("walk", &["_stext+0x1234"]).exits(0).stdout();
    assert!(by_name.contains("0xffff800008011234 -> 0x40201234, a leaf of 4K\n"), "{by_name}");
    assert!(by_name.contains("EL1: read, execute; EL0: no access\n"), "{by_name}");
    assert!(by_name.starts_with("0xffff800008011234 (_stext+0x1234), region kernel: "), "{by_name}");
    let document = core.run("walk", &["0xffff800008011234", "--json"]).exits(0).document();
    assert_eq!(document["schema"], "linmap.walk/1");
    assert_eq!(document["translation"]["pa"], "0x40201234");
    assert_eq!(document["levels"].as_array().map(Vec::len), Some(4));
    assert_eq!(document["levels"][3]["kind"], "page");
}

#[test]
fn what_does_not_translate_is_a_finding() {
    let page = debian().linear(RAM);
    let core = debian().core(|tables| tables.change(page, |leaf| leaf & !1 | 1 << 11));
    let kept = core.run("walk", &[&format!("{page:x}")]).exits(1).stdout();
    assert!(kept.contains("does not translate: the leaf at level 3 is kept, but is not valid"), "{kept}");
    let hole = core.run("walk", &["0xffff700000000000"]).exits(1).stdout();
    assert!(hole.contains("nothing is mapped at level 0"), "{hole}");
    let document = core.run("walk", &["0xffff700000000000", "--json"]).exits(1).document();
    assert_eq!((&document["ok"], &document["translation"]), (&false.into(), &serde_json::Value::Null));
}

#[test]
fn what_is_no_address_is_said() {
    let core = debian().core(|_| {});
    core.run("walk", &["_etext"]).exits(2).says("among the symbols of VMCOREINFO: _stext, swapper_pg_dir");
    core.run("walk", &["0x1000"]).exits(2).says("is no address of this kernel");
    let document = core.run("walk", &["_etext", "--json"]).exits(2).document();
    assert_eq!((&document["schema"], &document["ok"]), (&"linmap.walk/1".into(), &false.into()));
}

#[test]
fn a_page_of_memory_is_looked_up_backwards() {
    let kernel = debian();
    let core = kernel.core(|_| {});
    // Text of the image: there, and in the linear map.
    let pa = RAM + 0x20_1000;
    let address = format!("{pa:#x}");
    let text = core.run("walk", &["--pa", &address]).exits(0).stdout();
    let lines: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("0xffff")).collect();
    let (linear, image) = (kernel.linear(pa), kernel.image() + 0x1000);
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].contains(&format!("{linear:#x}   linear     4K")), "{text}");
    assert!(lines[0].contains("EL1: read; EL0: no access"), "{text}");
    assert!(lines[1].contains(&format!("{image:#x}   kernel")), "{text}");
    assert!(lines[1].contains("EL1: read, execute"), "{text}");
    let document = core.run("walk", &["--pa", &address, "--json"]).exits(0).document();
    assert_eq!(document["schema"], "linmap.mappings/1");
    assert_eq!(document["mappings"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["contradict"], false);
    // In the middle of a leaf, and at both ends of RAM.
    for (pa, found) in [(RAM + 0x1234, 1), (RAM + kernel.ram - 1, 1), (RAM + kernel.ram, 0), (RAM - 1, 0)] {
        let document = core.run("walk", &["--pa", &format!("{pa:x}"), "--json"]).document();
        assert_eq!(document["mappings"].as_array().map(Vec::len), Some(found), "{pa:#x}");
        assert_eq!(document["ok"], found != 0);
        if found != 0 {
            assert_eq!(document["mappings"][0]["va"], format!("{:#x}", kernel.linear(pa)));
        }
    }
    core.run("walk", &["--pa", &format!("{:x}", RAM - 1)]).exits(1);
}

#[test]
fn a_page_that_is_kept_and_one_that_is_mapped_twice_are_told() {
    let kernel = debian();
    let page = RAM + (80 << 20);
    let core = kernel.core(|tables| {
        tables.change(kernel.linear(page), |leaf| leaf & !1);
        let device = linmap::Attributes::DEVICE;
        tables.map(kernel.modules() + (64 << 20), page + 0x1000, 3, 1, device, false);
    });
    let kept = core.run("walk", &["--pa", &format!("{page:#x}")]).exits(1).stdout();
    assert!(kept.contains("kept, but not valid"), "{kept}");
    let twice = core.run("walk", &["--pa", &format!("{:#x}", page + 0x1000)]).exits(0).stdout();
    assert!(twice.ends_with("Two of them contradict each other; `linmap check` says how.\n"), "{twice}");
}

#[test]
fn one_question_at_a_time() {
    let core = debian().core(|_| {});
    core.run("walk", &["_stext", "--pa", "0x40000000"]).exits(2).says("either an address is walked");
    core.run("walk", &["--pa", "x"]).exits(2).says("an address is hexadecimal");
    let path = core.file("text");
    std::fs::write(&path, core.run("dump", &[]).exits(0).stdout()).expect("room");
    let path = path.to_str().expect("a path in UTF-8");
    crate::run::linmap(&["walk", path, "--pa", "0x40000000"]).exits(2).says("no output addresses");
}

/// A System.map has the addresses of a kernel that was not moved.
#[test]
fn symbols_come_from_a_file() {
    let kernel = debian();
    let core = kernel.core(|_| {});
    let (path, moved) = (core.file("System.map"), 0x1_2340_0000);
    let tables = crate::core::TABLES - 0x4020_0000;
    let map = |tables: u64| {
        let at = |offset: u64| kernel.image() - moved + offset;
        let symbols =
            [(0, "T _stext"), (0x1200, "T schedule"), (tables, "B swapper_pg_dir"), (0x200_0000, "B _end")];
        symbols.map(|(offset, name)| format!("{:016x} {name}\n", at(offset))).concat()
    };
    std::fs::write(&path, map(tables)).expect("room");
    let file = path.to_str().expect("a path in UTF-8");
    let by_name = core.run("walk", &["schedule+0x34", "--symbols", file]).exits(0).stdout();
    let va = kernel.image() + 0x1234;
    assert!(by_name.starts_with(&format!("{va:#x} (schedule+0x34), region kernel: ")), "{by_name}");
    let by_address =
        core.run("walk", &[&format!("{va:#x}"), "--symbols", file, "--json"]).exits(0).document();
    assert_eq!(by_address["symbol"], "schedule+0x34");
    // In the rows of a dump: each begins in a symbol, or has no name.
    let names = core.run("dump", &["--names", "--symbols", file, "--region", "kernel"]).exits(0).stdout();
    let text =
        names.lines().find(|line| line.starts_with(&format!("{:#x}-", kernel.image()))).expect("the text");
    assert!(text.ends_with("  _stext"), "{names}");
    let document = core.run("dump", &["--names", "--symbols", file, "--json"]).exits(0).document();
    let rows = document["rows"].as_array().expect("rows");
    let named: Vec<_> = rows.iter().filter_map(|row| row["symbol"].as_str()).collect();
    assert_eq!(named[..3], ["_stext", "schedule+0x1fee00", "schedule+0x3fee00"]);
    assert!(named[3..].iter().all(|name| name.starts_with("swapper_pg_dir+")), "{named:?}");
    let csv = core.run("dump", &["--names", "--symbols", file, "--csv"]).exits(0).stdout();
    assert!(csv.lines().next().is_some_and(|head| head.ends_with(",words,symbol")), "{csv}");
    assert!(csv.lines().any(|row| row.ends_with(",_stext")), "{csv}");
    // The page of a finding.
    let broken =
        kernel.core(|tables| tables.change(va & !0xfff, |leaf| leaf & !linmap::Attributes::READ_ONLY.bits()));
    let check = broken.run("check", &["--symbols", file]).exits(1).stdout();
    assert!(check.contains(" (_stext+0x1000)\n"), "{check}");
    // A map of another kernel, a file that is none, and one that is not there.
    std::fs::write(&path, map(tables + 0x1000)).expect("room");
    core.run("walk", &["_stext", "--symbols", file]).exits(2).says("it is of another kernel");
    std::fs::write(&path, "no symbols\n").expect("room");
    core.run("walk", &["_stext", "--symbols", file]).exits(2).says("line 1 is no symbol");
    core.run("walk", &["_stext", "--symbols", "/nonexistent"]).exits(2).says("--symbols `/nonexistent`");
}
