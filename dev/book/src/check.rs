//! Follows every link of every document: to files of the repository, to headings, to included files. Paths that a document names
//! as code have to exist as well.
//!
//! Web addresses are left alone, so that the check needs no network.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fmt, fs, io};

use crate::document::{Document, Link};
use crate::paths::{Paths, normalized};

/// The list of chapters, in `docs/`.
const SUMMARY: &str = "docs/SUMMARY.md";

/// A link that leads nowhere, and where it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken {
    /// The document, from the root of the repository.
    pub document: PathBuf,
    /// The line in it, from 1.
    pub line: usize,
    /// The link as it is written.
    pub destination: String,
    /// The reason.
    pub fault: Fault,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.document.display(), self.line, self.destination, self.fault)
    }
}

/// The reason why a link leads nowhere.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no such file.
    #[error("there is no such file")]
    Missing,
    /// The link leads to a directory, which a book cannot show.
    #[error("is a directory; link to a file in it")]
    Directory,
    /// The path is absolute or leaves the repository.
    #[error("is outside of the repository")]
    Outside,
    /// The document has no heading with this anchor.
    #[error("there is no such heading; the nearest is #{0}")]
    Heading(String),
    /// An anchor in a file that is no document.
    #[error("only documents have anchors; link to the file")]
    NoDocument,
    /// The included file has no line `ANCHOR: NAME`.
    #[error("the file has no line with `ANCHOR: {0}`")]
    Anchor(String),
    /// A reference without a definition.
    #[error("there is no definition of this label")]
    Undefined,
    /// A document that the list of chapters does not name.
    #[error("is in no chapter; add it to {SUMMARY}")]
    NoChapter,
}

/// Returns all broken links in the documents of the repository at `root`.
///
/// # Errors
///
/// A document cannot be read.
pub fn check(root: &Path) -> io::Result<Vec<Broken>> {
    let all = files(root)?;
    let mut parsed = HashMap::new();
    for name in all.iter().filter(|name| is_document(name)) {
        let document = Document::parse(&fs::read_to_string(root.join(name))?);
        parsed.insert(name.clone(), document);
    }
    let (paths, mut broken) = (Paths::new(root, &all), Vec::new());
    for (name, document) in &parsed {
        let mut report = |link: &Link, fault: Option<Fault>| {
            let Some(fault) = fault else { return };
            let destination = link.destination.clone();
            broken.push(Broken { document: name.clone(), line: link.line, destination, fault });
        };
        document.links.iter().for_each(|link| report(link, followed(root, name, &parsed, link)));
        document.includes.iter().for_each(|link| report(link, included(root, name, link)));
        document.undefined.iter().for_each(|link| report(link, Some(Fault::Undefined)));
        let missing = |link: &&Link| paths.is_missing(name, &link.destination);
        document.codes.iter().filter(missing).for_each(|link| report(link, Some(Fault::Missing)));
    }
    broken.extend(without_chapter(&parsed));
    broken.sort_by(|a, b| (&a.document, a.line).cmp(&(&b.document, b.line)));
    Ok(broken)
}

/// Returns the documents of a repository, by their paths from its root: all `*.md`, but for what is hidden or a cache.
///
/// # Errors
///
/// A directory cannot be read.
pub fn documents(root: &Path) -> io::Result<Vec<PathBuf>> {
    Ok(files(root)?.into_iter().filter(|name| is_document(name)).collect())
}

/// Returns the files of a repository, by their paths from its root, but for what is hidden or a cache. What forges read in
/// `.github` is not hidden.
fn files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut directories = vec![PathBuf::new()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(root.join(&directory))? {
            let entry = entry?;
            let name = directory.join(entry.file_name());
            if entry.file_name().as_encoded_bytes().starts_with(b".") && entry.file_name() != ".github" {
                continue;
            }
            if entry.file_type()?.is_dir() {
                // Cargo marks what it has made with this file.
                let built = name == Path::new("target") || entry.path().join("CACHEDIR.TAG").exists();
                directories.extend((!built).then_some(name));
            } else {
                found.push(name);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_document(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("md"))
}

/// Judges a link; web addresses pass.
fn followed(root: &Path, name: &Path, parsed: &HashMap<PathBuf, Document>, link: &Link) -> Option<Fault> {
    if link.destination.contains("://") || link.destination.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = match link.destination.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link.destination.as_str(), None),
    };
    let target = if path.is_empty() { Some(name.to_path_buf()) } else { normalized(name, path) };
    let Some(target) = target else { return Some(Fault::Outside) };
    let file = root.join(&target);
    match anchor {
        _ if file.is_dir() => Some(Fault::Directory),
        _ if !file.is_file() => Some(Fault::Missing),
        None => None,
        Some(anchor) => match parsed.get(&target) {
            None => Some(Fault::NoDocument),
            Some(document) if document.anchors.contains(anchor) => None,
            Some(document) => Some(Fault::Heading(nearest(anchor, document))),
        },
    }
}

/// The anchor that shares the longest beginning with this one.
fn nearest(anchor: &str, document: &Document) -> String {
    let shared = |other: &&String| anchor.chars().zip(other.chars()).take_while(|(a, b)| a == b).count();
    document.anchors.iter().max_by_key(shared).cloned().unwrap_or_default()
}

/// Judges an included file.
fn included(root: &Path, name: &Path, link: &Link) -> Option<Fault> {
    let (path, anchor) = match link.destination.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (link.destination.as_str(), None),
    };
    let Some(target) = normalized(name, path) else { return Some(Fault::Outside) };
    let Ok(text) = fs::read_to_string(root.join(target)) else { return Some(Fault::Missing) };
    let anchor = anchor?;
    let is_it = |line: &str| line.split_once("ANCHOR: ").is_some_and(|(_, name)| name.trim() == anchor);
    (!text.lines().any(is_it)).then(|| Fault::Anchor(anchor.to_owned()))
}

/// Documents below `docs/` that are no chapters.
fn without_chapter(parsed: &HashMap<PathBuf, Document>) -> Vec<Broken> {
    let summary = Path::new(SUMMARY);
    let Some(list) = parsed.get(summary) else { return Vec::new() };
    let chapters: Vec<_> = list.links.iter().filter_map(|l| normalized(summary, &l.destination)).collect();
    let is_chapter = |name: &Path| name == summary || chapters.iter().any(|chapter| chapter == name);
    let stray = parsed.keys().filter(|name| name.starts_with("docs") && !is_chapter(name));
    stray
        .map(|name| Broken {
            document: name.clone(),
            line: 1,
            destination: name.display().to_string(),
            fault: Fault::NoChapter,
        })
        .collect()
}
