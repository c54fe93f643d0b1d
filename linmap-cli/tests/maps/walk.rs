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
