//! A copy of the last commit, in which mutants are built and run.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::error::Error;
use crate::mutant::Mutant;
use crate::outcome::Outcome;
use crate::rounds::{ENVIRONMENT, ROUNDS, Round};
use crate::stuck;

/// The signal of a process that has used up its CPU time (SIGXCPU).
const NO_TIME: i32 = 24;

/// A program that runs tests: its file, and the directory of its crate.
type Program = (PathBuf, PathBuf);

/// A copy of the last commit.
pub(crate) struct Tree {
    /// Everything that is kept between runs.
    directory: PathBuf,
    root: PathBuf,
    build: PathBuf,
    commit: String,
}

/// How a round ends.
enum End {
    Passed,
    NotBuilt(String),
    Failed { test: String, words: String },
    OutOfTime { test: String },
}

impl Tree {
    /// Checks the last commit of a repository out, into a directory that keeps it and its builds. Each job has its own.
    ///
    /// # Errors
    ///
    /// Git fails.
    pub(crate) fn check_out(repository: &Path, directory: &Path, job: usize) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(Error::of(directory))?;
        let directory = fs::canonicalize(directory).map_err(Error::of(directory))?;
        let [root, build] = ["tree", "build"].map(|name| directory.join(format!("{name}-{job}")));
        let git =
            |at: &Path, arguments: &[&str]| succeed(Command::new("git").arg("-C").arg(at).args(arguments));
        let head = git(repository, &["rev-parse", "HEAD"])?;
        let commit = String::from_utf8_lossy(&head).trim().to_owned();
        // Without its own, git would find the one of the directory around it.
        if !root.join(".git").exists() {
            let clone = ["clone", "--quiet", "--shared", "--no-checkout"];
            succeed(Command::new("git").args(clone).args([repository, &root]))?;
        }
        // Also the file of a mutant whose run was stopped. Only files that differ are written, and built again.
        git(&root, &["checkout", "--quiet", "--force", "--detach", &commit])?;
        Ok(Self { directory, root, build, commit })
    }

    /// Returns the name of the commit.
    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// Returns the directory in which outcomes are kept.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns all mutants of the library.
    ///
    /// # Errors
    ///
    /// cargo-mutants is missing or fails.
    pub(crate) fn mutants(&self) -> Result<Vec<Mutant>, Error> {
        succeed(Command::new("cargo").args(["mutants", "--version"])).map_err(|_| Error::Missing)?;
        let list = ["mutants", "--list", "--json", "--package", "linmap"];
        let json = succeed(Command::new("cargo").args(list).current_dir(&self.root))?;
        Mutant::list(&json, &self.root)
    }

    /// Checks that the tests pass without a mutant.
    ///
    /// # Errors
    ///
    /// One does not.
    pub(crate) fn is_sound(&self) -> Result<(), Error> {
        for round in &ROUNDS {
            let unsound = |test: String, words| Err(Error::Unsound { test, words });
            match self.round(round)? {
                End::Passed => {}
                End::NotBuilt(words) => return unsound("the build".into(), words),
                End::Failed { test, words } => return unsound(test, words),
                End::OutOfTime { test } => return unsound(test, "it has used up its CPU time".into()),
            }
        }
        Ok(())
    }

    /// Runs the tests on a mutant, until one fails.
    ///
    /// # Errors
    ///
    /// A file cannot be written, or a program not started.
    pub(crate) fn judge(&self, mutant: &Mutant) -> Result<Outcome, Error> {
        let path = self.root.join(&mutant.file);
        let text = fs::read_to_string(&path).map_err(Error::of(&path))?;
        let changed = mutant.applied(&text).ok_or_else(|| Error::Form {
            what: path.display().to_string(),
            detail: format!("there is no {}", mutant.name),
        })?;
        fs::write(&path, changed).map_err(Error::of(&path))?;
        let outcome = self.rounds();
        fs::write(&path, text).map_err(Error::of(&path))?;
        outcome
    }

    fn rounds(&self) -> Result<Outcome, Error> {
        for round in &ROUNDS {
            match self.round(round)? {
                End::Passed => {}
                End::NotBuilt(_) => return Ok(Outcome::Unviable),
                End::Failed { test, .. } => return Ok(Outcome::Caught(test)),
                End::OutOfTime { test } => return Ok(Outcome::Timeout(test)),
            }
        }
        Ok(Outcome::Survived)
    }

    fn round(&self, round: &Round) -> Result<End, Error> {
        let programs = match self.build(round)? {
            Ok(programs) => programs,
            Err(words) => return Ok(End::NotBuilt(words)),
        };
        for name in round.programs {
            let Some(program) = programs.get(*name) else {
                let detail = format!("there is no test program `{name}` in {:?}", round.packages);
                return Err(Error::Form { what: "dev/mutants/src/rounds.rs".into(), detail });
            };
            match run(program, round)? {
                Ran::Passed => {}
                Ran::OutOfTime => return Ok(End::OutOfTime { test: (*name).into() }),
                Ran::Failed { test, words } => {
                    return Ok(End::Failed { test: format!("{name} {test}"), words });
                }
            }
        }
        Ok(End::Passed)
    }

    /// Builds the test programs of a round. Returns them by name, or the words of the compiler.
    fn build(&self, round: &Round) -> Result<Result<HashMap<String, Program>, String>, Error> {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--profile", "mutants", "--no-run", "--quiet", "--message-format", "json"]);
        round.packages.iter().for_each(|package| _ = cargo.args(["--package", package]));
        for name in round.programs {
            match *name {
                "lib" => cargo.arg("--lib"),
                name => cargo.args(["--test", name]),
            };
        }
        cargo.current_dir(&self.root).env("CARGO_TARGET_DIR", &self.build);
        // What a lint refuses may still be a mutant.
        cargo.env("RUSTFLAGS", "--cap-lints=warn");
        let output = start(&mut cargo)?;
        if !output.status.success() {
            return Ok(Err(String::from_utf8_lossy(&output.stdout).into_owned()));
        }
        Ok(Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(program).collect()))
    }
}

