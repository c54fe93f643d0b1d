//! Why the sources could not be read.

use std::path::PathBuf;

/// A reason why a check could not be made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: std::io::Error,
    },
    /// A file is not Rust.
    #[error("{}:{}: {source}", path.display(), source.span().start().line)]
    Syntax {
        /// The file.
        path: PathBuf,
        /// The parser's message.
        source: syn::Error,
    },
    /// A module is declared and neither of its files exists.
    #[error("{}: `mod {name};` has no file", path.display())]
    NoFile {
        /// The file that declares it.
        path: PathBuf,
        /// The module's name.
        name: String,
    },
    /// A path into the crate leads nowhere: following it needs what this program does not know.
    #[error("{}:{line}: cannot find what `{name}` names", path.display())]
    Unresolved {
        /// The file with the path.
        path: PathBuf,
        /// The line of it, from 1.
        line: usize,
        /// The path as written.
        name: String,
    },
    /// `cargo metadata` failed, with its message.
    #[error("cargo metadata: {0}")]
    Metadata(String),
    /// A name was given that no crate of the workspace has.
    #[error("no crate '{0}' in the workspace")]
    NoCrate(String),
    /// The order of rooms and the modules of the crate differ.
    #[error("{}: {detail}", path.display())]
    Rooms {
        /// The root of the crate, or the document that draws it.
        path: PathBuf,
        /// The difference.
        detail: String,
    },
    /// A line of the list of words is not of its form.
    #[error("list of words, line {line}: expected `text WORDS = ADVICE` or `doc WORDS = ADVICE`")]
    WordList {
        /// The line, from 1.
        line: usize,
    },
}
