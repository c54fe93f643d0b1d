//! Outputs: full devices, narrow terminals, locales.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::core::debian;
use crate::run::{linmap, piped};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env("LC_ALL", "C.UTF-8");
    command
}

/// The version names a commit of the repository that the command was built from, if there is one.
#[test]
fn the_version_names_the_commit() {
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        let git = git.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).stderr(Stdio::null());
        git.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    let shown = linmap(&["--version"]).exits(0).stdout();
    let rest = shown.trim_end().strip_prefix(concat!("linmap ", env!("CARGO_PKG_VERSION"))).expect(&shown);
    if git(&["rev-parse", "--git-dir"]) {
        let commit = rest.strip_prefix(" (").and_then(|rest| rest.strip_suffix(')')).expect(&shown);
        assert!(git(&["cat-file", "-e", &format!("{commit}^{{commit}}")]), "{shown}");
    } else {
        assert_eq!(rest, "");
    }
}

/// Every way to write to stdout.
#[test]
fn a_full_device_is_an_error() {
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let lines: [&[&str]; 25] = [
        &["--help"],
        &["-h"],
        &["--version"],
        &["help"],
        &["help", "stat"],
        &["stat", "--help"],
        &["stat", path],
        &["stat", path, "--json"],
        &["dump", path],
        &["dump", path, "--json"],
        &["dump", path, "--csv"],
        &["check", path],
        &["check", path, "--json"],
        &["walk", path, "_stext"],
        &["walk", path, "_stext", "--json"],
        &["diff", path, path],
        &["diff", path, path, "--json"],
        &["plan", "--ram", "4G"],
        &["plan", "--ram", "4G", "--json"],
        &["tlb", "--help"],
        &["report", "--help"],
        &["man"],
        &["completions", "bash"],
        &["stat", "/nonexistent", "--json"],
        &["stat", "--json", "--nonsense"],
    ];
    for line in lines {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
        let output = command(line).stdout(full).output().expect("linmap runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line:?}: {stderr}");
        let is_refused = line.contains(&"/nonexistent") || line.contains(&"--nonsense");
        assert!(is_refused || stderr.contains("No space left"), "{line:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{line:?}: {stderr}");
    }
}

/// Returns the output of a command on a terminal of so many columns and of this kind.
fn on_a_terminal(arguments: &[&str], columns: u16, kind: &str) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })
        .expect("a size");
    let name = ptsname(&master, Vec::new()).expect("a name");
    let name = name.to_str().expect("a path in UTF-8").to_owned();
    let slave = OpenOptions::new().read(true).write(true).open(name).expect("a terminal");
    let mut command = command(arguments);
    command.arg("--color=never").env("TERM", kind).stdout(slave).stderr(Stdio::null());
    let mut child = command.spawn().expect("linmap runs");
    // The other end is closed when the last owner is dropped.
    drop(command);
    let mut shown = Vec::new();
    let mut master = File::from(master);
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = master.read(&mut piece) {
        shown.extend(&piece[..read]);
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    String::from_utf8(shown).expect("UTF-8").replace('\r', "")
}

#[test]
fn tables_are_no_wider_than_the_terminal() {
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let wide = on_a_terminal(&["stat", path], 100, "xterm");
    assert_eq!(wide, core.run("stat", &[]).exits(0).stdout());
    let narrow = on_a_terminal(&["stat", path], 44, "xterm");
    // The tables: from the line before a rule to the empty line after it.
    let blocks: Vec<&str> = narrow.split("\n\n").filter(|block| block.contains('─')).collect();
    assert_eq!(blocks.len(), 2, "{narrow}");
    for line in blocks.iter().flat_map(|block| block.lines()) {
        assert!(line.chars().count() <= 44, "{narrow}");
    }
    assert!(narrow.contains("65,536") && narrow.contains("2,849x"), "numbers are whole: {narrow}");
}

/// One that only prints lines gets lines.
#[test]
fn a_dumb_terminal_gets_no_sequences() {
    let core = debian().core(|_| {});
    let path = core.path();
    let line = ["watch", path.to_str().expect("a path in UTF-8"), "--count", "1"];
    assert!(on_a_terminal(&line, 100, "xterm").starts_with("\x1b[H\x1b[J"));
    assert_eq!(on_a_terminal(&line, 100, "dumb"), linmap(&line).exits(0).stdout());
}

#[test]
fn a_locale_without_utf_8_gets_ascii() {
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let shown = |locale: &[(&str, &str)]| {
        let mut command = command(&["stat", path]);
        for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
            command.env_remove(name);
        }
        let output = command.envs(locale.iter().copied()).output().expect("linmap runs");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for locale in [&[("LC_ALL", "C")][..], &[("LANG", "POSIX")], &[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]]
    {
        let shown = shown(locale);
        assert!(shown.is_ascii() && shown.contains("\n-----"), "{locale:?}: {shown}");
    }
    for locale in [&[][..], &[("LANG", "de_DE.utf8")], &[("LC_CTYPE", "C.UTF-8"), ("LANG", "C")]] {
        assert!(shown(locale).contains("\n─────"), "{locale:?}");
    }
    let mut command = command(&["walk", path, &"x".repeat(200)]);
    let output = command.env("LC_ALL", "C").output().expect("linmap runs");
    assert!(output.stderr.is_ascii(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn sizes_are_written_as_people_write_them() {
    let plan = |ram: &str| linmap(&["plan", "--ram", ram, "--json"]).exits(0).stdout();
    assert_eq!(plan("4GiB"), plan("4G"));
    assert_eq!(plan("1.5G"), plan("1536M"));
    linmap(&["plan", "--ram", "4GB"]).exits(2).says("GB is 10^9 bytes to some and 2^30 to others");
    linmap(&["plan", "--ram", "1.3K"]).exits(2).says("not a whole number of bytes");
}

#[test]
fn regions_may_be_several() {
    let core = debian().core(|_| {});
    let of = |name: &str| core.run("dump", &["--region", name]).exits(0).stdout();
    let both = of("linear") + &of("modules");
    assert_eq!(core.run("dump", &["--region", "modules", "--region", "linear"]).exits(0).stdout(), both);
    assert_eq!(of("modules,linear"), both);
    // The image lies in it.
    assert_eq!(of("kernel,vmalloc"), of("vmalloc"));
    assert_eq!(of("linear,all"), of("all"));
    let json = core.run("dump", &["--json", "--region", "linear", "--region", "modules"]).exits(0);
    assert_eq!(piped(&["dump", "-", "--json"], &json.0.stdout).exits(0).stdout(), json.stdout());
}

/// Addresses between two saved regions are not known; they are not holes.
#[test]
fn between_regions_that_were_saved_nothing_is_known() {
    let kernel = debian();
    let core = kernel.core(|_| {});
    let json = core.run("dump", &["--json", "--region", "linear,fixmap"]).exits(0);
    let missing = json.document()["missing"].to_string();
    assert!(missing.contains("addresses from 0xffff800000000000 to "), "{missing}");
    let saved = |arguments: &[&str]| piped(arguments, &json.0.stdout);
    assert_eq!(saved(&["dump", "-", "--json"]).exits(0).stdout(), json.stdout());
    let text = format!("{:#x}", kernel.modules());
    core.run("walk", &[&text]).exits(0);
    saved(&["walk", "-", &text]).exits(2).says("not saved; it has what lies from 0xffff000000000000 to ");
    saved(&["dump", "-", "--region", "modules"]).exits(2).says("not saved");
    let own = core.path();
    saved(&["diff", own.to_str().expect("UTF-8"), "-"]).exits(0);
}
