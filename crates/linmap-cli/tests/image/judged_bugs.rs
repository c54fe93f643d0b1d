//! `linmap judge` names published bugs: the kernel `examples/bugs` has each wrong and mended. A word of QEMU's loader chooses.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::judge::{command, document, qemu, target};

/// The grade, the rule and the file of each bug, in their order, and why the TLBI missed, where there was one.
const BUGS: [(&str, &str, &str, Option<&str>); 8] = [
    ("suspect", "Stale", "zephyr_98344.rs", Some("it is for its own CPU alone")),
    ("suspect", "Stale", "zephyr_115708.rs", Some("it is for other addresses")),
    ("breach", "TtbrSwitch", "zephyr_37600.rs", None),
    ("breach", "Stale", "tgoskits_2008.rs", Some("no barrier had ordered the store before it")),
    ("breach", "NotVisible", "osv_1117.rs", None),
    ("suspect", "Stale", "asterinas_3672.rs", None),
    ("breach", "Unsynchronised", "edk2_4418.rs", None),
    ("breach", "Unfilled", "linux_vmemmap.rs", None),
];

/// Judges a bug by its number, from 101 on mended.
fn judge(qemu: &Path, number: usize, options: &[&str]) -> Output {
    let mut command = command(qemu);
    command.arg("--json").args(options).args(["--", "-M", "virt", "-cpu", "max", "-smp", "2", "-m", "128M"]);
    command.args(["-nic", "none", "-nographic"]);
    command.args(["-device", &format!("loader,addr=0x47000000,data={number},data-len=8")]);
    command.arg("-kernel").arg(target().join("bugs.elf")).output().expect("the command runs")
}

/// Judges a bug, wrong or mended; returns the findings but for hints.
fn findings(number: usize, is_right: bool) -> Vec<Value> {
    let Some(qemu) = qemu() else { return Vec::new() };
    let output = judge(&qemu, number + if is_right { 100 } else { 0 }, &["--strict"]);
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(console.lines().any(|line| line.trim() == if is_right { "right" } else { "wrong" }), "{console}");
    let document = document(&output, if is_right { 0 } else { 1 });
    let findings = document["findings"].as_array().expect("findings");
    findings.iter().filter(|finding| finding["grade"] != "hint").cloned().collect()
}

#[test]
fn each_bug_is_named_at_its_line_and_nothing_else() {
    if qemu().is_none() {
        return;
    }
    for (n, (grade, rule, file, why)) in BUGS.into_iter().enumerate() {
        let found = findings(n + 1, false);
        let [finding] = &found[..] else { panic!("{file}: {found:#?}") };
        assert_eq!((&finding["grade"], &finding["rule"]), (&grade.into(), &rule.into()), "{finding:#}");
        let line = finding["step"]["line"].as_str().expect("DWARF");
        let (path, line) = line.rsplit_once(':').expect("a line");
        assert!(path.ends_with(&format!("examples/bugs/src/{file}")), "{finding:#}");
        let text = std::fs::read_to_string(path).expect("the source");
        let at = text.lines().nth(line.parse::<usize>().expect("a number") - 1).expect("a line");
        assert!(["store!", "tlbi!", "msr ttbr0_el1"].iter().any(|step| at.contains(step)), "{file}: {at}");
        assert_eq!(finding["tlbi"]["why"].as_str(), why, "{finding:#}");
    }
}

#[test]
fn a_bug_that_is_mended_is_silent() {
    for number in 1..=BUGS.len() {
        assert_eq!(findings(number, true), Vec::<Value>::new(), "{number}");
    }
}

/// A suspect counts with `--strict` alone, and a breach does not once a row allows it: by its function, or by its address.
#[test]
fn findings_count_as_it_is_wished() {
    let Some(qemu) = qemu() else { return };
    document(&judge(&qemu, 1, &[]), 0);
    document(&judge(&qemu, 1, &["--strict"]), 1);
    let breach = document(&judge(&qemu, 5, &[]), 1);
    let step = &breach["findings"][0]["step"];
    let [function, pc] = ["function", "pc"].map(|name| step[name].as_str().expect("a text"));
    let function = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    for name in [function, pc] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), format!("NotVisible `{name}` it is known\n")).expect("room");
        let allow = file.path().to_str().expect("UTF-8");
        let allowed = document(&judge(&qemu, 5, &["--allow", allow]), 0);
        assert_eq!(allowed["findings"][0]["allowed"], "it is known");
    }
}
