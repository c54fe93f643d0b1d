//! A dump in the form of Linux, written as it is read.

use std::fmt;
use std::io::{self, Write};
use std::ops::ControlFlow;

use linmap::{DumpError, Entry, MarkedRange, Va, dump};

use super::selection::Part;
use crate::commands::reading::Failure;
use crate::map::descent::{descend, path};
use crate::map::view::View;
use crate::terminal;

/// Prints the parts; a part without a name only if it has entries.
pub(super) fn print(view: &View<'_>, parts: &[Part]) -> Result<(), Failure> {
    let mut failed = Ok(());
    terminal::stream(|out| {
        let mut next = Va(0);
        for part in parts {
            let (first, last) = part.range;
            let rest = MarkedRange { range: (first.max(next), last), ..*part };
            let printed = print_part(view, rest, parts.len() > 1, out).and_then(|()| end(view, last));
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
    out: &mut dyn Write,
) -> Result<(), Failure> {
    if is_one_of_many && part.start.starts_with("Elsewhere") && is_empty(view, &part)? {
        return Ok(());
    }
    let mut text = Text { out, error: None };
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
    error: Option<io::Error>,
}

impl fmt::Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}
