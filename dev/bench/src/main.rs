//! Benchmarks: linmap compared with memset, with other libraries, and with builds of itself for one page size; and the
//! speed of the model.
//!
//! Without a name all parts run and write docs/benchmarks, with plots. On the host the subjects of a comparison are
//! measured in turns and reported as ratios with their spread, so no number needs a quiet machine.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod callers;
mod clock;
mod counters;
mod counts;
mod cycles;
mod document;
mod figures;
mod fixed;
mod host;
mod libraries;
mod model;
mod parts;
mod port;
mod report;
mod repository;
mod samples;
mod sites;
mod watching;

use std::fmt::Display;
use std::{env, io, process};

use document::Document;

/// A part of a run.
struct Part {
    name: &'static str,
    what: &'static str,
    run: fn(&mut Document) -> io::Result<()>,
}

const PARTS: [Part; 7] = [
    Part { name: "creation", what: "trees of 4 to 512 GiB", run: parts::creation },
    Part { name: "changes", what: "permission sweep, split, collapse", run: parts::changes },
    Part { name: "reading", what: "walks", run: parts::reading },
    Part { name: "look-ups", what: "single addresses", run: parts::look_ups },
    Part { name: "callers", what: "two threads that change maps at the same time", run: callers::at_once },
    Part { name: "fixed", what: "the page size chosen at boot, or fixed when built", run: fixed::choosing },
    Part { name: "model", what: "speed of the model", run: parts::judging },
];

/// A part with arguments of its own, which runs alone.
struct Own {
    name: &'static str,
    what: &'static str,
    run: fn(&[String]) -> Result<(), String>,
}

const OWN: [Own; 5] = [
    Own {
        name: "counts",
        what: "compares exact counts of the image under QEMU with the stored ones; or --update, --sizes, --report",
        run: count,
    },
    Own {
        name: "cycles",
        what: "prints what llvm-mca says of the library's bulk loops; or of the loops of the module MODULE",
        run: cycles::run,
    },
    Own {
        name: "figures",
        what: "compares figures in README and docs with measured ones; or --update",
        run: figures::run,
    },
    Own {
        name: "linux-port",
        what: "compares what `make test-linux-port` has counted with the stored counts; or --update",
        run: port::run,
    },
    Own {
        name: "sites",
        what: "hides each TLBI and DSB of a kernel from `linmap judge`, and compares what it notices; or --update",
        run: sites::run,
    },
];

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [first, size] = arguments.as_slice()
        && first == fixed::WORKER
    {
        return or_exit(fixed::work(size));
    }
    if let [first, rest @ ..] = arguments.as_slice()
        && let Some(own) = OWN.iter().find(|own| own.name == first)
    {
        return or_exit((own.run)(rest));
    }
    if arguments.iter().any(|a| a == "--help" || a == "-h") {
        return println!("bench [NAME]...\n\n{}", list());
    }
    let unknown = |a: &&String| !PARTS.iter().any(|part| part.name == **a);
    if let Some(other) = arguments.iter().find(unknown) {
        eprintln!("bench: no part \"{other}\"; the parts are\n\n{}", list());
        process::exit(2);
    }
    or_exit(run(&arguments));
    if arguments.is_empty() {
        or_exit(counts::run(&["--report".to_owned()]));
    }
}

/// Counts. Documents show some of the stored counts, so they are checked or written with them.
fn count(arguments: &[String]) -> Result<(), String> {
    counts::run(arguments)?;
    if arguments.is_empty() || arguments == ["--update"] { figures::run(arguments) } else { Ok(()) }
}

/// Runs the parts named, or all of them. Only a run of all parts writes the document.
fn run(names: &[String]) -> io::Result<()> {
    let is_named = |part: &&Part| names.is_empty() || names.iter().any(|name| name == part.name);
    let mut document = Document::default();
    document.begin();
    for part in PARTS.iter().filter(is_named) {
        (part.run)(&mut document)?;
    }
    document.targets();
    if PARTS.iter().all(|part| is_named(&part)) {
        eprintln!("bench: wrote {}", document.write()?.display());
    }
    Ok(())
}

fn list() -> String {
    let line = |name: &str, what: &str| format!("  {name:<10} {what}\n");
    let parts: String = PARTS.iter().map(|part| line(part.name, part.what)).collect();
    let own: String = OWN.iter().map(|own| line(own.name, own.what)).collect();
    parts
        + "\nWithout a name all of these run and write docs/benchmarks/host.md and counts.md. There are also\n\n"
        + &own
}

fn or_exit(result: Result<(), impl Display>) {
    if let Err(error) = result {
        eprintln!("bench: {error}");
        process::exit(1);
    }
}
