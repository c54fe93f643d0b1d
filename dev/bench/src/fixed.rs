//! The cost of choosing the page size at boot: linmap for all page sizes compared with builds for one.
//!
//! A build is for one page size or for all, so each runs in its own process: this program, built again for each page
//! size and for all in a directory of its own. Workers measure a sample on request, in turns, so that each ratio
//! compares two samples taken one after the other.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use linmap::Granule;
use linmap::arch::Level;

use crate::document::{Document, repository};
use crate::host::{Case, Operation, Plan, Pool, sample};
use crate::libraries::Linmap;
use crate::report;
use crate::samples::Samples;

/// The argument that makes this program a worker.
pub(crate) const WORKER: &str = "worker";
const SIZES: [(&str, Granule); 3] = [("4k", Granule::K4), ("16k", Granule::K16), ("64k", Granule::K64)];
const OPERATIONS: [(&str, Operation, Level); 4] = [
    ("create, pages", Operation::Create, Level::PAGE),
    ("permission sweep, pages", Operation::Protect, Level::PAGE),
    ("split, all blocks to pages", Operation::Split, Level::new(2)),
    ("walk, pages", Operation::Walk, Level::PAGE),
];
/// The least and the most rounds of a case.
const ROUNDS: (usize, usize) = (5, 41);
/// No further round begins after this time.
const ENOUGH: Duration = Duration::from_secs(3);

/// Measures all cases at all page sizes.
pub(crate) fn choosing(to: &mut Document) -> io::Result<()> {
    to.add("## Choosing the page size at boot\n");
    // Built again, because the sources may have changed since this program was built.
    let one_for_all = build("all", &[])?;
    let mut rows = Vec::new();
    for (size, _) in SIZES {
        eprintln!("bench: linmap for {size} pages alone");
        let mut fixed = Worker::start(&build(size, &["--features", &format!("fixed-{size}")])?, size)?;
        let mut chosen = Worker::start(&one_for_all, size)?;
        for (number, (name, ..)) in OPERATIONS.iter().enumerate() {
            let (time, ratios) = turns(&mut chosen, &mut fixed, number)?;
            let us = format!("{:.1}", time.median() / 1e3f64);
            rows.push(vec![format!("{}, {name}", size.to_uppercase()), us, ratios.to_string()]);
        }
        fixed.end()?;
        chosen.end()?;
    }
    to.add("64 GiB. Time of the library for all page sizes, divided by that of the library for this size alone.\n");
    to.add(&report::table(&["", "chosen at boot, us", "chosen at boot / fixed"], &rows));
    Ok(())
}

/// Measures a case in turns. Returns the nanoseconds of `chosen`, and their ratio to those of `fixed`.
fn turns(chosen: &mut Worker, fixed: &mut Worker, case: usize) -> io::Result<(Samples, Samples)> {
    let (mut times, mut ratios, start) = (Vec::new(), Vec::new(), Instant::now());
    while times.len() < ROUNDS.0 || times.len() < ROUNDS.1 && start.elapsed() < ENOUGH {
        // They alternate in who goes first.
        let (a, b) = if times.len().is_multiple_of(2) {
            let a = chosen.ask(case)?;
            (a, fixed.ask(case)?)
        } else {
            let b = fixed.ask(case)?;
            (chosen.ask(case)?, b)
        };
        times.push(a);
        ratios.push(a / b);
    }
    Ok((Samples::new(times), Samples::new(ratios)))
}

/// Builds this program again, with linmap for one page size or for all. Returns its path.
fn build(size: &str, features: &[&str]) -> io::Result<PathBuf> {
    let target = target(&env::current_exe()?).join("fixed-bench");
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--release", "-p", "bench"])
        .args(features)
        .arg("--target-dir")
        .arg(&target)
        .current_dir(repository())
        .status()?;
    if !built.success() {
        return Err(io::Error::other(format!("bench-{size} was not built")));
    }
    let program = target.join(format!("bench-{size}"));
    fs::copy(target.join("release/bench"), &program)?;
    Ok(program)
}

/// Returns cargo's target directory; this program is in its `release` or `debug`.
fn target(program: &Path) -> PathBuf {
    program.ancestors().nth(2).unwrap_or(program).to_owned()
}

/// A process that measures on request.
struct Worker {
    process: Child,
    to: ChildStdin,
    from: Lines<BufReader<ChildStdout>>,
}

impl Worker {
    fn start(program: &Path, size: &str) -> io::Result<Self> {
        let mut command = Command::new(program);
        command.args([WORKER, size]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let to = process.stdin.take().expect("a pipe");
        let from = BufReader::new(process.stdout.take().expect("a pipe")).lines();
        Ok(Self { process, to, from })
    }

    /// Measures a case. Returns its nanoseconds.
    fn ask(&mut self, case: usize) -> io::Result<f64> {
        writeln!(self.to, "{case}")?;
        let answer = self.from.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        answer.parse().map_err(io::Error::other)
    }

    /// Closes the worker's input, which ends it, and waits.
    fn end(mut self) -> io::Result<()> {
        drop(self.to);
        self.process.wait().map(drop)
    }
}

/// Runs as a worker: reads numbers of cases and prints the nanoseconds of a sample of each.
pub(crate) fn work(size: &str) -> io::Result<()> {
    let unknown = || io::Error::other("no such page size or case");
    let (_, granule) = *SIZES.iter().find(|(name, _)| *name == size).ok_or_else(unknown)?;
    let cases =
        OPERATIONS.map(|(_, operation, level)| Case::new(operation, Plan::new(granule, level, 64 << 30)));
    let most = cases.iter().map(Case::pages).max();
    let pool = Pool::new(cases[0].plan.geometry, most.unwrap_or_default());
    for line in io::stdin().lines() {
        let case = line?.parse().ok().and_then(|n: usize| cases.get(n)).ok_or_else(unknown)?;
        println!("{}", sample::<Linmap>(&pool, case, false).expect("linmap can do all").ns);
    }
    Ok(())
}
