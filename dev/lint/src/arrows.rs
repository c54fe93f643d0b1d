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
    /// The library and the programs.
    pub(crate) targets: Vec<Target>,
}

/// A library or a program.
#[derive(Debug)]
pub(crate) struct Target {
    /// Its root file.
    pub(crate) root: PathBuf,
    /// The comment that the root begins with.
    pub(crate) comment: String,
    /// The modules below the root that have a file of their own: path and file.
    pub(crate) modules: Vec<(String, PathBuf)>,
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
            arrows.add_target(root, modules);
        }
        arrows.all = found.into_values().collect();
        Ok(arrows)
    }

    fn add_target(&mut self, root: &Path, modules: Modules) {
        let files = (1..modules.all.len()).filter(|&number| modules.has_own_file(number));
        let files = files.map(|number| (modules.path(number), modules.all[number].file.clone())).collect();
        self.targets.push(Target { root: root.into(), comment: modules.comment, modules: files });
        self.texts.extend(modules.texts);
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
