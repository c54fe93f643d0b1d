//! A dump in the form of Linux, written as it is read.

use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;

use linmap::Va;
use linmap::arch::Entry;
use linmap::read::{DumpError, MarkedRange, dump};

use crate::commands::names::Names;
use crate::commands::reading::Failure;
use crate::commands::selection::Part;
use crate::map::descent::{descend, path};
use crate::map::view::View;
use crate::terminal;

/// Prints the parts; a part without a name only if it has entries.
pub(super) fn print(view: &View<'_>, parts: &[Part], names: Option<&Names>) -> Result<(), Failure> {
    let mut failed = Ok(());
    terminal::stream(|out| {
        let mut next = Va(0);
        for part in parts {
            let (first, last) = part.range;
            let rest = MarkedRange { range: (first.max(next), last), ..*part };
            let printed = print_part(view, rest, parts.len() > 1, names, out).and_then(|()| end(view, last));
            match printed {
                Ok(end) => next = end.max(next),
                Err(Failure::Output(error)) => return Err(error),
                Err(other) => {
                    failed = Err(other);
                    break;
                }
            }
        }
        Ok(())
    })?;
    failed
}

fn print_part(
    view: &View<'_>,
    part: MarkedRange,
    is_one_of_many: bool,
    names: Option<&Names>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if is_one_of_many && part.start.starts_with("Elsewhere") && is_empty(view, &part)? {
        return Ok(());
    }
    let mut text = Text { out, names, line: String::new(), error: None };
    let dumped = dump(&view.bounded(), view.geometry, view.root, part, &mut text);
    match (dumped, text.error) {
        (Err(DumpError::Read(why)), _) => Err(Failure::walk(view)(why)),
        (Err(DumpError::Write), error) => {
            Err(Failure::Output(error.unwrap_or_else(|| io::Error::other("it cannot be formatted"))))
        }
        (Ok(_), _) => Ok(()),
    }
}

/// Returns the address after the entry that translates this one: an entry that reaches into the next part is printed
/// once, as by Linux.
fn end(view: &View<'_>, va: Va) -> Result<Va, Failure> {
    let path = path(&view.bounded(), view.geometry, view.root, va).map_err(Failure::walk(view))?;
    let last = path.last().map(|found| (found.va.0, view.geometry.level_size(found.level)));
    Ok(Va(last.map_or(va.0, |(va, bytes)| va.saturating_add(bytes))))
}

fn is_empty(view: &View<'_>, part: &MarkedRange) -> Result<bool, Failure> {
    let flow = descend(&view.bounded(), view.geometry, view.root, part.range, |found| match found.entry {
        Entry::Leaf(_) | Entry::Reserved => ControlFlow::Break(()),
        Entry::Hole | Entry::Table(_) => ControlFlow::Continue(()),
    });
    Ok(flow.map_err(Failure::walk(view))?.is_continue())
}

/// Text on its way to a file, with the error that stopped it.
struct Text<'o> {
    out: &'o mut dyn Write,
    /// The symbols that are put at the end of lines.
    names: Option<&'o Names>,
    /// The line so far, if it gets a name.
    line: String,
    error: Option<io::Error>,
}

impl Text<'_> {
    fn write(&mut self, text: &str) -> io::Result<()> {
        let Some(names) = self.names else { return self.out.write_all(text.as_bytes()) };
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if let Some(line) = self.line.strip_suffix('\n') {
                writeln!(self.out, "{line}{}", suffix(line, names))?;
                self.line.clear();
            }
        }
        Ok(())
    }
}

/// Returns the name of the symbol that a line's first address belongs to, after two spaces.
fn suffix(line: &str, names: &Names) -> String {
    let address = line.strip_prefix("0x").and_then(|rest| rest.split('-').next());
    let va = address.and_then(|address| u64::from_str_radix(address, 16).ok());
    va.and_then(|va| names.name(Va(va))).map(|name| format!("  {name}")).unwrap_or_default()
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.write(text).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
