//! `linmap-model`: judges a saved log of page-table events, and writes it for other judges.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use linmap_model::export::{self, Inexpressible, Question};
use linmap_model::observed::{Grade, watch};
use linmap_model::{Event, ReplayError, Setup, read_log, replay};

/// An executable model of the arm64 MMU.
#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Judge every step of a saved log.
    ///
    /// Exit code 0: no rule is broken. 1: a rule is broken; the first breach is printed with the facts and the last
    /// events, and what follows it is counted. 2: the log cannot be read, or the verdict not be written.
    Replay {
        /// The log, as `Model::log_to` writes it: one JSON object a line. `-` is standard input.
        log: PathBuf,
        /// Pass over what is announced, and judge as if the code had announced nothing
        ///
        /// All findings are printed, the worst first: breaches, suspects and hints. Exit code 1 only with a breach, or with
        /// `--strict` with a suspect.
        #[arg(long)]
        observed: bool,
        /// Fail on suspects, too
        #[arg(long, requires = "observed")]
        strict: bool,
    },
    /// Write a saved log in the format of another checker, to standard output.
    ///
    /// Exit code 0: written. 2: the log cannot be read, or holds what the format cannot express, and the first such event
    /// is named; or standard output cannot be written.
    #[command(subcommand)]
    Export(Format),
}

#[derive(Subcommand)]
enum Format {
    /// A trace for casemate, which monitors break-before-make.
    ///
    /// Expressed: 4K pages and 48 bits of addresses, one tree, up to four CPUs; stores, table pages, DSB ISH and ISHST,
    /// ISB, broadcast TLBIs, and operations, during which the CPU holds the tree's lock. The tree becomes that of EL2, the
    /// TLBIs those of EL2. Not expressed: other geometries, a second tree, parked CPUs, TLBIs and DSBs of one CPU, TLBIs by
    /// ASID, instructions, live stores outside of operations.
    Casemate {
        /// The log, as `Model::log_to` writes it. `-` is standard input.
        log: PathBuf,
    },
    /// A litmus test for herd7 (`herd7 -variant vmsa,fatal`).
    ///
    /// Expressed: one operation and one address of it; every store that changes the translation, the CPU's DSBs and ISBs,
    /// the TLBIs that reach the address. herd7 says `Never` if the wrong outcome is impossible, otherwise `Sometimes`.
    /// Not expressed: levels and sizes, attributes other than write permission, more than two pages, other CPUs in the
    /// operation, registers other than those of table bases, instructions.
    Herd {
        /// The log, as `Model::log_to` writes it. `-` is standard input.
        log: PathBuf,
        /// The operation, from 0, of those on trees that a CPU has loaded [default: the last]
        #[arg(long)]
        operation: Option<usize>,
        /// The address, as 0xffff000000000000 [default: the first that the operation announces]
        #[arg(long, value_parser = address)]
        va: Option<u64>,
        /// Ask about the publication of a table: can a walker reach it and not see the address's entry?
        #[arg(long)]
        publication: bool,
    },
}

/// Reads an address with its prefix.
fn address(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix("0x").ok_or("an address begins with 0x")?;
    u64::from_str_radix(digits, 16).map_err(|e| e.to_string())
}

fn main() -> ExitCode {
    match Arguments::parse().command {
        Command::Replay { log, observed: true, strict } => {
            with(&log, |name, reader| watched(name, reader, strict))
        }
        Command::Replay { log, .. } => with(&log, judge),
        Command::Export(Format::Casemate { log }) => {
            with(&log, |name, reader| write(name, reader, export::casemate))
        }
        Command::Export(Format::Herd { log, operation, va, publication }) => {
            let question = Question { operation, va, publication };
            with(&log, |name, reader| {
                write(name, reader, |setup, events| export::herd(setup, events, &question))
            })
        }
    }
}

/// Opens a log.
fn with(log: &Path, work: impl FnOnce(&str, Box<dyn BufRead>) -> ExitCode) -> ExitCode {
    if log.as_os_str() == "-" {
        return work("standard input", Box::new(io::stdin().lock()));
    }
    let name = log.display().to_string();
    // A directory can be opened, but not read.
    let file = match log.is_dir() {
        true => Err(ErrorKind::IsADirectory.into()),
        false => File::open(log),
    };
    match file {
        Ok(file) => work(&name, Box::new(BufReader::new(file))),
        Err(error) => fails(&name, &error),
    }
}

fn fails(name: &str, error: &dyn std::error::Error) -> ExitCode {
    // There is no other place to say that this failed.
    let _ = writeln!(io::stderr(), "linmap-model: {name}: {error}");
    ExitCode::from(2)
}

/// Prints to standard output. A reader who has read enough closes it, which is no error.
fn prints(text: &str, code: ExitCode) -> ExitCode {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => fails("standard output", &error),
        _ => code,
    }
}

fn judge(name: &str, reader: Box<dyn BufRead>) -> ExitCode {
    match replay(reader) {
        Ok(events) => prints(&format!("{name}: {events} events, no rule broken\n"), ExitCode::SUCCESS),
        Err(ReplayError::Breach { line, breach, later }) => {
            let mut text = format!("{name}, line {line}\n\n{breach}\n");
            if later != 0 {
                text += &format!("  {later} more events follow, which are not judged\n");
            }
            prints(&text, ExitCode::FAILURE)
        }
        Err(error) => fails(name, &error),
    }
}

/// Judges a log as of code that announces nothing.
fn watched(name: &str, reader: Box<dyn BufRead>, strict: bool) -> ExitCode {
    let mut observer = match watch(reader) {
        Ok(observer) => observer,
        Err(error) => return fails(name, &error),
    };
    // Its CPUs have ended what they did.
    observer.finish();
    let mut text: String = observer.findings().map(|finding| format!("{finding}\n")).collect();
    let of = |grade| observer.findings().filter(|finding| finding.grade == grade).count();
    let [breaches, suspects, hints] = [Grade::Breach, Grade::Suspect, Grade::Hint].map(of);
    text += &format!(
        "{name}: {} events, {breaches} breaches, {suspects} suspects, {hints} hints",
        observer.events()
    );
    match observer.unknown_tables() {
        0 => text += "\n",
        unknown => text += &format!(", {unknown} tables were not judged\n"),
    }
    let is_wrong = breaches != 0 || (strict && suspects != 0);
    prints(&text, if is_wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn write(
    name: &str,
    reader: Box<dyn BufRead>,
    export: impl FnOnce(&Setup, &[Event]) -> Result<String, Inexpressible>,
) -> ExitCode {
    let (setup, events) = match read_log(reader) {
        Ok(log) => log,
        Err(error) => return fails(name, &error),
    };
    match export(&setup, &events) {
        Ok(text) => prints(&text, ExitCode::SUCCESS),
        Err(error) => fails(name, &error),
    }
}
