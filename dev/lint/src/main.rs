//! Checks the house rules, for `make lint`, and prints figures about them.
//!
//! ```text
//! house lint [CRATE...]      fails on circles of files, and on arrows against the order of the rooms
//! house words PATH...        fails on words that the house does not use, in .rs, .md, .sh and the files named
//! house arrows [CRATE...]    prints which file uses which
//! house figures [CRATE...]   prints sizes, arrows and circles
//! ```
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use house::{Arrows, Crate, Error, Figures, Rooms, Words, Workspace, circles, shortest};

const USAGE: &str = "usage: house lint|arrows|figures [CRATE...], house words PATH...";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, names)) = arguments.split_first() else { return usage() };
    let faults = match command.as_str() {
        "lint" => each(names, lint),
        "arrows" => each(names, print_arrows),
        "figures" => {
            say(Figures::head());
            each(names, print_figures)
        }
        "words" if !names.is_empty() => words(names),
        _ => return usage(),
    };
    match faults {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("house: {error}");
            ExitCode::from(2)
        }
    }
}

/// Prints a line. A reader that stops reading early changes nothing.
fn say(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Calls `act` for each named crate, or for all crates if none is named. Returns the number of faults.
fn each(names: &[String], act: fn(&Crate, &Arrows) -> Result<usize, Error>) -> Result<usize, Error> {
    let workspace = Workspace::read(Path::new("."))?;
    workspace.select(names)?.into_iter().map(|package| act(package, &Arrows::read(package)?)).sum()
}

/// Prints the circles of a crate and its arrows against the order. Returns their number.
fn lint(package: &Crate, arrows: &Arrows) -> Result<usize, Error> {
    let circles = circles(&arrows.all);
    for circle in &circles {
        say(format!("{}: {} files use each other; the shortest circle:", package.name, circle.len()));
        shortest(&arrows.all, circle).iter().for_each(|arrow| say(format!("  {arrow}")));
    }
    let mut faults = circles.len();
    for rooms in Rooms::of(arrows)? {
        for arrow in rooms.against(&arrows.all) {
            say(format!("{}: against the order of rooms: {arrow}", package.name));
            faults += 1;
        }
        let document = Path::new("docs/ARCHITECTURE.md");
        let text = std::fs::read_to_string(document)
            .map_err(|source| Error::Io { path: document.into(), source })?;
        rooms.check_rows(&package.directory.display().to_string(), document, &text)?;
    }
    Ok(faults)
}

fn print_arrows(_: &Crate, arrows: &Arrows) -> Result<usize, Error> {
    arrows.all.iter().for_each(say);
    Ok(0)
}

fn print_figures(package: &Crate, arrows: &Arrows) -> Result<usize, Error> {
    say(Figures::of(arrows)?.row(&package.name));
    Ok(0)
}

/// Prints the places with words that the house does not use. Returns their number.
fn words(paths: &[String]) -> Result<usize, Error> {
    let words = Words::of_the_house()?;
    let mut count = 0;
    for file in files(paths)? {
        let text =
            std::fs::read_to_string(&file).map_err(|source| Error::Io { path: file.clone(), source })?;
        for breach in words.breaches(&file, &text) {
            say(breach);
            count += 1;
        }
    }
    Ok(count)
}

/// The files that git knows at these paths: sources, documents and scripts, and those named themselves.
fn files(paths: &[String]) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::Io { path: "git ls-files".into(), source };
    let output = Command::new("git").args(["ls-files", "--"]).args(paths).output().map_err(failed)?;
    if !output.status.success() {
        return Err(failed(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned())));
    }
    let names = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = |name: &&str| {
        paths.iter().any(|path| path == name) || [".rs", ".md", ".sh"].iter().any(|end| name.ends_with(end))
    };
    Ok(names.lines().filter(text).map(PathBuf::from).collect())
}
