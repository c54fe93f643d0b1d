//! The program on a workspace of its own: what it prints, and that it fails when it should.

use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A workspace of one crate, `made-up`, whose file `low` has this text; `high` uses `low`.
fn workspace(low: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let write = |path: &str, text: &str| std::fs::write(directory.path().join(path), text).expect("a file");
    for name in ["src", "docs"] {
        std::fs::create_dir(directory.path().join(name)).expect("a directory");
    }
    write("Cargo.toml", "[package]\nname = \"made-up\"\nedition = \"2024\"\n");
    write("docs/ARCHITECTURE.md", "no room has a row\n");
    write(
        "src/lib.rs",
        "//! | room | idea |\n//! |---|---|\n//! | `low` | a |\n//! | `high` | b |\nmod low;\nmod high;\n",
    );
    write("src/high.rs", "use crate::low::Low;\npub struct High(Low);\n");
    write("src/low.rs", low);
    directory
}

fn house(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_house"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the program starts")
}

fn printed(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("the program prints text")
}

#[test]
fn a_crate_in_order_passes() {
    let directory = workspace("pub struct Low;\n");
    for arguments in [&["lint"][..], &["lint", "made-up"]] {
        let output = house(directory.path(), arguments);
        assert_eq!((output.status.code(), printed(&output).as_str()), (Some(0), ""), "{output:?}");
    }
    assert_eq!(
        printed(&house(directory.path(), &["arrows"])),
        "src/high.rs:1 -> src/low.rs by crate::low::Low\n"
    );
}

#[test]
fn a_circle_and_an_arrow_against_the_order_fail() {
    let directory = workspace("pub struct Low;\n\nfn f(_: crate::high::High) {}\n");
    let output = house(directory.path(), &["lint", "made-up"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        printed(&output),
        "made-up: 2 files use each other; the shortest circle:\n  \
         src/high.rs:1 -> src/low.rs by crate::low::Low\n  \
         src/low.rs:3 -> src/high.rs by crate::high::High\n\
         made-up: against the order of rooms: src/low.rs:3 -> src/high.rs by crate::high::High\n"
    );
}

#[test]
fn figures_are_a_row_for_each_crate() {
    let directory = workspace("pub struct Low;\nfn f(_: crate::high::High) {\n}\n");
    let printed = printed(&house(directory.path(), &["figures"]));
    let row = printed.lines().last().expect("a row");
    assert_eq!(row, "| made-up | 3 | 11 | 3 | 6 | 1 | 2 | 2 | 2 | 1 | 2 |");
}

#[test]
fn a_library_that_two_crates_compile_is_judged_once() {
    let directory = workspace("pub struct Low;\n\nfn f(_: crate::high::High) {}\n");
    let manifest = directory.path().join("Cargo.toml");
    let mut root = std::fs::read_to_string(&manifest).expect("a manifest");
    root.push_str("[workspace]\nmembers = [\"again\"]\n");
    std::fs::write(manifest, root).expect("a file");
    std::fs::create_dir(directory.path().join("again")).expect("a directory");
    let again = "[package]\nname = \"again\"\nedition = \"2024\"\n[lib]\npath = \"../src/lib.rs\"\n";
    std::fs::write(directory.path().join("again/Cargo.toml"), again).expect("a file");
    let count = |arguments: &[&str], text: &str| {
        printed(&house(directory.path(), arguments)).lines().filter(|line| line.contains(text)).count()
    };
    assert_eq!(count(&["lint"], "files use each other"), 1);
    assert_eq!(count(&["figures"], "| 3 |"), 1);
    // By its name it can be asked for.
    assert_eq!(count(&["figures", "again"], "| again |"), 1);
}

#[test]
fn an_unknown_crate_is_an_error() {
    let directory = workspace("pub struct Low;\n");
    let output = house(directory.path(), &["lint", "other"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no crate 'other'"), "{output:?}");
}

#[test]
fn words_are_found_in_files_of_the_repository() {
    let directory = workspace("pub struct Low;\n");
    let git = |arguments: &[&str]| {
        let status = Command::new("git").args(arguments).current_dir(directory.path()).status();
        assert!(status.expect("git starts").success());
    };
    git(&["init", "--quiet"]);
    git(&["add", "."]);
    assert_eq!(house(directory.path(), &["words", "src"]).status.code(), Some(0));
    std::fs::write(directory.path().join("src/low.rs"), ["/// Whether", " it is."].concat()).expect("a file");
    let output = house(directory.path(), &["words", "src"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).starts_with("src/low.rs:1: 'Whether'; say "), "{output:?}");
    assert_eq!(house(directory.path(), &["words", "docs/ARCHITECTURE.md"]).status.code(), Some(0));
}
