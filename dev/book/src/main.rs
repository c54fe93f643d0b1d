//! Checks the documents of the repository, or builds the book.
//!
//! ```text
//! book check            all links in all documents
//! book build FOLDER     the book, as pages for a browser (feature `html`)
//! ```
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

#[cfg(feature = "html")]
mod html;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["check"] => check(root),
        ["build", folder] => check(root).and_then(|()| build(root, Path::new(folder))),
        _ => Err("usage: book check | book build FOLDER".to_owned()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// Fails with all broken links.
fn check(root: &Path) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", root.display());
    let broken = book::check(root).map_err(failed)?;
    let documents: Vec<PathBuf> = book::documents(root).map_err(failed)?;
    if broken.is_empty() {
        println!("All links in {} documents lead somewhere.", documents.len());
        return Ok(());
    }
    Err(broken.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))
}

#[cfg(feature = "html")]
fn build(root: &Path, folder: &Path) -> Result<(), String> {
    html::build(root, folder).map_err(|error| format!("{error:#}"))
}

#[cfg(not(feature = "html"))]
fn build(_: &Path, _: &Path) -> Result<(), String> {
    Err("built without mdBook; `make docs` builds the book".to_owned())
}
