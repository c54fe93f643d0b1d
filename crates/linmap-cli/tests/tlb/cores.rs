//! Cores: built-in ones, and a user's own.

use tempfile::NamedTempFile;

use crate::{document, refused};

const FEW: [&str; 8] =
    ["--accesses", "20k", "--footprint", "64M", "--workload", "ramdisk-random", "--seeds", "1"];

#[test]
fn every_parameter_has_its_source() {
    for core in ["neoverse-n1", "neoverse-n2", "neoverse-v2", "cortex-a76"] {
        let document = document(&[&FEW[..], &["--core", core]].concat());
        for key in ["l1.entries", "l2.ways", "l2.sizes", "coalesce", "walk.cache", "replacement"] {
            let source = document["core"][key]["source"].as_str().expect("a source");
            assert!(source.len() > 5, "{core}: {key} {source}");
        }
    }
}

#[test]
fn nothing_is_made_up() {
    let said = refused(&["--core", "ampereone"]);
    assert!(said.contains("AmpereOne: l1.entries, l1.ways, l1.sizes,"), "{said}");
    assert!(said.contains("are not published; give what you know"), "{said}");
}

#[test]
fn a_users_own() {
    let file = NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    let path = file.path().to_str().expect("a plain path");
    let core = "# mine\nname = Mine\nl1.entries = 16 # measured\nl1.ways = 4\nl1.sizes = 4K\nl2.entries = 64\n\
                l2.ways = full\nl2.sizes = 4K 2M\ncoalesce = 1\ncontiguous = no\nwalk.cache = 8/full\n\
                replacement = random\n";
    std::fs::write(path, core).expect("written");
    let mine = document(&[&FEW[..], &["--core", path]].concat());
    assert_eq!(mine["core"]["l1.entries"], serde_json::json!({ "value": "16", "source": "measured" }));
    std::fs::write(path, format!("{core}l1.entries = 17\n")).expect("written");
    assert!(refused(&["--core", path]).contains(":13: `l1.entries` has been given before"));
    std::fs::write(path, core.replace("l2.ways = full", "l2.ways = 7")).expect("written");
    let said = refused(&["--core", path]);
    assert!(said.contains(":7: l2.ways = 7: full, or a number that divides"), "{said}");
    assert!(refused(&["--core", "no-such-core"]).contains("neither a file nor a core that is known"));
    assert!(refused(&["--set", "l1.entries=none"]).contains("--set l1.entries=none: l1.entries = none:"));
}
