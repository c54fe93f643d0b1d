//! The options that all commands have which read a map: each cell of the table in `docs/commands.md`, as a user drives it.

use linmap::Attributes;
use serde_json::Value;

use crate::core::{Core, Kernel, RAM, debian};
use crate::json_schema;
use crate::run::{Ran, linmap};

/// Returns the rows of the table: the options, and for each command its cell.
fn table() -> Vec<(String, Vec<(String, String)>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/commands.md");
    let text = std::fs::read_to_string(path).expect("the chapter");
    let (_, section) = text.split_once("### Options of all commands that read a map").expect("the section");
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let mut lines =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let names = cells(lines.next().expect("the names of the commands"));
    let rows = lines.skip(1).map(|line| {
        let row = cells(line);
        let option = row[1].split('`').nth(1).expect("an option").to_owned();
        let commands = names[2..].iter().zip(&row[2..]).filter(|(name, _)| !name.is_empty());
        (option, commands.map(|(name, cell)| (name.replace('`', ""), cell.clone())).collect())
    });
    rows.collect()
}

/// Runs a command on a core with more arguments; its own needs are added.
fn run(core: &Core, command: &str, more: &[&str]) -> Ran {
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    let is_listed = more.contains(&"--csv") || more.contains(&"--json");
    let svg = core.file("map.svg");
    let svg = svg.to_str().expect("a path in UTF-8");
    let own: &[&str] = match command {
        "walk" if more.contains(&"--pa") => &[],
        "walk" => &["_stext"],
        "diff" | "compare" => &[path],
        "watch" => &["--count", "1"],
        "map" if !is_listed => &["--svg", svg],
        _ => &[],
    };
    linmap(&[&[command, path], own, more].concat())
}

/// The beginning of the linear map, and addresses that are none of it.
const LINEAR: &str = "0xffff000000000000-0xffff000000400000";
const ELSEWHERE: &str = "0xffff800000000000-0xffff800000040000";

#[track_caller]
fn works(ran: Ran, what: &str) -> Ran {
    assert!(ran.0.status.code().is_some_and(|code| code < 2), "{what}: {}", ran.stderr());
    ran
}

#[track_caller]
fn selects(core: &Core, command: &str, cell: &str, option: &str, [inside, outside]: [&str; 2]) {
    let page = format!("{RAM:#x}");
    match cell {
        "linear" => {
            works(run(core, command, &[option, inside]), command);
            run(core, command, &[option, outside]).exits(2).says(option);
            run(core, command, &[option, outside]).says("does not apply");
        }
        "any" => {
            works(run(core, command, &[option, inside]), command);
            works(run(core, command, &[option, outside]), command);
        }
        "any with `--pa`" => {
            run(core, command, &[option, inside]).exits(2).says("does not apply");
            works(run(core, command, &["--pa", &page, option, inside]), command);
            let none = run(core, command, &["--pa", &page, option, outside]).exits(1);
            assert!(none.stdout().contains("Nothing maps it"), "{}", none.stdout());
        }
        other => panic!("{command} {option}: {other}"),
    }
}

/// All rows have as many columns as there are names.
fn assert_rows(text: &str, what: &str) {
    let columns = |line: &str| {
        let mut is_quoted = false;
        1 + line
            .chars()
            .filter(|c| {
                is_quoted ^= *c == '"';
                *c == ',' && !is_quoted
            })
            .count()
    };
    let head = text.lines().next().unwrap_or_default();
    assert!(head.starts_with(|c: char| c.is_ascii_lowercase()) && columns(head) > 1, "{what}: {text}");
    for line in text.lines() {
        assert_eq!(columns(line), columns(head), "{what}: {line}");
    }
}

