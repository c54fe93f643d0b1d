//! The plugin's file: what QEMU looks for in it, and what it needs of the machine that loads it. Built for the tests of `linmap judge` as
//! well.

use std::collections::BTreeSet;
use std::path::PathBuf;

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// The plugin beside this test.
fn plugin() -> Vec<u8> {
    let test = std::env::current_exe().expect("this program");
    let path: PathBuf = test.with_file_name("liblinmap_judge_plugin.so");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn qemu_finds_what_it_looks_for() {
    let bytes = plugin();
    let file = ElfFile64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let defined: BTreeSet<&str> =
        file.dynamic_symbols().filter(|s| s.is_definition()).filter_map(|s| s.name().ok()).collect();
    assert_eq!(defined, BTreeSet::from(["qemu_plugin_install", "qemu_plugin_version"]));
}

/// Debian 12 has glibc 2.36: a plugin that was built on a newer system is loaded there, too.
#[test]
fn debian_12_has_what_it_needs() {
    let bytes = plugin();
    let file = ElfFile64::<Endianness>::parse(&*bytes).expect("an ELF file");
    let names = file.section_by_name(".dynstr").and_then(|s| s.data().ok()).expect("names of symbols");
    let versions = names.split(|byte| *byte == 0).filter_map(|name| name.strip_prefix(b"GLIBC_2."));
    let minors: BTreeSet<u32> = versions
        .map(|version| String::from_utf8_lossy(version).split('.').next().and_then(|n| n.parse().ok()))
        .map(|minor| minor.expect("a number"))
        .collect();
    assert!(!minors.is_empty() && minors.iter().all(|minor| *minor <= 36), "glibc 2: {minors:?}");
}
