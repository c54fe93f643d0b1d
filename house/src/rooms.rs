//! The order of a crate's rooms, as the first comment of its root tells readers, and arrows against it.
//!
//! The comment has a table headed `room`. Each first cell names a module of the root in backticks. A room uses
//! only those above it; the root may use all.

use std::path::{Path, PathBuf};

use crate::{Arrow, Arrows, Crate, Error};

/// The rooms of a crate, from the bottom up.
#[derive(Debug)]
pub struct Rooms {
    names: Vec<String>,
    /// The files of each room.
    files: Vec<Vec<PathBuf>>,
}

impl Rooms {
    /// The rooms of a crate; none if its comment has no such table.
    ///
    /// # Errors
    ///
    /// If the table leaves out a module of the root, or names one that does not exist.
    pub fn of(package: &Crate, arrows: &Arrows) -> Result<Option<Self>, Error> {
        let Some(names) = table(&arrows.comment) else { return Ok(None) };
        let differ = |detail| Error::Rooms { path: package.roots[0].clone(), detail };
        if let Some(name) = arrows.branches.keys().find(|name| !names.contains(name)) {
            return Err(differ(format!("the table of rooms lacks module `{name}`")));
        }
        let files = names.iter().map(|name| match arrows.branches.get(name) {
            Some(files) => Ok(files.clone()),
            None => Err(differ(format!("the table of rooms has `{name}`, which is no module of the root"))),
        });
        Ok(Some(Rooms { files: files.collect::<Result<_, _>>()?, names }))
    }

    /// The arrows from a room to one below it in the table, or to the root.
    #[must_use]
    pub fn against<'a>(&self, arrows: &'a [Arrow]) -> Vec<&'a Arrow> {
        arrows.iter().filter(|arrow| self.position(&arrow.from) < self.position(&arrow.to)).collect()
    }

    /// The place of a file's room in the order; the root is above all rooms.
    fn position(&self, file: &Path) -> usize {
        self.files
            .iter()
            .position(|files| files.iter().any(|other| other == file))
            .unwrap_or(self.files.len())
    }

    /// Compares the rooms with the drawing of a crate in a document: a line that begins with the crate's
    /// directory, then one indented line for each room, as `src/room/`, `room/` or `room.rs`. A room of one file can
    /// be left out, and so can all rooms.
    ///
    /// # Errors
    ///
    /// If the drawing has other rooms, or these in another order.
    pub fn check_drawing(&self, directory: &str, document: &Path, text: &str) -> Result<(), Error> {
        let head = format!("{directory}/");
        let inside = text.lines().skip_while(|line| line.split_whitespace().next() != Some(&head)).skip(1);
        let drawn = inside.take_while(|line| line.starts_with(' ')).filter_map(|line| self.drawn(line));
        let drawn: Vec<_> = drawn.collect();
        let rooms = self.names.iter().zip(&self.files);
        let expected = rooms.filter(|(name, files)| files.len() > 1 || drawn.contains(&name.as_str()));
        if drawn.is_empty() || expected.map(|(name, _)| name).eq(&drawn) {
            return Ok(());
        }
        let detail = format!("draws the rooms of {directory} as {drawn:?}; its root says {:?}", self.names);
        Err(Error::Rooms { path: document.into(), detail })
    }

    /// The room that a line of a drawing is about.
    fn drawn<'a>(&self, line: &'a str) -> Option<&'a str> {
        let entry = line.split_whitespace().next()?;
        let entry = entry.strip_prefix("src/").unwrap_or(entry);
        let name = entry.strip_suffix('/').or_else(|| entry.strip_suffix(".rs")).unwrap_or(entry);
        self.names.iter().any(|room| room == name).then_some(name)
    }
}

/// The names in the first cells of the table headed `room`.
fn table(comment: &str) -> Option<Vec<String>> {
    let cell =
        |line: &str| line.trim().strip_prefix('|')?.split('|').next().map(|cell| cell.trim().to_string());
    let mut lines =
        comment.lines().skip_while(|line| cell(line).is_none_or(|cell| cell != "room")).peekable();
    lines.peek()?;
    let cells = lines.skip(2).map_while(cell);
    Some(
        cells
            .flat_map(|cell| cell.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>())
            .collect(),
    )
}
