//! `linmap judge`: the image under QEMU's plugin, as it is, and as if it left something out. Needs the plugin, which is built
//! with the tests of its crate, and a QEMU that `dev/scripts/judge.sh --qemu` finds.

use std::ffi::OsString;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::LazyLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::json_schema;

/// A directory with the plugin, as users have it.
pub(crate) fn plugins() -> &'static Path {
    static PLUGINS: LazyLock<TempDir> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("this program");
        let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let plugin = test.with_file_name("liblinmap_judge_plugin.so");
        assert!(plugin.is_file(), "`cargo tests --test symbols` builds {}", plugin.display());
        symlink(plugin, directory.path().join("linmap-judge-4.so")).expect("room");
        symlink(newer(), directory.path().join("linmap-judge-7.so")).expect("room");
        directory
    });
    PLUGINS.path()
}

/// The plugin for QEMU 11.1, if `make judge` has built it.
fn newer() -> PathBuf {
    target().join("judge/linmap-judge-7.so")
}

/// The directory with the image and the QEMU of tests.
pub(crate) fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("the target directory").to_owned()
}

/// Returns a QEMU that takes plugins, or says that nothing is tested.
pub(crate) fn qemu() -> Option<PathBuf> {
    let fetched = target().join("judge/qemu-system-aarch64");
    let installed = PathBuf::from("qemu-system-aarch64");
    let takes_plugins = |program: &&PathBuf| {
        let version = Command::new(program).arg("--version").output();
        let text = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        let text = text.unwrap_or_default();
        let version = text.split("version ").nth(1).unwrap_or_default();
        version.starts_with("10.") || version.starts_with("11.") && newer().exists()
    };
    let found = [fetched, installed].iter().find(takes_plugins).cloned();
    if found.is_none() {
        eprintln!("NOT TESTED: there is no QEMU 10, nor one of 11 with the plugin of `make judge`");
    }
    found
}

/// Judges a boot of the image by these CPUs, with more options.
fn judge(qemu: &Path, cpu: &str, options: &[&str]) -> Output {
    command(qemu).args(options).args(machine(cpu)).output().expect("the command runs")
}

/// The command `judge` with a QEMU and the plugins of this build.
pub(crate) fn command(qemu: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("judge").arg("--qemu").arg(qemu).arg("--plugins").arg(plugins());
    command
}

/// QEMU's arguments for the image.
fn machine(cpu: &str) -> Vec<OsString> {
    let image = target().join("linmap.img").into_os_string();
    let machine = ["--", "-M", "virt", "-cpu", cpu, "-smp", "2", "-m", "1G", "-nic", "none", "-nographic"];
    let kernel = ["-append", "run=selftest", "-kernel"];
    machine.iter().chain(&kernel).map(OsString::from).chain([image]).collect()
}

/// The same for an image that never ends.
fn hanging() -> Vec<OsString> {
    let hangs = |word: OsString| if word == "run=selftest" { "run=hang".into() } else { word };
    machine("max").into_iter().map(hangs).collect()
}

/// Returns the document of a run that ended with a status.
#[track_caller]
pub(crate) fn document(output: &Output, status: i32) -> Value {
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
    // The image has lines, of its own code and of the library's.
    assert!(text.contains("crates/linmap/src/") && text.contains(".rs:"), "{text}");
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
    let timed = command(&qemu).args(["--json", "--seconds", "3"]).args(hanging()).output();
    let timed = document(&timed.expect("the command runs"), 0);
    assert_eq!(timed["ended_by"], "the time was over");
}

/// A machine that cannot be judged, or whose tables are elsewhere, is no success.
#[test]
fn a_guest_of_which_nothing_is_judged_fails() {
    let Some(qemu) = qemu() else { return };
    for (options, machine, said) in [
        (&["--ram-base", "0x80000000"][..], machine("max"), "no table was judged"),
        (&[], ["--", "-M", "virt", "-kernel", "/nowhere"].map(OsString::from).into(), "QEMU ended with"),
    ] {
        let output = command(&qemu).arg("--quiet").args(options).args(machine).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && text.contains(said), "{output:?}");
    }
}