/// Returns the test program of a line of cargo's messages, with its name.
fn program(line: &str) -> Option<(String, Program)> {
    let message: Value = serde_json::from_str(line).ok()?;
    let path = message["executable"].as_str().filter(|_| message["profile"]["test"] == true)?;
    let target = &message["target"];
    let lib = target["kind"].as_array()?.iter().any(|kind| kind == "lib");
    let name = if lib { "lib" } else { target["name"].as_str()? };
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    Some((name.into(), (path.into(), directory.into())))
}

/// How a test program ends.
enum Ran {
    Passed,
    Failed { test: String, words: String },
    OutOfTime,
}

/// Runs a test program until a test fails, with a limit of its CPU time and of its memory, and ends it when it is stuck: some
/// mutants never end.
fn run((path, directory): &Program, round: &Round) -> Result<Ran, Error> {
    let limits = format!("ulimit -c 0 -v 8000000 -t {}; exec \"$@\"", round.seconds);
    let mut shell = Command::new("bash");
    shell.args(["-c", &limits, "bash"]).arg(path);
    shell.args(round.only);
    round.skipped.iter().for_each(|name| _ = shell.args(["--skip", name]));
    shell.current_dir(directory).envs(ENVIRONMENT).stdout(Stdio::piped()).stderr(Stdio::null());
    let of_program = |source| Error::Start { program: path.display().to_string(), source };
    let mut child = shell.spawn().map_err(of_program)?;
    let (output, watched) = (child.stdout.take(), stuck::Watched::new(child.id()));
    let mut words = String::new();
    for line in output.into_iter().flat_map(|out| BufReader::new(out).lines()) {
        let line = line.map_err(of_program)?;
        words = words + &line + "\n";
        if let Some(test) = failed(&line) {
            // The others could only fail as well.
            child.kill().and_then(|()| child.wait()).map_err(of_program)?;
            return Ok(Ran::Failed { test: test.into(), words });
        }
    }
    let was_stuck = watched.end();
    let status = child.wait().map_err(of_program)?;
    Ok(match status.signal() {
        _ if was_stuck => Ran::OutOfTime,
        Some(NO_TIME) => Ran::OutOfTime,
        _ if status.success() => Ran::Passed,
        _ => Ran::Failed { test: "which aborts".into(), words },
    })
}

/// Returns the name of the test that failed, if that is what a line says.
fn failed(line: &str) -> Option<&str> {
    line.strip_prefix("test ")?.strip_suffix(" ... FAILED")
}

/// Runs a program to its end.
fn start(command: &mut Command) -> Result<Output, Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    command.output().map_err(|source| Error::Start { program, source })
}

/// Runs a program that must succeed, and returns what it writes.
fn succeed(command: &mut Command) -> Result<Vec<u8>, Error> {
    let output = start(command)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(Error::Failed { command: format!("{command:?}"), words })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_the_test_that_failed() {
        assert_eq!(failed("test edges::holes_stay ... FAILED"), Some("edges::holes_stay"));
        for other in
            ["test edges::holes_stay ... ok", "test result: FAILED. 1 passed", "    edges::holes_stay", ""]
        {
            assert_eq!(failed(other), None, "{other}");
        }
    }
}
