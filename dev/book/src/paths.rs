//! Paths that documents name as code: those of the repository have to exist.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

/// Ends of names that are sources of this repository, and of no other that documents speak of.
const OWN: [&str; 5] = [".rs", ".md", ".sh", ".py", ".toml"];

/// The places that a path can start from.
pub(crate) struct Paths<'a> {
    root: &'a Path,
    /// The entries of the root.
    top: Vec<OsString>,
    /// The crates, from the root.
    crates: Vec<PathBuf>,
}

impl<'a> Paths<'a> {
    /// Reads the root and the directories of crates.
    ///
    /// # Errors
    ///
    /// A directory cannot be read.
    pub(crate) fn of(root: &'a Path) -> io::Result<Self> {
        let names = |directory: &Path| -> io::Result<Vec<OsString>> {
            fs::read_dir(directory)?.map(|entry| Ok(entry?.file_name())).collect()
        };
        let top = names(root)?;
        let mut crates = Vec::new();
        let mut directories: Vec<PathBuf> = top.iter().map(PathBuf::from).collect();
        while let Some(directory) = directories.pop() {
            let hidden = directory.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
            if !root.join(&directory).is_dir() || hidden || directory == Path::new("target") {
                continue;
            }
            directories.extend(names(&root.join(&directory))?.iter().map(|name| directory.join(name)));
            if root.join(&directory).join("Cargo.toml").is_file() {
                crates.push(directory);
            }
        }
        Ok(Self { root, top, crates })
    }

    /// Returns true if code in `document` is a path of this repository, and there is no such path.
    pub(crate) fn is_missing(&self, document: &Path, code: &str) -> bool {
        self.means(code) && !self.exists(document, code)
    }

    /// Returns true if code is a path of this repository, as it is or as it was: it starts as one of the root's entries, or ends
    /// as its sources do.
    fn means(&self, code: &str) -> bool {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
        let Some((first, _)) = code.split_once('/').filter(|_| code.chars().all(is_plain)) else {
            return false;
        };
        let is_own = OWN.iter().any(|end| code.ends_with(end)) || self.top.iter().any(|name| name == first);
        is_own && !first.is_empty() && first != "target"
    }

    /// Returns true if there is such a path from the root, from the document, from a crate or from its sources.
    fn exists(&self, document: &Path, code: &str) -> bool {
        let of_crates = self.crates.iter().flat_map(|path| [path.join(code), path.join("src").join(code)]);
        let near = normalized(document, code);
        [PathBuf::from(code)]
            .into_iter()
            .chain(near)
            .chain(of_crates)
            .any(|path| self.root.join(path).exists())
    }
}

/// Returns the path from the root that `destination` in `document` means; `None` if it leaves the root.
pub fn normalized(document: &Path, destination: &str) -> Option<PathBuf> {
    let mut path = document.parent()?.to_path_buf();
    for component in Path::new(destination).components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            Component::ParentDir => path.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}