/// QEMU ends with the command, even if that is killed.
#[test]
fn no_qemu_is_left() {
    let Some(qemu) = qemu() else { return };
    let mut child = command(&qemu).args(hanging()).stdout(Stdio::piped()).spawn().expect("the command runs");
    let console = BufReader::new(child.stdout.take().expect("piped"));
    let mut lines = console.lines().map_while(Result::ok);
    lines.next().expect("the guest says something");
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it runs");
    child.wait().expect("it has ended");
    // The console is closed once QEMU has ended.
    assert!(lines.count() < 1_000_000);
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

/// A log that is judged again has the same findings, at the same events. `--at` shows what CPUs have at one of them.
#[test]
fn a_log_is_judged_again() {
    let Some(qemu) = qemu() else { return };
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let log = directory.path().join("log");
    let log = log.to_str().expect("a path in UTF-8");
    let judged = document(&judge(&qemu, "max", &["--json", "--log", log, "--localise"]), 1);
    let replay = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.args(["judge", "--replay", log]).args(more).output().expect("the command runs")
    };
    let again = document(&replay(&["--json"]), 1);
    assert_eq!((&judged["findings"], &judged["sites"]), (&again["findings"], &again["sites"]));
    assert_eq!((&judged["vectors"], &again["ended_by"]), (&again["vectors"], &"the log ended".into()));
    let findings = again["findings"].as_array().expect("findings");
    let breach = findings.iter().find(|f| f["grade"] == "breach" && f["tlbi"].is_object());
    let breach = breach.expect("a TLBI was for one CPU alone");
    let at = breach["store"]["step"]["event"].to_string();
    let moment = document(&replay(&["--json", "--at", &at]), 0);
    assert_eq!(moment["at"]["event"], breach["store"]["step"]["event"]);
    let facts: Vec<&str> =
        moment["at"]["facts"].as_array().expect("facts").iter().flat_map(Value::as_str).collect();
    assert!(facts.iter().any(|f| f.starts_with("the tables at")), "{moment:#}");
    assert!(facts.iter().any(|f| f.contains("may hold")), "{moment:#}");
    let text = replay(&["--at", &at]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(text.contains(&format!("event {at}: cpu")) && text.contains("may hold"), "{text}");
    for (options, said) in [
        (&["--at", "99999999"][..], "it has no event 99999999"),
        (&["--at", "1", "--", "-M", "virt"], "cannot be used"),
    ] {
        let refused = replay(options);
        assert_eq!(refused.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&refused.stderr).contains(said), "{refused:?}");
    }
    std::fs::write(log, "no log\n").expect("room");
    let refused = replay(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("line 1"), "{refused:?}");
}

