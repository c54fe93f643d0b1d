//! The examples of README.md on a real kernel are the command's output, except for the number of Debian's build.

use crate::guest::{Guest, Machine, PLAIN, named};
use crate::sources::linmap;

/// Returns the block of the README with this name.
fn shown(name: &str) -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../README.md");
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let begin = format!("<!-- figures: linux {name} -->\n```text\n");
    let (_, rest) = text.split_once(&begin).unwrap_or_else(|| panic!("no {begin}"));
    let (block, _) = rest.split_once("```\n<!-- figures end -->").expect("an end");
    block.to_owned()
}

/// Returns `6.1.0-56-arm64` without the number of the build.
fn without_build(text: &str) -> String {
    let mut parts = text.split("6.1.0-");
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result += "6.1.0-N";
        result += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    result
}

#[test]
fn the_readme_shows_debian_12() {
    let guest = Guest::boot(Machine { kernel: "6.1", ..PLAIN });
    let output = linmap(&["stat", &named("qemu:", &guest.qmp())]);
    let printed = String::from_utf8(output.stdout).expect("UTF-8");
    let shown = shown("stat-6.1");
    assert_eq!(without_build(&printed), without_build(&shown), "README.md should show:\n{printed}");
}
