//! `linmap stat --who`: whose pages a map's are, by addresses and by symbols; `make test-linux` reads the lists of real
//! kernels.

use linmap::{Attributes, Pa};
use serde_json::Value;

use crate::core::{Core, RAM, debian};
use crate::tables::Tables;

fn owner<'d>(document: &'d Value, kind: &str) -> Option<&'d Value> {
    document["who"]["owners"].as_array().expect("owners").iter().find(|owner| owner["owner"] == kind)
}

/// Returns protected bytes, pieces, blocks in pages and entries that are lost.
fn cost(document: &Value, kind: &str) -> Option<[u64; 4]> {
    let owner = owner(document, kind)?;
    let keys = ["protected_bytes", "pieces", "blocks_in_pages", "tlb_entries_lost"];
    Some(keys.map(|key| owner[key].as_u64().expect("a number")))
}

#[test]
fn pages_have_owners_by_their_addresses() {
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
    // Text and constants fill a block each, the module an eighth of one.
    assert_eq!(of("kernel_code"), Some([2 << 20, 1, 1, 511]));
    assert_eq!(of("kernel_constants"), Some([2 << 20, 1, 1, 511]));
    assert_eq!(of("modules_code"), Some([256 << 10, 1, 1, 511]));
    // Writable memory has owners as well, and costs nothing.
    assert_eq!(of("kernel_data"), Some([0; 4]));
    assert_eq!(of("invalid"), Some([3 * 4096, 2, 1, 508]));
    assert_eq!(of("read_only"), Some([4096, 1, 1, 511]));
    assert_eq!(of("vmalloc"), Some([4096, 1, 1, 511]));
    // The others of 256 MiB in pages are alike.
    assert_eq!(of("nobody"), Some([0, 0, 128 - 6, (128 - 6) * 511]));
    let owners = document["who"]["owners"].as_array().expect("owners");
    let sum = |key: &str| owners.iter().map(|owner| owner[key].as_u64().expect("a number")).sum::<u64>();
    let entries = document["linear"]["tlb_entries"].as_u64().expect("a number");
    assert_eq!(sum("blocks_in_pages") + sum("tlb_entries_lost"), entries);
    assert_eq!(owner(&document, "kernel_code").expect("one")["by"], "address");
    assert!(
        document["who"]["missing"][0].as_str().is_some_and(|why| why.contains("addresses alone")),
        "{document}"
    );
    let text = core.run("stat", &["--who"]).exits(0).stdout();
    let (stat, who) = text.split_once("\nWhose pages\n").expect("a table");
    assert_eq!(core.run("stat", &[]).exits(0).stdout(), stat);
    assert!(who.contains("kernel code") && who.contains("its address"), "{who}");
    assert!(who.contains("note: owners are known by their addresses alone"), "{who}");
}

/// The places of a kernel's variables, of the areas of its two CPUs, and of its device tree.
const VARIABLES: u64 = 0x70_0000;
const TEMPLATE: u64 = 0x78_0000;
pub(crate) const AREA: u64 = RAM + (120 << 20);
const TREE: u64 = RAM + (130 << 20);
const FIXED: u64 = 0xffff_fbff_fdc0_0000;

/// Returns the tables of a kernel with per-CPU areas and a device tree of 72K, and pages with its variables.
pub(crate) fn tables() -> Tables {
    let kernel = debian();
    let image = kernel.image();
    let mut tables = kernel.tables();
    let offset = kernel.linear(AREA).wrapping_sub(image + TEMPLATE);
    let mut words = vec![offset, offset.wrapping_add(0x1_0000), 2, FIXED + 0x200];
    words.resize(512, 0);
    tables.pages.insert(Pa(crate::core::IMAGE + VARIABLES), words);
    // The header of the tree, big-endian: its mark, its size, and a structure of 64 bytes with strings behind.
    let head = [0xd00d_feed_u32, 72 << 10, 56, 120, 40, 17, 16, 0, 0, 64];
    let mut words = vec![0; 512];
    for (index, pair) in head.chunks(2).enumerate() {
        words[64 + index] = u64::from(pair[1].swap_bytes()) << 32 | u64::from(pair[0].swap_bytes());
    }
    tables.pages.insert(Pa(TREE), words);
    tables.map(FIXED, TREE, 3, 512, Attributes::KERNEL_RODATA, false);
    tables
}

