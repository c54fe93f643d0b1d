//! What the pages of a range are, as few stretches as there can be: addresses in a row, mapped to physical memory
//! in a row.

use crate::descriptor::in_place_bits;
use crate::edit::{Edit, refusal};
use crate::live::{Access, Span, Table};
use crate::{Descriptor, Error, Level, Pa, Platform, Va, table_limits};

/// A walk of a range in which everything is mapped, kept mappings included.
pub(crate) struct Backing<'a, P> {
    access: &'a Access<'a, P>,
    span: Span,
    /// What is to become of the leaves: whether it may is looked at as well.
    edit: Edit,
    /// Whether any leaf becomes another.
    changes: bool,
    /// The stretch that goes on, if there is one: physical addresses, both included.
    stretch: Option<Span>,
}

impl<'a, P: Platform> Backing<'a, P> {
    pub(crate) const fn new(access: &'a Access<'a, P>, span: Span, edit: Edit) -> Self {
        Self { access, span, edit, changes: false, stretch: None }
    }

    /// Calls `each` for every stretch of physical addresses, in the order of the range. Whether the edit changes
    /// anything.
    ///
    /// # Errors
    ///
    /// A hole, an entry that is not understood, an edit that is refused, or what `each` says. Some stretches
    /// may have been told by then.
    pub(crate) fn each(
        mut self,
        node: &Table,
        each: &mut dyn FnMut(Span) -> Result<(), Error>,
    ) -> Result<bool, Error> {
        self.table(node, each)?;
        self.stretch.map_or(Ok(()), each)?;
        Ok(self.changes)
    }

    fn table(&mut self, table: &Table, each: &mut dyn FnMut(Span) -> Result<(), Error>) -> Result<(), Error> {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        let mut index = first;
        while index <= last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                if table_limits(old) != 0 {
                    return Err(Error::NotUnderstood { va: Va(table.va(index).max(self.span.first)) });
                }
                self.table(&self.access.below(table, index, old), each)?;
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
        loop {
            let mut eight = next;
            if end.is_multiple_of(2) && end + 7 <= last && self.access.eight(table, end, (&mut eight, step)) {
                (next, end) = (eight, end + 8);
            } else if end <= last && self.access.load(table, end).0 == next {
                (next, end) = (next.wrapping_add(step), end + 1);
            } else {
                break;
            }
        }
        let bits = in_place_bits(self.access.geometry.oa_format());
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
        let g = self.access.geometry;
        let (from, to) = (table.span_of(first), table.span_of(last));
        let new = self.edit.of(old);
        let refused = self.edit.refuse_write_execute && new.is_write_execute();
        self.changes |= new != old;
        if refused || !old.is_leaf(g, table.level) {
            return Err(refusal(from.first.max(self.span.first), table.level, old, g));
        }
        let Pa(oa) = old.oa(g, table.level);
        let within = |va: u64| oa + (va - from.first);
        let new = Span {
            first: within(from.first.max(self.span.first)),
            last: within(to.last.min(self.span.last)),
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
