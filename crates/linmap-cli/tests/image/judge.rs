//! `linmap judge`: the image under QEMU's plugin, as it is, and as if it left something out. Needs the plugin, which is built
//! with the tests of its crate, and a QEMU that `dev/scripts/judge.sh --qemu` finds.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use serde_json::Value;
use tempfile::TempDir;

use crate::json_schema;

/// A directory with the plugin, as users have it.
fn plugins() -> &'static Path {
    static PLUGINS: LazyLock<TempDir> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("this program");
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let plugin = test.with_file_name("liblinmap_judge_plugin.so");
        assert!(plugin.is_file(), "`cargo tests --test symbols` builds {}", plugin.display());
        symlink(plugin, directory.path().join("linmap-judge-4.so")).expect("room");
        directory
    });
    PLUGINS.path()
}

/// The directory with the image and the QEMU of tests.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory").to_owned()
}

/// Returns a QEMU that takes plugins, or says that nothing is tested.
fn qemu() -> Option<PathBuf> {
    let fetched = target().join("judge/qemu-system-aarch64");
    let installed = PathBuf::from("qemu-system-aarch64");
    let takes_plugins = |program: &&PathBuf| {
        let version = Command::new(program).arg("--version").output();
        let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        text.is_ok_and(|text| text.split("version ").nth(1).is_some_and(|v| v.starts_with("10.")))
    };
    let found = [fetched, installed].iter().find(takes_plugins).cloned();
    if found.is_none() {
        eprintln!("NOT TESTED: there is no QEMU 10");
    }
    found
}

/// Judges a boot of the image by these CPUs, with more options.
fn judge(qemu: &Path, cpu: &str, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("judge").args(options).arg("--qemu").arg(qemu);
    command.arg("--plugins").arg(plugins());
    command.args(["--", "-M", "virt", "-cpu", cpu, "-smp", "2", "-m", "1G", "-nic", "none", "-nographic"]);
    command.arg("-kernel").arg(target().join("linmap.img")).args(["-append", "run=selftest"]);
    command.output().expect("the command runs")
}

/// Returns the document of a run that ended with a status.
#[track_caller]
fn document(output: &Output, status: i32) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{said}");
    let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
    let faults = json_schema::faults(&json_schema::read("linmap.judge-1"), &document);
    assert_eq!(faults, Vec::<String>::new());
    document
}

/// On CPUs that may abort the map is in pages; on those that never do it is split live.
#[test]
fn the_image_has_no_breach() {
    let Some(qemu) = qemu() else { return };
    for cpu in ["max", "max,midr=0xc00fac30"] {
        let document = document(&judge(&qemu, cpu, &["--json", "--strict"]), 0);
        let number = |key: &str| document["counts"][key].as_u64().unwrap_or_default();
        assert_eq!((&document["breaches"], &document["suspects"]), (&0.into(), &0.into()), "{document:#}");
        assert!(number("stores") > 100_000 && number("tlbis") > 100, "{cpu}: {}", document["counts"]);
        assert!(number("stores_that_concern_tables") > 1000, "{cpu}: {}", document["counts"]);
        assert_eq!(document["ended_by"], "QEMU ended");
    }
}

/// The guest runs unchanged, and the judge is not told of something.
#[test]
fn what_is_left_out_is_noticed() {
    let Some(qemu) = qemu() else { return };
    for (options, rule) in [
        (&["--hide", "tlbi"][..], "Freed"),
        (&["--localise"], "Freed"),
        (&["--hide", "isb"], "Unsynchronised"),
        (&["--hide", "dsb"], "NotVisible"),
    ] {
        let document = document(&judge(&qemu, "max", &[&["--json"], options].concat()), 1);
        let findings = document["findings"].as_array().expect("findings");
        let found = |f: &&Value| (&f["grade"], &f["rule"]) == (&"breach".into(), &rule.into());
        let first = findings.iter().find(found).unwrap_or_else(|| panic!("{options:?}: {document:#}"));
        assert!(first["right"].as_str().is_some_and(|right| !right.is_empty()), "{first:#}");
    }
}

/// With the functions of an ELF file: what people read, and what one function leaves out.
#[test]
fn functions_are_named() {
    let Some(qemu) = qemu() else { return };
    let elf = target().join("aarch64-unknown-none-softfloat/image/kernel");
    if !elf.exists() {
        eprintln!("NOT TESTED: the image is built for another target");
        return;
    }
    let elf = elf.to_str().expect("a path in UTF-8");
    let output = judge(&qemu, "max", &["--quiet", "--symbols", elf, "--hide", "tlbi"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("breach: a table page is given back") && text.contains("linmap::"), "{text}");
    assert!(text.contains("not judged: loads"), "{text}");
    let refused = judge(&qemu, "max", &["--symbols", elf, "--hide", "tlbi:no_such_function"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("no such function"));
}

/// The run ends when the console shows a text, or when its time is over.
#[test]
fn a_run_ends_when_it_shall() {
    let Some(qemu) = qemu() else { return };
    let shown = judge(&qemu, "max", &["--until", "a page amid"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("a page amid") && text.contains("the console showed the text"), "{text}");
    let timed = document(&judge(&qemu, "max", &["--json", "--seconds", "1"]), 0);
    assert!(["the time was over", "QEMU ended"].contains(&timed["ended_by"].as_str().expect("why")));
}

/// A log has every event; a rule and a function that are allowed do not count.
#[test]
fn what_is_known_is_allowed_and_all_is_logged() {
    let Some(qemu) = qemu() else { return };
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let (log, allowed) = (directory.path().join("log"), directory.path().join("allowed"));
    std::fs::write(&allowed, "# known\nStale no_such_function it is not there\n").expect("room");
    let [log_path, allowed] = [&log, &allowed].map(|path| path.to_str().expect("a path in UTF-8"));
    let judged = document(&judge(&qemu, "max", &["--json", "--log", log_path, "--allow", allowed]), 0);
    assert_eq!(judged["unused"], serde_json::json!(["Stale no_such_function"]));
    let text = std::fs::read_to_string(&log).expect("the log");
    let events = |name: &str| text.lines().filter(|line| line.contains(name)).count() as u64;
    let number = |key: &str| judged["counts"][key].as_u64().expect("a number");
    assert_eq!(events(r#""event":"tlbi""#), number("tlbis"));
    assert!(events(r#""event":"write""#) > 1000 && events(r#""event":"link""#) > 2, "{text:.1000}");
    // The machine and the tables are no events of the observer's own.
    let others = events(r#""event":"machine""#) + events(r#""event":"link""#);
    assert_eq!(text.lines().count() as u64 - others, number("events"));
}

/// `--check` names a missing plugin, and `--dry-run` prints the arguments that are added. Neither starts a guest.
#[test]
fn what_is_missing_is_said() {
    let Some(qemu) = qemu() else { return };
    let run = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.arg("judge").args(options).arg("--qemu").arg(&qemu);
        if !options.contains(&"--check") {
            command.args(["--", "-M", "virt"]);
        }
        let output = command.output().expect("the command runs");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let plugins = plugins().to_str().expect("a path in UTF-8");
    let there = run(&["--check", "--plugins", plugins]);
    assert!(there.0 == Some(0) && there.1.contains("plugin  /"), "{there:?}");
    let missing = run(&["--check", "--plugins", "/nowhere"]);
    assert!(missing.0 == Some(2) && missing.1.contains("plugin  missing"), "{missing:?}");
    let dry = run(&["--dry-run", "--plugins", plugins]);
    assert!(dry.0 == Some(0) && dry.1.contains("memory-backend=linmap-ram"), "{dry:?}");
}
