//! Which file of a crate uses which: one arrow for each pair, with the first place that makes it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use crate::modules::Modules;
use crate::uses::uses;
use crate::{Crate, Error};

/// The first place where a file uses another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// The file that uses.
    pub from: PathBuf,
    /// The file that defines what is used.
    pub to: PathBuf,
    /// The path that names it, as written.
    pub name: String,
    /// The line of that path, from 1.
    pub line: usize,
}

impl fmt::Display for Arrow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{} -> {} by {}", self.from.display(), self.line, self.to.display(), self.name)
    }
}

/// The sources of a crate without its tests, and the arrows between their files.
#[derive(Debug, Default)]
pub struct Arrows {
    /// The arrows, by user and then by the file used.
    pub all: Vec<Arrow>,
    /// The text of each file.
    pub texts: BTreeMap<PathBuf, String>,
    /// The files of each module of a root, by its name.
    pub(crate) branches: BTreeMap<String, Vec<PathBuf>>,
    /// The comment that the first root begins with.
    pub(crate) comment: String,
}

impl Arrows {
    /// Reads all targets of a crate.
    ///
    /// # Errors
    ///
    /// If a file is missing, is no Rust, or has a path into the crate that leads nowhere.
    pub fn read(package: &Crate) -> Result<Self, Error> {
        let mut arrows = Arrows::default();
        let mut found = BTreeMap::new();
        for root in &package.roots {
            let modules = Modules::read(root)?;
            for number in 0..modules.all.len() {
                collect(&modules, number, &mut found)?;
            }
            arrows.add_files(modules);
        }
        arrows.all = found.into_values().collect();
        Ok(arrows)
    }

    fn add_files(&mut self, modules: Modules) {
        for (number, module) in modules.all.iter().enumerate() {
            let branch = modules.branch(number);
            if branch != 0 {
                self.branches.entry(modules.all[branch].name.clone()).or_default().push(module.file.clone());
            }
        }
        self.texts.extend(modules.texts);
        if self.comment.is_empty() {
            self.comment = modules.comment;
        }
    }
}

/// Adds the arrows of one module's code.
fn collect(
    modules: &Modules,
    number: usize,
    found: &mut BTreeMap<(PathBuf, PathBuf), Arrow>,
) -> Result<(), Error> {
    let from: &Path = &modules.all[number].file;
    for used in uses(modules, number)? {
        let to: &Path = &modules.all[used.definer].file;
        if from != to {
            let arrow = Arrow { from: from.into(), to: to.into(), name: used.name, line: used.line };
            found.entry((from.into(), to.into())).or_insert(arrow);
        }
    }
    Ok(())
}