#[test]
fn each_cell_of_the_table_is_so() {
    let core = debian().core(|tables| {
        tables.map(debian().modules() + 0x10_0000, RAM + (100 << 20), 3, 1, Attributes::KERNEL_TEXT, false);
    });
    let table = table();
    let options: Vec<&str> = table.iter().map(|row| row.0.as_str()).collect();
    assert_eq!(options, ["--region", "--range", "--csv", "--json", "--max-pause", "--resume", "--color"]);
    for (option, commands) in &table {
        assert_eq!(commands.len(), 8, "{option}");
        for (command, cell) in commands {
            let run = |more: &[&str]| works(run(&core, command, more), &format!("{command} {more:?}"));
            match option.as_str() {
                "--region" => selects(&core, command, cell, option, ["linear", "modules"]),
                "--range" => selects(&core, command, cell, option, [LINEAR, ELSEWHERE]),
                "--csv" => assert_rows(&run(&["--csv"]).stdout(), command),
                "--json" => {
                    let document: Value =
                        serde_json::from_str(&run(&["--json"]).stdout()).expect("a document");
                    let name = document["schema"].as_str().expect("a name").replace('/', "-");
                    assert_eq!(
                        json_schema::faults(&json_schema::read(&name), &document),
                        [""; 0],
                        "{command}"
                    );
                }
                "--max-pause" | "--resume" => {
                    assert_eq!(cell, "guest");
                    let time = if option == "--resume" { &[][..] } else { &["2"] };
                    let more = [&[option.as_str()], time].concat();
                    self::run(&core, command, &more)
                        .exits(2)
                        .says(&format!("{option} does not apply: no SOURCE"));
                }
                "--color" => {
                    let colors = run(&["--color", "always"]).stdout();
                    assert_eq!(
                        anstream::adapter::strip_str(&colors).to_string(),
                        run(&["--color", "never"]).stdout().to_string(),
                        "{command}"
                    );
                }
                other => panic!("{other}"),
            }
        }
    }
    let page = format!("{RAM:#x}");
    assert_rows(&run(&core, "walk", &["--pa", &page, "--csv"]).exits(0).stdout(), "mappings");
    assert_rows(&run(&core, "stat", &["--who", "--csv"]).exits(0).stdout(), "owners");
    for (command, _) in &table[0].1 {
        run(&core, command, &["--csv", "--json"]).exits(2).says("cannot be used with");
        run(&core, command, &["--region", "linear", "--range", LINEAR]).exits(2).says("cannot be used with");
    }
    let path = core.path();
    let path = path.to_str().expect("a path in UTF-8");
    linmap(&["stat", "--who", path, path]).exits(2).says("--who does not apply");
    for command in ["stat", "map", "dump"] {
        run(&core, command, &["--symbols", path]).exits(2).says("--symbols does not apply");
    }
}

#[test]
fn a_range_is_all_that_a_command_is_about() {
    let kernel = Kernel { level: 2, ..debian() };
    let (near, far) = (kernel.linear(RAM + (8 << 20)), kernel.linear(RAM + (40 << 20)));
    let writable = Attributes::KERNEL_TEXT & !Attributes::READ_ONLY;
    let plain = kernel.core(|_| {});
    let core = kernel.core(|tables| {
        for page in [near, far] {
            let pa = RAM + (page - kernel.linear(RAM));
            tables.map(page, pa, 3, 1, writable, false);
        }
    });
    // Two blocks in pages, then three that are blocks.
    let (start, end) = (kernel.linear(RAM + (60 << 20)), kernel.linear(RAM + (70 << 20)));
    let range = format!("{start:#x}-{end:#x}");
    let stat = core.run("stat", &["--json", "--range", &range]).exits(0).document();
    assert_eq!(
        (&stat["linear"]["bytes"], &stat["linear"]["tlb_entries"]),
        (&(10 << 20).into(), &(2 * 512 + 3).into())
    );
    assert_eq!(stat["linear"]["start"], format!("{start:#x}"));
    let who = core.run("stat", &["--who", "--json", "--range", &range]).exits(0).document();
    let owners = who["who"]["owners"].as_array().expect("owners");
    assert_eq!((owners.len(), &owners[0]["blocks_in_pages"]), (1, &2.into()), "{who:#}");
    // One of the two pages is in this range.
    let range = format!("{near:#x}-{:#x}", near + 0x1000);
    let count =
        |more: &[&str]| core.run("check", &[&["--json"], more].concat()).exits(1).document()["count"].clone();
    assert_eq!(
        (count(&[]), count(&["--range", &range]), count(&["--region", "linear"])),
        (2.into(), 1.into(), 2.into())
    );
    core.run("check", &["--region", "modules"]).exits(0);
    let other = plain.path();
    let other = other.to_str().expect("a path in UTF-8");
    let differences = |more: &[&str]| {
        let ran = core.run("diff", &[&[other, "--json"], more].concat());
        ran.document()["differences"].as_array().expect("differences").len()
    };
    assert_eq!(
        (differences(&[]), differences(&["--range", &range]), differences(&["--region", "modules"])),
        (2, 1, 0)
    );
    assert_eq!((differences(&["--linear"]), differences(&["--region", "linear,modules"])), (2, 2));
    let bytes = |more: &[&str]| {
        let document =
            core.run("map", &[&["--json", "--by", "permission"], more].concat()).exits(0).document();
        document["bytes"].as_u64().expect("a number")
    };
    assert_eq!((bytes(&[]), bytes(&["--range", &range])), (256 << 20, 4096));
}
