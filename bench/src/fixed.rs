//! What choosing the page size at boot costs: linmap with one page size, fixed when it is built, beside the one for all.
//!
//! A build has one or the other, so each is a process: this program, built once more for each page size and for all, in
//! a folder of its own. A worker measures a sample whenever it is told to. They take turns, so that each ratio is that of
//! neighbours in time.

use std::io::{self, BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use linmap::{Granule, Level};

use crate::document::{Document, repository};
use crate::host::{Case, Operation, Plan, Pool, sample};
use crate::libraries::Linmap;
use crate::report;
use crate::samples::Samples;

/// How the program is asked to be a worker.
pub(crate) const WORKER: &str = "worker";
const SIZES: [(&str, Granule); 3] = [("4k", Granule::K4), ("16k", Granule::K16), ("64k", Granule::K64)];
const OPERATIONS: [(&str, Operation, Level); 4] = [
    ("create, pages", Operation::Create, Level::PAGE),
    ("permission sweep, pages", Operation::Protect, Level::PAGE),
    ("split, all blocks to pages", Operation::Split, Level::new(2)),
    ("walk, pages", Operation::Walk, Level::PAGE),
];
/// No more rounds than these are measured of a case, and no fewer.
const ROUNDS: (usize, usize) = (5, 41);
/// No further round begins after so long.
const ENOUGH: Duration = Duration::from_secs(3);

/// Measures all cases at all page sizes.
pub(crate) fn choosing(to: &mut Document) -> io::Result<()> {
    to.add("## Choosing the page size at boot\n");
    // Built in the same way, from the same sources, even if they have changed since this very program was.
    let one_for_all = build("all", &[])?;
    let mut rows = Vec::new();
    for (size, _) in SIZES {
        eprintln!("bench: linmap for {size} pages alone");
        let mut fixed = Worker::start(&build(size, &["--features", &format!("fixed-{size}")])?, size)?;
        let mut chosen = Worker::start(&one_for_all, size)?;
        for (number, (name, ..)) in OPERATIONS.iter().enumerate() {
            let (time, ratios) = turns(&mut chosen, &mut fixed, number)?;
            let us = format!("{:.1}", time.median() / 1e3);
            rows.push(vec![format!("{}, {name}", size.to_uppercase()), us, ratios.to_string()]);
        }
        fixed.end()?;
        chosen.end()?;
    }
    to.add("64 GiB. The library for all page sizes, divided by the one built for this size alone.\n");
    to.add(&report::table(&["", "chosen at boot, us", "chosen at boot / fixed"], &rows));
    Ok(())
}

/// One case in turns: nanoseconds of the first, and its multiples of the second.
fn turns(chosen: &mut Worker, fixed: &mut Worker, case: usize) -> io::Result<(Samples, Samples)> {
    let (mut times, mut ratios, start) = (Vec::new(), Vec::new(), Instant::now());
    while times.len() < ROUNDS.0 || times.len() < ROUNDS.1 && start.elapsed() < ENOUGH {
        // Who is first has no advantage that lasts.
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

/// Builds this program once more, with linmap for one page size or for all.
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

/// The folder that cargo builds in: this program is in `release` of it, or in `debug`.
fn target(program: &Path) -> PathBuf {
    program.ancestors().nth(2).unwrap_or(program).to_owned()
}

/// A process that measures when it is told to.
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

    /// Nanoseconds for a case.
    fn ask(&mut self, case: usize) -> io::Result<f64> {
        writeln!(self.to, "{case}")?;
        let answer = self.from.next().ok_or(io::ErrorKind::UnexpectedEof)??;
        answer.parse().map_err(io::Error::other)
    }

    /// Without more to do it ends by itself.
    fn end(mut self) -> io::Result<()> {
        drop(self.to);
        self.process.wait().map(drop)
    }
}

/// What a worker does: a sample of each case whose number it reads.
pub(crate) fn work(size: &str) -> io::Result<()> {
    let unknown = || io::Error::other("no such page size or case");
    let (_, granule) = *SIZES.iter().find(|(name, _)| *name == size).ok_or_else(unknown)?;
    let cases =
        OPERATIONS.map(|(_, operation, level)| Case::new(operation, Plan::new(granule, level, 64 << 30)));
    let most = cases.iter().map(Case::pages).max();
    let pool = Pool::new(cases[0].plan.geometry, most.unwrap_or_default());
    for line in io::stdin().lines() {
        let case = line?.parse().ok().and_then(|n: usize| cases.get(n)).ok_or_else(unknown)?;
        println!("{}", sample::<Linmap>(&pool, case, false).expect("linmap can do all"));
    }
    Ok(())
}
