//! `--help` of each script is its first comment, and does nothing else. What is no option is refused.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// These are no programs for people: three are parts of others, one runs what it is given.
const PARTS: [&str; 4] = ["debian.sh", "help.sh", "kernel-target.sh", "rust.sh"];

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn run(script: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(Path::new("dev/scripts").join(script));
    command.args(arguments).current_dir(project()).output().expect("the script starts")
}

#[test]
fn each_script_has_help() {
    let mut scripts = 0;
    for entry in std::fs::read_dir(project().join("dev/scripts")).expect("a directory") {
        let path = entry.expect("a file").path();
        let name = path.file_name().and_then(|name| name.to_str()).expect("text").to_owned();
        if !name.ends_with(".sh") || PARTS.contains(&&*name) {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        let head: Vec<&str> = text.lines().skip(1).take_while(|line| line.starts_with('#')).collect();
        let head: Vec<&str> = head.iter().map(|line| line.strip_prefix("# ").unwrap_or(&line[1..])).collect();
        // Otherwise it would run.
        let first = text.lines().skip(1 + head.len()).nth(2);
        assert_eq!(first, Some(". dev/scripts/help.sh"), "{name}: --help is looked for first");
        let help = run(&name, &["--help"]);
        assert_eq!(String::from_utf8_lossy(&help.stdout).trim_end(), head.join("\n"), "{name}");
        assert!(help.status.success() && help.stderr.is_empty(), "{name}: {help:?}");
        scripts += 1;
    }
    assert!(scripts > 15, "{scripts} scripts");
}

#[test]
fn what_is_no_option_is_refused() {
    for (script, arguments) in [
        ("setup.sh", &["--nosuch"][..]),
        ("rust.sh", &[]),
        ("rust.sh", &["--kernel"]),
        ("test.sh", &["--nosuch"]),
        ("test-linux-port.sh", &["4k", "--nosuch"]),
        ("test-clean.sh", &["--nosuch"]),
    ] {
        let refused = run(script, arguments);
        let said = [refused.stdout.as_slice(), &refused.stderr].concat();
        assert!(!refused.status.success() && !said.is_empty(), "{script} {arguments:?}: {refused:?}");
    }
}
