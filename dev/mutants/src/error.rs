//! Why mutants could not be judged.

use std::io;
use std::path::PathBuf;

/// A reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The directory of the repository is not known.
    #[error("the working directory: {0}")]
    Directory(io::Error),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// Its name.
        program: String,
        /// The reason.
        source: io::Error,
    },
    /// A program failed, with its last words.
    #[error("`{command}` failed:\n{words}")]
    Failed {
        /// The command.
        command: String,
        /// The end of its standard error.
        words: String,
    },
    /// cargo-mutants is not installed.
    #[error("cargo-mutants is missing; install it with: cargo install cargo-mutants --locked")]
    Missing,
    /// No mutant is asked for.
    #[error("none of {of} mutants has `{text}` in its name; cargo mutants --list has all names")]
    NoSuch {
        /// The text that names must contain.
        text: String,
        /// The number of mutants.
        of: usize,
    },
    /// A document has another form than expected.
    #[error("{what}: {detail}")]
    Form {
        /// The document.
        what: String,
        /// The difference.
        detail: String,
    },
    /// The tests do not pass on the library as it is.
    #[error("{test} fails without any mutant: mend it first\n{words}")]
    Unsound {
        /// The test program that fails, or the build.
        test: String,
        /// Its output.
        words: String,
    },
}

impl Error {
    /// Names the file of an error.
    pub(crate) fn of(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { path, source }
    }
}
