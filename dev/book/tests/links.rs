//! The check of links fails where a link is broken, and passes the documents of the repository.

use std::fs;
use std::path::Path;

use book::{Fault, check};

/// Checks a repository of these files, and returns line and fault of each broken link.
fn faults(files: &[(&str, &str)]) -> Vec<(usize, Fault)> {
    let root = tempfile::tempdir().expect("a directory");
    fs::create_dir(root.path().join("docs")).expect("room");
    for (name, text) in files {
        fs::write(root.path().join(name), text).expect("room");
    }
    let broken = check(root.path()).expect("documents that can be read");
    broken.into_iter().map(|broken| (broken.line, broken.fault)).collect()
}

const CHAPTER: (&str, &str) = ("docs/live.md", "# Live changes\n\n## One page\n");
const SOURCE: (&str, &str) = ("main.rs", "// ANCHOR: entry\nfn main() {}\n// ANCHOR_END: entry\n");

#[test]
fn links_that_lead_somewhere_pass() {
    let text = "# Title\n[a](docs/live.md) [b](docs/live.md#one-page) [c](#title) [d](main.rs)\n\
                [e](https://example.org/nowhere)\n\n```rust\n{{#include main.rs}}\n{{#include main.rs:entry}}\n```\n";
    assert_eq!(faults(&[("README.md", text), CHAPTER, SOURCE]), []);
}

#[test]
fn a_broken_link_is_found() {
    for (link, fault) in [
        ("docs/dead.md", Fault::Missing),
        ("docs/dead.md#one-page", Fault::Missing),
        ("docs", Fault::Directory),
        ("../README.md", Fault::Outside),
        ("/docs/live.md", Fault::Outside),
    ] {
        let text = format!("# Title\n\n[a]({link})\n");
        assert_eq!(faults(&[("README.md", &text), CHAPTER]), [(3, fault)], "{link}");
    }
}

#[test]
fn a_broken_anchor_is_found() {
    for (link, fault) in [
        ("docs/live.md#one-pages", Fault::Heading("one-page".to_owned())),
        ("#titel", Fault::Heading("title".to_owned())),
        ("main.rs#L1", Fault::NoDocument),
    ] {
        let text = format!("# Title\n[a]({link})\n");
        assert_eq!(faults(&[("README.md", &text), CHAPTER, SOURCE]), [(2, fault)], "{link}");
    }
}

#[test]
fn a_broken_include_or_reference_is_found() {
    let text = "{{#include dead.rs}}\n{{#include main.rs:dead}}\n[a][dead]\n";
    let expected = [(1, Fault::Missing), (2, Fault::Anchor("dead".to_owned())), (3, Fault::Undefined)];
    assert_eq!(faults(&[("README.md", text), SOURCE]), expected);
}

#[test]
fn a_path_that_does_not_exist_is_found() {
    for (path, exists) in [
        ("docs/live.md", true),
        ("docs/dead.md", false),
        ("docs/no/such", false),
        ("gone/lib.rs", false),
        ("/etc/gone.toml", true),
        ("mm/gone.c", true),
        ("target/gone.md", true),
        ("docs/*.md", true),
    ] {
        let text = format!("# Title\n\n`{path}`\n");
        let expected = if exists { vec![] } else { vec![(3, Fault::Missing)] };
        assert_eq!(faults(&[("README.md", &text), CHAPTER]), expected, "{path}");
    }
}

#[test]
fn a_document_without_a_chapter_is_found() {
    let summary = ("docs/SUMMARY.md", "# Summary\n\n- [Live](live.md)\n");
    assert_eq!(faults(&[summary, CHAPTER]), []);
    assert_eq!(faults(&[summary, CHAPTER, ("docs/stray.md", "# Stray\n")]), [(1, Fault::NoChapter)]);
}

#[test]
fn every_link_and_path_of_the_project_leads_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("a workspace");
    let broken = check(root).expect("documents that can be read");
    assert!(broken.is_empty(), "{}", broken.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
}
