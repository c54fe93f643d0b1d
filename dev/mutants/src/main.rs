//! Mutation testing: changes the library at one place at a time, and runs the tests. A mutant that passes all of them
//! survives: either no test can tell it from the library, or a test is missing.
//!
//! cargo-mutants lists the mutants. A sample of them is drawn by a seed and judged in a copy of the last commit, round
//! by round (`rounds.rs`). Outcomes are stored as they come, so a run that was stopped continues. Survivors are judged
//! by people, once, in `dev/mutants/survivors.toml`.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod arguments;
mod error;
mod mutant;
mod outcome;
mod report;
mod rounds;
mod sample;
mod stuck;
mod survivors;
mod tree;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use arguments::{Arguments, Asked};
use error::Error;
use mutant::Mutant;
use outcome::Outcomes;
use report::Report;
use survivors::Survivors;
use tree::Tree;

const USAGE: &str = "usage: mutants [--sample N] [--seed SEED] [--only TEXT] [--jobs N]

Judges a sample of the mutants of crates/linmap/src in a copy of the last commit.

  --sample N     the number of mutants; default: 300
  --seed SEED    draws the sample, as in 7 or 0x12ab; the same seed continues a run that was stopped; default: 1
  --only TEXT    instead of a sample: all mutants whose names contain the text, judged again
  --jobs N       so many are judged at a time, each in a copy of its own; default: 1";

/// The file in which survivors are judged.
const SURVIVORS: &str = "dev/mutants/survivors.toml";

fn main() -> ExitCode {
    let arguments = match Asked::parse(env::args().skip(1)) {
        Ok(Asked::Run(arguments)) => arguments,
        Ok(Asked::Help) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(words) => {
            eprintln!("mutants: {words}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&arguments) {
        Ok(report) => {
            println!("{report}");
            if report.is_fine() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::from(2)
        }
    }
}

/// Judges the mutants that the arguments name.
fn run(arguments: &Arguments) -> Result<Report, Error> {
    let target = PathBuf::from(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()));
    let (here, directory) = (env::current_dir().map_err(Error::Directory)?, target.join("mutants"));
    let trees = (1..=arguments.jobs).map(|job| Tree::check_out(&here, &directory, job));
    let trees = trees.collect::<Result<Vec<_>, _>>()?;
    let tree = &trees[0];
    let population = tree.mutants()?;
    let known = Survivors::read(SURVIVORS.as_ref())?;
    let (all, file) = match &arguments.only {
        Some(text) => (sample::named(&population, text)?, None),
        None => {
            let name = format!("{:.12}-seed-{}.jsonl", tree.commit(), arguments.seed);
            (sample::sample(&population, arguments.sample, arguments.seed), Some(tree.directory().join(name)))
        }
    };
    if arguments.only.is_none() {
        println!("{} of {} mutants, seed {}", all.len(), population.len(), arguments.seed);
        println!("a run that is stopped continues with: make mutants ARGS=\"{}\"", again(arguments));
    }
    let outcomes = Outcomes::open(file)?;
    let waiting: Vec<_> = all.iter().copied().filter(|m| outcomes.of(m).is_none()).collect();
    if !waiting.is_empty() {
        tree.is_sound()?;
    }
    let outcomes = judge(&trees, &waiting, outcomes)?;
    Ok(Report::new(&population, &all, &outcomes, &known))
}

/// Judges mutants, each job the next one that no other has taken.
fn judge(trees: &[Tree], waiting: &[&Mutant], outcomes: Outcomes) -> Result<Outcomes, Error> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new((0i32, outcomes)));
    let job = |tree: &Tree| {
        while let Some(mutant) = waiting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let outcome = tree.judge(mutant)?;
            let (judged, outcomes) = &mut *outcomes.lock().expect("no job has panicked");
            *judged += 1i32;
            println!("{judged} of {}: {outcome}: {}", waiting.len(), mutant.name);
            outcomes.add(mutant, outcome)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let jobs: Vec<_> = trees.iter().map(|tree| scope.spawn(|| job(tree))).collect();
        jobs.into_iter().try_for_each(|done| done.join().expect("a job does not panic"))
    })?;
    Ok(outcomes.into_inner().expect("no job has panicked").1)
}

fn again(arguments: &Arguments) -> String {
    format!("--sample {} --seed {}", arguments.sample, arguments.seed)
}