/// Returns a core of such a kernel, and a file of its symbols.
pub(crate) fn with_variables() -> (Core, String) {
    let kernel = debian();
    let (image, page) = (kernel.image(), 0x1000);
    let core = Core::new(&tables(), kernel.ram, Some(&kernel.info()));
    let at = |name: &str, address: u64| format!("{address:016x} D {name}\n");
    let text = [
        at("_stext", image),
        at("__per_cpu_offset", image + VARIABLES),
        at("nr_cpu_ids", image + VARIABLES + 16),
        at("initial_boot_params", image + VARIABLES + 24),
        at("__per_cpu_start", image + TEMPLATE),
        at("__per_cpu_end", image + TEMPLATE + 3 * page),
    ];
    let file = core.file("System.map");
    std::fs::write(&file, text.concat()).expect("room");
    (core, file.to_str().expect("a path in UTF-8").to_owned())
}

#[test]
fn per_cpu_areas_and_the_device_tree_have_owners() {
    let (core, symbols) = with_variables();
    let memory = |document: &Value, kind: &str| {
        let owner = owner(document, kind)?;
        Some((owner["bytes"].as_u64()?, owner["by"].as_str()?.to_owned()))
    };
    let named = core.run("stat", &["--who", "--json", "--symbols", &symbols]).exits(0).document();
    let by_symbol = |bytes| Some((bytes, "symbol".to_owned()));
    assert_eq!(memory(&named, "per_cpu"), by_symbol(2 * 3 * 4096), "{named:#}");
    // The tree begins and ends within pages.
    assert_eq!(memory(&named, "device_tree"), by_symbol(19 * 4096), "{named:#}");
    // Without symbols the tree is found where the fixmap has it.
    let alone = core.run("stat", &["--who", "--json"]).exits(0).document();
    assert_eq!(memory(&alone, "per_cpu"), None);
    assert_eq!(memory(&alone, "device_tree"), Some((19 * 4096, "address".to_owned())), "{alone:#}");
    assert_eq!(memory(&alone, "fixmap"), Some(((512 - 19) * 4096, "address".to_owned())));
    // The picture has the same owners.
    let svg = core.file("map.svg");
    let svg = svg.to_str().expect("a path in UTF-8");
    core.run("map", &["--svg", svg, "--by", "owner", "--symbols", &symbols]).exits(0);
    let picture = std::fs::read_to_string(svg).expect("a picture");
    assert!(
        picture.contains("per-CPU areas [symbol]: 24K") && picture.contains("the device tree [symbol]: 76K")
    );
}

/// Only the first 64 MiB are in pages; without the module nobody else has a page there.
#[test]
fn large_leaves_are_lost_by_nobody() {
    let kernel = crate::core::Kernel { level: 2, rodata_full: false, ..debian() };
    let document = kernel.core(|_| {}).run("stat", &["--who", "--json"]).exits(0).document();
    assert_eq!(cost(&document, "kernel_code"), Some([2 << 20, 1, 1, 511]));
    assert_eq!(cost(&document, "nobody"), Some([0, 0, 30, 30 * 511]));
    assert_eq!(cost(&document, "modules_code"), Some([0; 4]));
}

#[test]
fn a_text_does_not_say_whose_pages_are() {
    let core = debian().core(|_| {});
    let path = core.file("text");
    std::fs::write(&path, core.run("dump", &[]).exits(0).stdout()).expect("room");
    let path = path.to_str().expect("a path in UTF-8");
    crate::run::linmap(&["stat", path, "--who"]).exits(2).says("no output addresses");
}
