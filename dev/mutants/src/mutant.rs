//! A mutant: a change of the source at one place, as cargo-mutants lists it.

use std::path::Path;

use serde::Deserialize;

use crate::error::Error;

/// A change of the source at one place.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Mutant {
    /// The file, the place in it and the change, in the words of cargo-mutants.
    pub(crate) name: String,
    /// The file, from the root of the repository on.
    pub(crate) file: String,
    /// The text that takes the place of that in `span`.
    replacement: String,
    span: Range,
    /// The line of the source in which the change begins, without the space around it.
    #[serde(skip)]
    pub(crate) code: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Range {
    start: Position,
    end: Position,
}

/// A place in a file, from line 1 and column 1 on.
#[derive(Clone, Copy, Debug, Deserialize)]
struct Position {
    line: usize,
    column: usize,
}

impl Position {
    /// Returns the offset in a text, or `None` if the text does not have the place.
    fn offset(self, text: &str) -> Option<usize> {
        let mut lines = text.split_inclusive('\n');
        let before: usize = lines.by_ref().take(self.line.checked_sub(1)?).map(str::len).sum();
        let mut characters = lines.next()?.char_indices().map(|(at, _)| at);
        Some(before + characters.nth(self.column.checked_sub(1)?)?)
    }
}

impl Mutant {
    /// Reads the list of cargo-mutants. The source is below `root`.
    ///
    /// # Errors
    ///
    /// A list of another form, or of another source.
    pub(crate) fn list(json: &[u8], root: &Path) -> Result<Vec<Self>, Error> {
        let form = |detail: String| Error::Form { what: "cargo mutants --list --json".into(), detail };
        let mut all: Vec<Self> = serde_json::from_slice(json).map_err(|e| form(e.to_string()))?;
        for mutant in &mut all {
            let path = root.join(&mutant.file);
            let text = std::fs::read_to_string(&path).map_err(Error::of(&path))?;
            let line = text.lines().nth(mutant.span.start.line.saturating_sub(1));
            mutant.code = line.unwrap_or_default().trim().to_owned();
            if mutant.applied(&text).is_none() {
                return Err(form(format!("{} is not in the file", mutant.name)));
            }
        }
        Ok(all)
    }

    /// Returns the source with the change, or `None` if the place is not in it.
    pub(crate) fn applied(&self, text: &str) -> Option<String> {
        let (start, end) = (self.span.start.offset(text)?, self.span.end.offset(text)?);
        Some([text.get(..start)?, &self.replacement, text.get(end..)?].concat())
    }

    /// The change alone, without the place.
    pub(crate) fn change(&self) -> &str {
        self.name.split_once(": ").map_or(&*self.name, |(_, change)| change)
    }
}

#[cfg(test)]
impl Mutant {
    /// A mutant that only has a name.
    pub(crate) fn named(name: &str) -> Self {
        let start = Position { line: 1, column: 1 };
        let span = Range { start, end: start };
        let (file, _) = name.split_once(':').expect("a file and a place");
        Self { name: name.into(), file: file.into(), replacement: String::new(), span, code: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(start: (usize, usize), end: (usize, usize), replacement: &str) -> Mutant {
        let position = |(line, column)| Position { line, column };
        let span = Range { start: position(start), end: position(end) };
        Mutant { replacement: replacement.into(), span, ..Mutant::named("a.rs:1:1: replace < with <= in f") }
    }

    #[test]
    fn columns_count_characters() {
        let text = "let a = 'é' < b;\nlet c = 1;\n";
        assert_eq!(mutant((1, 13), (1, 14), "<=").applied(text).unwrap(), text.replace('<', "<="));
        assert_eq!(mutant((1, 1), (2, 4), "").applied(text).unwrap(), " c = 1;\n");
        assert_eq!(mutant((4, 1), (4, 2), "").applied(text), None);
        assert_eq!(mutant((0, 1), (1, 0), "").applied(text), None);
    }

    #[test]
    fn the_change_has_no_line() {
        assert_eq!(mutant((1, 1), (1, 2), "").change(), "replace < with <= in f");
    }
}
