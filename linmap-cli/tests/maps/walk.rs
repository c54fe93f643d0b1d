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
