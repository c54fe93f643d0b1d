//! The files of both plugins: what QEMU looks for in them, and what they need of the machine that loads them. That of `linmap judge` is
//! built for its tests as well, that of `make counts` here, if the installed QEMU takes one. `LINMAP_PLUGINS` names others, of any 64-bit machine, as a list of paths: `dev/scripts/judge.sh` has those of packages tested.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::{env, fs, str};

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSection, ObjectSymbol};

/// The plugin of `make counts`.
static LINES: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../dev/scripts/lines.sh");
    let output = Command::new(script).output().expect("the script runs");
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Some(said.trim().into()),
        Some(77) => {
            eprintln!("NOT TESTED: the plugin of `make counts`: {}", errors.trim());
            None
        }
        _ => panic!("{errors}"),
    }
});

/// Shows the files to a test: those that are named, or the plugin beside this program and the one of `make counts`.
fn for_each_plugin(test: impl Fn(&Path, ElfFile64<'_, Endianness>)) {
    let beside = || env::current_exe().expect("this program").with_file_name("liblinmap_judge_plugin.so");
    let named = env::var_os("LINMAP_PLUGINS");
    let own = || [beside()].into_iter().chain(LINES.clone()).collect();
    let paths: Vec<PathBuf> = named.map_or_else(own, |list| env::split_paths(&list).collect());
    for path in paths {
        let bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        test(&path, ElfFile64::parse(&*bytes).expect("an ELF file"));
    }
}

/// Returns the strings of the table that names dynamic symbols, their versions and the libraries.
fn dynamic_names<'a>(file: &ElfFile64<'a, Endianness>) -> BTreeSet<&'a str> {
    let names = file.section_by_name(".dynstr").and_then(|s| s.data().ok()).expect("names of symbols");
    str::from_utf8(names).expect("text").split('\0').collect()
}

#[test]
fn qemu_finds_what_it_looks_for() {
    for_each_plugin(|path, file| {
        let symbols = file.dynamic_symbols().filter(|s| s.is_definition());
        let defined: BTreeSet<String> = symbols.map(|s| s.name().expect("a name").to_owned()).collect();
        let wanted = ["qemu_plugin_install", "qemu_plugin_version"].map(str::to_owned);
        assert_eq!(defined, BTreeSet::from(wanted), "{}", path.display());
    });
}

/// Debian 12 has glibc 2.36: a plugin that was built on a newer system is loaded there, too.
#[test]
fn debian_12_has_what_it_needs() {
    for_each_plugin(|path, file| {
        let names = dynamic_names(&file);
        let versions = names.iter().filter_map(|name| name.strip_prefix("GLIBC_2."));
        let minors: BTreeSet<u32> = versions
            .map(|version| version.split('.').next().and_then(|n| n.parse().ok()).expect("a number"))
            .collect();
        let fine = !minors.is_empty() && minors.iter().all(|minor| *minor <= 36);
        assert!(fine, "{}: glibc 2: {minors:?}", path.display());
    });
}

/// The Debian package depends on nothing: where QEMU is, these are. Some linkers give the plugin its own name, too.
#[test]
fn it_needs_no_library_but_those_of_c() {
    for_each_plugin(|path, file| {
        let names = dynamic_names(&file).into_iter().filter(|name| name.contains(".so"));
        let libraries: Vec<&str> = names.filter(|name| !name.starts_with("liblinmap_")).collect();
        let known = ["libc.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];
        assert!(libraries.iter().all(|name| known.contains(name)), "{}: {libraries:?}", path.display());
    });
}
