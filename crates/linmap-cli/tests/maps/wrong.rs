//! Wrong sources, wrong arguments, and readers that leave: each has its own message, in bounded time.

use std::process::{Command, Stdio};

use linmap::Pa;

use crate::core::{Core, debian};
use crate::run::linmap;
use crate::tables::{Tables, small};

const COMMANDS: [&[&str]; 4] = [&["dump"], &["stat"], &["check"], &["walk"]];

/// Runs each command on a file with these contents.
fn refused(contents: &[u8], words: &str) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("source");
    std::fs::write(&path, contents).expect("room");
    let path = path.to_str().expect("a path in UTF-8");
    for command in COMMANDS {
        let more: &[&str] = if command == ["walk"] { &["0xffff000000000000"] } else { &[] };
        let ran = linmap(&[command, &[path], more].concat()).exits(2).says(words);
        assert_eq!(ran.stdout(), "");
        let document = linmap(&[command, &[path], more, &["--json"]].concat()).exits(2).document();
        let version = if [["dump"], ["stat"]].contains(&[command[0]]) { 2 } else { 1 };
        assert_eq!(document["schema"], format!("linmap.{}/{version}", command[0]));
        assert_eq!(document["ok"], false);
        assert!(document["error"].as_str().is_some_and(|error| error.contains(words)), "{document}");
    }
    linmap(&["diff", path, path]).exits(2).says(words);
}

#[test]
fn what_is_no_source_is_refused() {
    refused(b"", "");
    refused(b"some text\n", "");
    refused(&[0x5a; 5000], "");
    refused(b"{\"schema\":\"linmap.stat/1\",\"ok\":true}", "linmap.stat/1");
    refused(b"\x7fELF\x01\x01\x01", "");
    let ran = linmap(&["stat", "/nonexistent/vmcore"]).exits(2).says("/nonexistent/vmcore");
    assert_eq!(ran.stdout(), "");
}

