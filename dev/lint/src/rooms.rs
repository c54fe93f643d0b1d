//! The order of a crate's rooms, as the first comment of its root tells readers, and arrows against it.
//!
//! The comment has a table headed `room`, whose first cells name modules in backticks; or, after a line that ends with
//! "before it in this list:", a list whose items begin with such names. A room is a module with those below it that are
//! not named themselves. It uses only those before it; the root may use all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::arrows::Target;
use crate::{Arrow, Arrows, Error};

/// The rooms of a library or a program, from the bottom up.
#[derive(Debug)]
pub struct Rooms {
    /// The paths of their modules.
    names: Vec<String>,
    /// The place of each file in the order; the root is above all rooms.
    places: BTreeMap<PathBuf, usize>,
    /// True if the comment has a table.
    is_table: bool,
}

impl Rooms {
    /// Returns the rooms of each library or program whose comment gives them an order.
    ///
    /// # Errors
    ///
    /// If the order leaves out a module that is used or uses others, or names one that does not exist.
    pub fn of(arrows: &Arrows) -> Result<Vec<Self>, Error> {
        arrows.targets.iter().filter_map(|target| Self::of_target(target, &arrows.all).transpose()).collect()
    }

    fn of_target(target: &Target, arrows: &[Arrow]) -> Result<Option<Self>, Error> {
        let (names, is_table) = match (table(&target.comment), list(&target.comment)) {
            (Some(names), _) => (names, true),
            (None, Some(names)) => (names, false),
            (None, None) => return Ok(None),
        };
        let differ = |detail| Err(Error::Rooms { path: target.root.clone(), detail });
        let has_module = |name: &String| target.modules.iter().any(|(path, _)| is_in(path, name));
        if let Some(name) = names.iter().find(|name| !has_module(name)) {
            return differ(format!("the order of rooms has `{name}`, which is no module"));
        }
        let mut places = BTreeMap::from([(target.root.clone(), names.len())]);
        for (path, file) in &target.modules {
            let around = names.iter().enumerate().filter(|(_, name)| is_in(path, name));
            if let Some((place, _)) = around.max_by_key(|(_, name)| name.len()) {
                places.insert(file.clone(), place);
            } else if arrows.iter().any(|arrow| arrow.from == *file || arrow.to == *file) {
                return differ(format!("the order of rooms lacks module `{path}`"));
            }
        }
        Ok(Some(Rooms { names, places, is_table }))
    }

    /// Returns the arrows from a room to one after it, or to the root.
    #[must_use]
    pub fn against<'a>(&self, arrows: &'a [Arrow]) -> Vec<&'a Arrow> {
        let place = |file: &PathBuf| self.places.get(file);
        let goes_up =
            |arrow: &&Arrow| place(&arrow.from).zip(place(&arrow.to)).is_some_and(|(from, to)| from < to);
        arrows.iter().filter(goes_up).collect()
    }

    /// Compares the rooms with the rows of a crate in a document: one for each room, whose first cell is the path from the
    /// crate's directory, as `crate/src/room/` or `crate/src/room.rs`. A room of one file can be left out, and so can all
    /// rooms. A list, unlike a table, is not compared.
    ///
    /// # Errors
    ///
    /// If the rows have other rooms, or these in another order.
    pub fn check_rows(&self, directory: &str, document: &Path, text: &str) -> Result<(), Error> {
        let head = format!("| `{directory}/src/");
        let rows = text.lines().filter_map(|line| line.strip_prefix(&head)?.split('`').next());
        let rows: Vec<_> = rows.filter_map(|path| self.named(path)).collect();
        let files = |room: usize| self.places.values().filter(|place| **place == room).count();
        let rooms = self.names.iter().enumerate();
        let expected = rooms.filter(|(room, name)| files(*room) > 1 || rows.contains(&name.as_str()));
        if !self.is_table || rows.is_empty() || expected.map(|(_, name)| name).eq(&rows) {
            return Ok(());
        }
        let detail = format!("has the rooms of {directory} as {rows:?}; its root says {:?}", self.names);
        Err(Error::Rooms { path: document.into(), detail })
    }

    /// The room at a path from the sources of the crate.
    fn named<'a>(&self, path: &'a str) -> Option<&'a str> {
        let name = path.strip_suffix('/').or_else(|| path.strip_suffix(".rs")).unwrap_or(path);
        self.names.iter().any(|room| room == name).then_some(name)
    }
}

/// True if the module at `path` is `room`, or below it.
fn is_in(path: &str, room: &str) -> bool {
    path.strip_prefix(room).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The names in the first cells of the table headed `room`.
fn table(comment: &str) -> Option<Vec<String>> {
    let cell =
        |line: &str| line.trim().strip_prefix('|')?.split('|').next().map(|cell| cell.trim().to_string());
    let mut lines =
        comment.lines().skip_while(|line| cell(line).is_none_or(|cell| cell != "room")).peekable();
    lines.peek()?;
    Some(lines.skip(2).map_while(cell).flat_map(|cell| names(&cell)).collect())
}

/// The names that the items of the list begin with.
fn list(comment: &str) -> Option<Vec<String>> {
    let mut lines =
        comment.lines().skip_while(|line| !line.ends_with("before it in this list:")).skip(1).peekable();
    lines.peek()?;
    let lines = lines.skip_while(|line| line.trim().is_empty()).take_while(|line| !line.trim().is_empty());
    let items = lines.filter_map(|line| line.trim_start().strip_prefix("- ")?.split(": ").next());
    Some(items.flat_map(names).collect())
}

/// The paths in backticks: `` `a`, `b::{c, d}` `` names three.
fn names(text: &str) -> Vec<String> {
    let spans = text.split('`').skip(1).step_by(2);
    let paths = |span: &str| match span.split_once("::{") {
        Some((parent, rest)) => {
            rest.trim_end_matches('}').split(", ").map(|name| format!("{parent}::{name}")).collect()
        }
        None => vec![span.to_string()],
    };
    spans.flat_map(paths).collect()
}
