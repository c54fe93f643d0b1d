//! `linmap-model`: judges a saved log of page-table events.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use linmap_model::{ReplayError, replay};

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
    /// events, and what follows it is counted. 2: the log cannot be read.
    Replay {
        /// The log, as `Model::log_to` writes it: one JSON object a line. `-` is standard input.
        log: PathBuf,
    },
}

fn main() -> ExitCode {
    let Command::Replay { log } = Arguments::parse().command;
    let name = log.display();
    let reader: Box<dyn BufRead> = if log.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        match File::open(&log) {
            Ok(file) => Box::new(BufReader::new(file)),
            Err(error) => {
                eprintln!("linmap-model: {name}: {error}");
                return ExitCode::from(2);
            }
        }
    };
    match replay(reader) {
        Ok(events) => {
            println!("{name}: {events} events, no rule broken");
            ExitCode::SUCCESS
        }
        Err(ReplayError::Breach { line, breach, later }) => {
            println!("{name}, line {line}\n\n{breach}");
            if later != 0 {
                println!("  {later} more events follow, which are not judged");
            }
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("linmap-model: {name}: {error}");
            ExitCode::from(2)
        }
    }
}
