//! `linmap man` and `linmap completions`: they have every option, as they are made from the command line itself.

use crate::run::linmap;

#[test]
fn every_command_has_a_page() {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("man1");
    linmap(&["man", "--directory", path.to_str().expect("a path in UTF-8")]).exits(0);
    let page = |name: &str| std::fs::read_to_string(path.join(name)).expect("a page");
    assert!(page("linmap.1").contains("linmap\\-stat(1)"), "{}", page("linmap.1"));
    for command in
        ["boot", "dump", "stat", "check", "walk", "diff", "report", "watch", "compare", "map", "plan"]
    {
        let page = page(&format!("linmap-{command}.1"));
        assert!(
            page.contains(&format!("linmap {command}")) || page.contains(&format!("linmap\\-{command}")),
            "{page}"
        );
        assert!(page.contains("Exit status"), "{page}");
        for section in ["EXIT STATUS", "ENVIRONMENT", "FILES"] {
            assert!(page.contains(section), "{section}: {page}");
        }
        let has_example = page.contains(".SH EXAMPLES\n.nf\n") && page.contains(&format!("linmap {command}"));
        assert!(has_example || command == "report", "{page}");
    }
    let whole = linmap(&["man"]).exits(0).stdout();
    assert!(whole.starts_with(".ie") && whole.contains(".TH linmap 1"), "{whole}");
}

/// Under the heading on halted guests are only options on them.
#[test]
fn options_are_under_their_own_headings() {
    for command in ["stat", "watch", "map", "dump", "check", "walk", "diff", "compare"] {
        let help = linmap(&[command, "-h"]).exits(0).stdout();
        let (_, halting) = help.split_once("Halting a guest (qemu: and gdb:):\n").expect("the heading");
        let lines = halting.lines().take_while(|line| !line.is_empty());
        let options: Vec<&str> = lines.filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!(options, ["--max-pause", "--resume"], "{command}");
    }
}

#[test]
fn shells_are_told_of_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = linmap(&["completions", shell]).exits(0).stdout();
        // The generators for the other shells leave values out.
        let values: &[&str] =
            if ["bash", "zsh", "fish"].contains(&shell) { &["selftest", "neoverse-v2"] } else { &[] };
        for word in ["stat", "check", "region", "range"].iter().chain(values) {
            assert!(script.contains(word), "{shell}: {word}");
        }
    }
    linmap(&["completions", "csh"]).exits(2).says("possible values: bash");
}

#[test]
fn where_nothing_can_be_written_is_said() {
    let ran = linmap(&["man", "--directory", "/dev/null/man1"]).exits(2).says("/dev/null/man1");
    assert_eq!(ran.stdout(), "");
}