/// The machine stands still at its first breach, and its monitor is open.
#[test]
fn a_machine_is_paused_at_a_breach() {
    let Some(qemu) = qemu() else { return };
    let mut command = command(&qemu);
    command.args(["--quiet", "--stop", "--localise"]).args(machine("max"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command runs");
    let said = BufReader::new(child.stderr.take().expect("piped"));
    let paused = said.lines().map_while(Result::ok).find(|line| line.contains("is paused"));
    let paused = paused.expect("it says that it is paused");
    let source = paused.split('`').find_map(|word| word.strip_prefix("linmap dump ")).expect("a command");
    let dump = Command::new(env!("CARGO_BIN_EXE_linmap")).args(["dump", source]).output().expect("it runs");
    let tables = String::from_utf8_lossy(&dump.stdout);
    assert!(dump.status.success() && tables.contains("Linear Mapping"), "{dump:?}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("breach: ") && text.contains("1 breaches"), "{text}");
}

/// Build systems start a QEMU that judges: its console and exit status are QEMU's, and what cannot be judged runs all the same.
#[test]
fn a_folder_has_a_qemu_that_judges() {
    let Some(qemu) = qemu() else { return };
    let directory = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let linmap = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.arg("judge").args(arguments).arg(directory.path()).output().expect("the command runs")
    };
    let (program, plugins) = (qemu.to_str().expect("UTF-8"), plugins().to_str().expect("UTF-8"));
    let made = linmap(&["--qemu", program, "--plugins", plugins, "--env"]);
    assert!(made.status.success(), "{made:?}");
    assert_eq!(linmap(&["--report"]).status.code(), Some(2));
    let run = |arguments: &[&str]| {
        let mut command = Command::new(directory.path().join("qemu-system-aarch64"));
        command.args(arguments).output().expect("QEMU runs")
    };
    let version = run(&["--version"]);
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("QEMU emulator version 1"), "{version:?}");
    let machine: Vec<OsString> = machine("max").split_off(1);
    let machine: Vec<&str> = machine.iter().map(|word| word.to_str().expect("UTF-8")).collect();
    let booted = run(&machine);
    let console = String::from_utf8_lossy(&booted.stdout);
    assert!(booted.status.success() && console.contains(r#""finished":true"#), "{booted:?}");
    let report = linmap(&["--json", "--report"]);
    let sum: Value = serde_json::from_slice(&report.stdout).expect("a document");
    assert_eq!(
        (report.status.code(), &sum["runs"], &sum["ok"]),
        (Some(0), &1.into(), &true.into()),
        "{sum:#}"
    );

    // One that is killed, as build systems do when a test has passed: it is judged until then.
    let mut command = Command::new(directory.path().join("qemu-system-aarch64"));
    let mut child = command.args(&hanging()[1..]).stdout(Stdio::piped()).spawn().expect("QEMU runs");
    std::thread::sleep(std::time::Duration::from_secs(5));
    child.kill().and_then(|()| child.wait()).expect("it runs");
    let report = linmap(&["--json", "--report"]);
    let sum: Value = serde_json::from_slice(&report.stdout).expect("a document");
    assert_eq!(
        (report.status.code(), &sum["runs"], &sum["killed"]),
        (Some(0), &2.into(), &1.into()),
        "{sum:#}"
    );

    // One whose CPUs QEMU does not emulate, and which does not start; and a guest that is wrong.
    let refused = run(&["-M", "none", "-smp", "1", "-accel", "tcg", "-enable-kvm", "-S", "-bad"]);
    assert!(!refused.status.success(), "{refused:?}");
    let wrong = ["-device", "loader,addr=0x47000000,data=1,data-len=8", "-kernel"];
    let tables = target().join("tables.elf");
    let tables = tables.to_str().expect("UTF-8");
    let virt = ["-M", "virt,mte=on", "-cpu", "max", "-m", "128M", "-nic", "none", "-nographic"];
    run(&[&virt[..], &wrong, &[tables]].concat());
    let report = linmap(&["--json", "--report"]);
    let sum: Value = serde_json::from_slice(&report.stdout).expect("a document");
    let faults = json_schema::faults(&json_schema::read("linmap.judge-report-1"), &sum);
    assert_eq!(faults, Vec::<String>::new());
    assert_eq!((report.status.code(), &sum["runs"]), (Some(1), &4.into()), "{sum:#}");
    let why = sum["not_judged"][0]["why"].as_str().expect("a reason");
    assert!(why.contains("TCG") && sum["breaches"].as_u64() > Some(3), "{sum:#}");
    let annotations = linmap(&["--github", "--report"]);
    let annotations = String::from_utf8_lossy(&annotations.stdout);
    let all = annotations.lines().all(|line| line.starts_with("::") && line.matches("::").count() >= 2);
    assert!(all && annotations.contains("::error title=linmap judge%3A Freed::breach: "), "{annotations}");
    let text = linmap(&["--report"]);
    let text = String::from_utf8_lossy(&text.stdout);
    assert!(
        text.contains("by_stp") && text.contains("4 runs, 1 of them") && text.contains("not judged: -M none"),
        "{text}"
    );
    let no_names = linmap(&["--symbols", "/nowhere", "--report"]);
    assert_eq!(no_names.status.code(), Some(2), "{no_names:?}");

    // A folder that takes no file: QEMU runs all the same.
    let gone = directory.path().join("gone");
    std::fs::rename(directory.path().join("qemu-system-aarch64"), &gone).expect("room");
    let script = std::fs::read_to_string(&gone).expect("the script");
    let nowhere = script.replace(&*directory.path().to_string_lossy(), "/nowhere");
    let output = Command::new("sh").args(["-c", &nowhere, "sh"]).args(&machine).output().expect("sh");
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(r#""finished":true"#), "{output:?}");
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
    let mut nothing = Command::new(env!("CARGO_BIN_EXE_linmap"));
    nothing.args(["judge", "--check", "--qemu", "/nowhere/qemu", "--plugins", "/nowhere"]);
    let nothing = nothing.output().expect("the command runs");
    let said = String::from_utf8_lossy(&nothing.stdout);
    assert!(nothing.status.code() == Some(2) && said.matches("missing: ").count() == 3, "{nothing:?}");
    let there = run(&["--check", "--plugins", plugins]);
    assert!(there.0 == Some(0) && there.1.contains("plugin  /"), "{there:?}");
    let missing = run(&["--check", "--plugins", "/nowhere"]);
    assert!(missing.0 == Some(2) && missing.1.contains("plugin  missing"), "{missing:?}");
    let dry = run(&["--dry-run", "--plugins", plugins]);
    assert!(dry.0 == Some(0) && dry.1.contains("memory-backend=linmap-ram"), "{dry:?}");
}
