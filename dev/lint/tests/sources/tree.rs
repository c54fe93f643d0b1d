//! Made-up crates, written to a directory and read.

use std::path::{Path, PathBuf};

use house::{Arrow, Arrows, Crate, Error, Rooms};
use tempfile::TempDir;

/// A crate whose files are on disk until it is dropped.
pub(crate) struct Tree {
    directory: TempDir,
    package: Crate,
}

impl Tree {
    /// Writes files, each a path below the crate's `src` and a text; `lib.rs` is the root.
    pub(crate) fn new(files: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        for (path, text) in files {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a file is in a directory")).expect("a directory");
            std::fs::write(path, text).expect("a file");
        }
        let roots = vec![directory.path().join("lib.rs")];
        Tree {
            package: Crate { name: "made-up".into(), directory: directory.path().into(), roots },
            directory,
        }
    }

    /// The arrows, or why they cannot be told.
    pub(crate) fn read(&self) -> Result<Arrows, Error> {
        Arrows::read(&self.package)
    }

    /// The arrows as `from -> to`, by file name below `src`.
    pub(crate) fn arrows(&self) -> Vec<String> {
        self.read().expect("a crate that can be read").all.iter().map(|arrow| self.pair(arrow)).collect()
    }

    /// The circles, by file names.
    pub(crate) fn circles(&self) -> Vec<Vec<String>> {
        let arrows = self.read().expect("a crate that can be read");
        let names = |circle: Vec<PathBuf>| circle.iter().map(|path| self.name(path)).collect();
        house::circles(&arrows.all).into_iter().map(names).collect()
    }

    /// The shortest circle of the largest set of files.
    pub(crate) fn shortest(&self) -> Vec<String> {
        let arrows = self.read().expect("a crate that can be read");
        let circles = house::circles(&arrows.all);
        house::shortest(&arrows.all, &circles[0]).into_iter().map(|arrow| self.pair(arrow)).collect()
    }

    /// The rooms that the root's comment orders.
    pub(crate) fn rooms(&self) -> Result<Option<Rooms>, Error> {
        Ok(Rooms::of(&self.read()?)?.pop())
    }

    /// The arrows against that order.
    pub(crate) fn against(&self) -> Vec<String> {
        let rooms = self.rooms().expect("rooms that fit the modules").expect("a table of rooms");
        rooms
            .against(&self.read().expect("a crate that can be read").all)
            .into_iter()
            .map(|arrow| self.pair(arrow))
            .collect()
    }

    fn pair(&self, arrow: &Arrow) -> String {
        format!("{} -> {}", self.name(&arrow.from), self.name(&arrow.to))
    }

    fn name(&self, path: &Path) -> String {
        path.strip_prefix(self.directory.path()).expect("a file of the crate").display().to_string()
    }
}
