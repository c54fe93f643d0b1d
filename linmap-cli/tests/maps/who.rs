//! `linmap stat --who`: whose pages a map's are, by their places alone; `make test-linux` reads the lists of real kernels.

use linmap::Attributes;
use serde_json::Value;

use crate::core::{RAM, debian};

fn owner<'d>(document: &'d Value, kind: &str) -> Option<&'d Value> {
    document["who"]["owners"].as_array().expect("owners").iter().find(|owner| owner["owner"] == kind)
}

/// Returns bytes, pieces, blocks in pages and entries that are lost.
fn cost(document: &Value, kind: &str) -> Option<[u64; 4]> {
    let owner = owner(document, kind)?;
    let keys = ["bytes", "pieces", "blocks_in_pages", "tlb_entries_lost"];
    Some(keys.map(|key| owner[key].as_u64().expect("a number")))
}

#[test]
fn pages_have_owners_by_their_places() {
    let kernel = debian();
    let (taken, device, constants) = (RAM + (80 << 20), RAM + (90 << 20), RAM + (100 << 20));
    let core = kernel.core(|tables| {
        // Two pieces of pages that were taken away, and constants in vmalloc.
        for page in [0, 1, 5] {
            tables.change(kernel.linear(taken) + page * 4096, |leaf| leaf & !1);
        }
        tables.change(kernel.linear(device), |leaf| leaf | Attributes::READ_ONLY.bits());
        tables.change(kernel.linear(constants), |leaf| leaf | Attributes::READ_ONLY.bits());
        let vmalloc = kernel.modules() + (512 << 20);
        tables.map(vmalloc, constants, 3, 1, Attributes::KERNEL_RODATA, false);
    });
    let document = core.run("stat", &["--who", "--json"]).exits(0).document();
    let of = |kind| cost(&document, kind);
    // Text and constants fill two blocks, the module an eighth of one.
    assert_eq!(of("image"), Some([4 << 20, 1, 2, 2 * 511]));
    assert_eq!(of("modules_region"), Some([256 << 10, 1, 1, 511]));
    assert_eq!(of("invalid"), Some([3 * 4096, 2, 1, 508]));
    assert_eq!(of("read_only"), Some([4096, 1, 1, 511]));
    assert_eq!(of("vmalloc_region"), Some([4096, 1, 1, 511]));
    // The others of 256 MiB in pages are alike.
    assert_eq!(of("nobody"), Some([0, 0, 128 - 6, (128 - 6) * 511]));
    let owners = document["who"]["owners"].as_array().expect("owners");
    let sum = |key: &str| owners.iter().map(|owner| owner[key].as_u64().expect("a number")).sum::<u64>();
    let entries = document["linear"]["tlb_entries"].as_u64().expect("a number");
    assert_eq!(sum("blocks_in_pages") + sum("tlb_entries_lost"), entries);
    assert_eq!(owner(&document, "image").expect("one")["by"], "place");
    assert!(
        document["who"]["missing"][0].as_str().is_some_and(|why| why.contains("places alone")),
        "{document}"
    );
    let text = core.run("stat", &["--who"]).exits(0).stdout();
    let (stat, who) = text.split_once("\nWhose pages\n").expect("a table");
    assert_eq!(core.run("stat", &[]).exits(0).stdout(), stat);
    assert!(who.contains("the kernel's image"), "{who}");
    assert!(who.contains("note: owners are known by their places alone"), "{who}");
}

/// Only the first 64 MiB are in pages; without the module nobody else has a page there.
#[test]
fn large_leaves_are_lost_by_nobody() {
    let kernel = crate::core::Kernel { level: 2, rodata_full: false, ..debian() };
    let document = kernel.core(|_| {}).run("stat", &["--who", "--json"]).exits(0).document();
    assert_eq!(cost(&document, "image"), Some([4 << 20, 1, 2, 2 * 511]));
    assert_eq!(cost(&document, "nobody"), Some([0, 0, 30, 30 * 511]));
    assert_eq!(cost(&document, "modules_region"), None);
}

#[test]
fn a_text_does_not_say_whose_pages_are() {
    let core = debian().core(|_| {});
    let path = core.file("text");
    std::fs::write(&path, core.run("dump", &[]).exits(0).stdout()).expect("room");
    let path = path.to_str().expect("a path in UTF-8");
    crate::run::linmap(&["stat", path, "--who"]).exits(2).says("no output addresses");
}
