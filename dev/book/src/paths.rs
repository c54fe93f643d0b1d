//! Paths that documents name as code: those of the repository have to exist.

use std::path::{Component, Path, PathBuf};

/// Ends of names that are sources of this repository, and of no other that documents speak of.
const OWN: [&str; 5] = [".rs", ".md", ".sh", ".py", ".toml"];

/// The places that a path can start from.
pub(crate) struct Paths<'a> {
    root: &'a Path,
    /// The folders of crates, from the root.
    crates: Vec<&'a Path>,
}

impl<'a> Paths<'a> {
    /// Those of a repository with these files, by their paths from its root.
    pub(crate) fn new(root: &'a Path, files: &'a [PathBuf]) -> Self {
        let crates =
            files.iter().filter(|file| file.ends_with("Cargo.toml")).filter_map(|file| file.parent());
        Self { root, crates: crates.collect() }
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
        let is_own = OWN.iter().any(|end| code.ends_with(end)) || self.root.join(first).exists();
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
