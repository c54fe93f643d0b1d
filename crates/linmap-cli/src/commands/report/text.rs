//! The report for people, on a terminal.

use super::sections::Section;
use crate::table::table;
use crate::terminal::{ASIDE, HEADING};

/// Returns the whole report, with styles, ending in a line break.
pub(crate) fn of(sections: &[Section]) -> String {
    sections.iter().map(section).collect::<Vec<_>>().join("\n")
}

fn section(section: &Section) -> String {
    let Section { title, says, header, rows, notes } = section;
    let mut text = format!("{HEADING}{title}{HEADING:#}: {}\n", says.join("\n"));
    if !rows.is_empty() {
        let header: Vec<_> = header.iter().map(|name| &**name).collect();
        text.push_str(&table(&header, rows.iter().cloned()));
    }
    for note in notes {
        text.push_str(&format!("{ASIDE}{note}{ASIDE:#}\n"));
    }
    text
}