#[test]
fn a_saved_dump_that_no_tables_can_have_made_is_refused() {
    let geometry = r#""geometry":{"granule":"4K","va_bits":48,"format":"48-bit"}"#;
    let row = |va: &str, bytes: u64, level: i8| {
        format!(
            r#"{{"va":"{va}","bytes":{bytes},"level":{level},"kind":"leaf","pa":"0x0","attributes":"0x0"}}"#
        )
    };
    let document =
        |rows: &str| format!(r#"{{"schema":"linmap.dump/1","ok":true,{geometry},"rows":[{rows}]}}"#);
    for rows in [
        row("0xffff000000000000", 4096, 2),
        row("0xffff000000000800", 4096, 3),
        row("0x1000", 4096, 3),
        row("0xffff000000000000", 4096, -1),
    ] {
        refused(document(&rows).as_bytes(), "whole number of level");
    }
    refused(document("").as_bytes(), "it is empty");
}

#[test]
fn a_core_without_a_linear_map_has_no_statistics() {
    let kernel = debian();
    let core = kernel.core(|tables| {
        let root = tables.root;
        tables.pages.get_mut(&root).expect("the root")[..256].fill(0);
    });
    core.run("stat", &[]).exits(2).says("no linear map: nothing is mapped from 0xffff000000000000");
    assert!(core.run("check", &[]).exits(0).stdout().contains("aliases were not looked for"));
}

#[test]
fn a_core_of_no_kernel_is_refused() {
    let tables = Tables::new(small(), Pa(crate::core::TABLES));
    let core = Core::new(&tables, 16 << 20, None);
    core.run("stat", &[]).exits(2).says("VMCOREINFO");
    let core = Core::new(&tables, 16 << 20, Some("OSRELEASE=6.1\n"));
    core.run("stat", &[]).exits(2).says("VMCOREINFO");
}

#[test]
fn wrong_arguments_are_explained() {
    linmap(&["dump", "--region", "heap"]).exits(2).says("possible values: linear, kernel");
    linmap(&["dump", "--range", "1-x"]).exits(2).says("an address is hexadecimal");
    linmap(&["dump", "--json", "--csv"]).exits(2).says("cannot be used with");
    let ran = linmap(&["walk"]).exits(2).says("<VA>");
    ran.says("an address is missing, or a symbol of VMCOREINFO: `linmap walk vmcore 0xffff000040000000`");
    linmap(&["diff", "one"]).exits(2).says("<B>");
    linmap(&["stat", "gdb:"]).exits(2).says("needs a host and a port");
    let document = linmap(&["dump", "--region", "heap", "--json"]).exits(2).document();
    assert_eq!(document["schema"], "linmap.dump/2");
}

#[test]
fn an_address_and_a_source_in_each_others_place_are_told_apart() {
    let core = debian().core(|_| {});
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let address = "0xffff000000000000";
    let reversed =
        format!("`{address}` is an address, and comes after the SOURCE: `linmap walk {path} {address}`");
    linmap(&["walk", address, path]).exits(2).says(&reversed);
    let alone = format!("`{path}` is a SOURCE, and there is no address: `linmap walk {path} 0xffff");
    linmap(&["walk", path]).exits(2).says(&alone);
    linmap(&["walk", "qemu:/run/vm.sock"]).exits(2).says("is a SOURCE, and there is no address");
    linmap(&["stat", address])
        .exits(2)
        .says("is `0xffff000000000000` an address? `linmap walk SOURCE 0xffff");
    linmap(&["dump", path, address]).exits(2).says("`linmap dump SOURCE --range A-B`");
    linmap(&["diff", "-", "-"]).exits(2).says("both the standard input");
}

#[test]
fn old_and_cut_texts_are_refused_by_name() {
    refused(
        b"---[ Modules start ]---\n0xffff000000000000-0xffff000008000000         128M PMD\n---[ Linear Mapping ]---\n",
        "this is how Linux up to 5.3 begins its linear map",
    );
    let core = debian().core(|_| {});
    let text = core.run("dump", &[]).exits(0).0.stdout;
    refused(&text[..text.len() / 2], "is it whole?");
    let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
    refused(&lines[..4].concat(), "the text ends before the region does");
}

/// Names can have any characters.
#[test]
fn control_characters_never_reach_a_terminal() {
    let name = "\u{1b}]0;title\u{7}\u{1b}[2J\u{9b}1m";
    let core = debian().core(|_| {});
    let odd = core.file(name);
    std::fs::rename(core.path(), &odd).expect("a name");
    let odd = odd.to_str().expect("a path in UTF-8");
    let missing = core.file("\u{1b}[31mnone");
    let missing = missing.to_str().expect("a path in UTF-8");
    let json = linmap(&["dump", odd, "--json"]).exits(0);
    let document = json.document();
    assert!(document["source"].as_str().is_some_and(|source| source.contains("^[]0;title^G")), "{document}");
    // A document from somebody else.
    let forged = core.file("forged");
    let mut document = document;
    document["source"] = name.into();
    document["kernel"]["vmcoreinfo"]["OSRELEASE"] = name.into();
    document["kernel"]["command_line"] = format!("rodata={name}").into();
    document["missing"] = vec![name].into();
    document["parts"][0]["start"] = name.into();
    document["regions"][1]["name"] = name.into();
    document["regions_from"] = name.into();
    std::fs::write(&forged, document.to_string()).expect("room");
    let forged = forged.to_str().expect("a path in UTF-8");
    let lines: [&[&str]; 12] = [
        &["dump", odd],
        &["stat", odd],
        &["check", odd],
        &["walk", odd, "_stext"],
        &["diff", odd, odd],
        &["dump", odd, "--json"],
        &["stat", missing],
        &["stat", missing, "--json"],
        &["stat", odd, name],
        &["plan", "--ram", name],
        &["walk", odd, name],
        &["tlb", "--core", name],
    ];
    let forged = ["dump", "stat", "check", "diff"].map(|command| match command {
        "diff" => vec![command, forged, odd],
        _ => vec![command, forged],
    });
    for line in lines.into_iter().chain(forged.iter().map(Vec::as_slice)) {
        let ran = linmap(&[line, &["--color=never"]].concat());
        for text in [ran.stdout(), ran.stderr()] {
            let wrong = text.chars().find(|c| c.is_control() && *c != '\n' && *c != '\t');
            assert_eq!(wrong, None, "{line:?}: {text:?}");
        }
    }
}

#[test]
fn help_names_every_source() {
    for command in ["dump", "stat", "check", "walk", "diff"] {
        let help = linmap(&[command, "--help"]).exits(0).stdout();
        for source in ["/proc/kcore", "qemu:SOCKET", "gdb:HOST:PORT", "kernel_page_tables", "Exit status"] {
            assert!(help.contains(source), "{command}: {help}");
        }
        let short = linmap(&[command, "-h"]).exits(0).stdout();
        assert!(short.len() < help.len());
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let core = debian().core(|tables| {
        // Many lines: every other page read-only.
        for page in (0..8192).step_by(2) {
            tables.change(debian().linear(crate::core::RAM + (64 << 20)) + page * 4096, |leaf| leaf | 1 << 7);
        }
    });
    for more in [&[][..], &["--json"], &["--csv"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
        command.arg("dump").arg(core.path()).args(more).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("linmap runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.stderr, b"");
    }
}
