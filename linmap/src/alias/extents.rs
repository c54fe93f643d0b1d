//! What the pages of a range are, as few stretches as there can be: addresses in a row, mapped to physical memory
//! in a row.

use crate::build::Error;
use crate::format::{Descriptor, Level, Pa, Span, TableLimits, Va, in_place_bits};
use crate::live::{Editor, Survey};
use crate::platform::Platform;
use crate::read::Table;

/// A walk of a range in which everything is mapped, kept mappings included.
pub(crate) struct Backing<'a, P> {
    /// What is to become of the range: whether it may, and what it takes, is looked at as well.
    editor: &'a Editor<'a, P>,
    found: Survey,
    /// The stretch that goes on, if there is one: physical addresses, both included.
    stretch: Option<Span>,
}

impl<'a, P: Platform> Backing<'a, P> {
    pub(crate) fn new(editor: &'a Editor<'a, P>) -> Self {
        Self { editor, found: Survey::default(), stretch: None }
    }

    /// Calls `each` for every stretch of physical addresses, in the order of the range. What the edit takes.
    ///
    /// # Errors
    ///
    /// A hole, an entry that is not understood, an edit that is refused, or what `each` says. Some stretches
    /// may have been told by then.
    pub(crate) fn each(
        mut self,
        node: &Table,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<Survey, Error> {
        self.table(node, each)?;
        self.stretch.map_or(Ok(()), each)?;
        Ok(self.found)
    }

    fn table(&mut self, table: &Table, each: &mut dyn FnMut(Span) -> Result<(), Error>) -> Result<(), Error> {
        let (first, last) = table.entries_of(self.editor.span, self.editor.access.geometry);
        let mut index = first;
        while index <= last {
            let old = self.editor.access.load(table, index);
            if old.is_table(table.level) {
                if !TableLimits::of(old).is_empty() {
                    return Err(Error::NotUnderstood { va: Va(table.va(index).max(self.editor.span.first)) });
                }
                self.table(&self.editor.access.below(table, index, old), each)?;
                index += 1;
                continue;
            }
            let end = index + self.alike(table, index, old, last);
            self.leaves(table, (index, end - 1), old, each)?;
            index = end;
        }
        Ok(())
    }

    /// How many entries from one on, up to the last, say the same of addresses in a row.
    fn alike(&self, table: &Table, index: usize, first: Descriptor, last: usize) -> usize {
        if table.level != Level::PAGE || first == Descriptor::HOLE {
            return 1;
        }
        let (step, mut next, mut end) = (1 << table.shift, first.0, index);
        let one = |end: usize, next: u64| end <= last && self.editor.access.load(table, end).0 == next;
        if !index.is_multiple_of(2) {
            (next, end) = (next.wrapping_add(step), index + 1);
        }
        for _ in 0..(last + 1 - end) / 8 {
            let mut eight = next;
            if !self.editor.access.eight(table, end, (&mut eight, step)) {
                break;
            }
            (next, end) = (eight, end + 8);
        }
        while one(end, next) {
            (next, end) = (next.wrapping_add(step), end + 1);
        }
        let bits = in_place_bits(self.editor.access.geometry.oa_format());
        if (first.0 ^ next.wrapping_sub(step)) >> bits != 0 {
            // From there on the format keeps the high bits of an address elsewhere: it is not counted by addition.
            let within = first.0 & ((1 << bits) - 1);
            return ((1 << bits) - within).div_ceil(step) as usize;
        }
        end - index
    }

    /// Adds leaves that are alike, from one entry to another, both included.
    fn leaves(
        &mut self,
        table: &Table,
        (first, last): (usize, usize),
        old: Descriptor,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let g = self.editor.access.geometry;
        let (from, to) = (table.span_of(first), table.span_of(last));
        self.editor.survey_leaves(table, (first, last), old, &mut self.found)?;
        let Pa(oa) = old.oa(g, table.level);
        let within = |va: u64| oa + (va - from.first);
        let new = Span {
            first: within(from.first.max(self.editor.span.first)),
            last: within(to.last.min(self.editor.span.last)),
        };
        match &mut self.stretch {
            Some(stretch) if stretch.last.wrapping_add(1) == new.first => stretch.last = new.last,
            before => {
                if let Some(done) = before.replace(new) {
                    each(done)?;
                }
            }
        }
        Ok(())
    }
}
