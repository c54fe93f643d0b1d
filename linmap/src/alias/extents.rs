//! The physical memory of a range of pages, in as few extents as possible. In an extent, consecutive addresses are
//! mapped to consecutive physical memory.

use crate::format::{Descriptor, LeafChange, Level, Pa, Span, in_place_bits};
use crate::live::{LeafVisitor, Locked, Stop, Survey};
use crate::platform::Platform;
use crate::read::Table;

/// A walk of a range that must be mapped everywhere; present-invalid leaves count as mapped. It also surveys the range.
pub(crate) struct Extents<'e> {
    /// The change for which the range is surveyed.
    change: LeafChange,
    span: Span,
    found: Survey,
    /// The extent that may continue, if there is one: physical addresses, both included.
    extent: Option<Span>,
    each: &'e mut dyn FnMut(Span) -> Result<(), Stop>,
}

impl Extents<'_> {
    /// Calls `each` for every extent of physical addresses, in the order of the range. Returns the survey of the range.
    ///
    /// # Errors
    ///
    /// A hole; a descriptor that the library would not write; a change that is refused; or the error of `each`. `each`
    /// may have been called for some extents by then.
    pub(crate) fn visit<P: Platform>(
        locked: &Locked<'_, P>,
        change: LeafChange,
        span: Span,
        each: &mut dyn FnMut(Span) -> Result<(), Stop>,
    ) -> Result<Survey, Stop> {
        let table = locked.deepest(locked.root(), span);
        let mut extents = Extents { change, span, found: Survey::default(), extent: None, each };
        locked.visit_leaves(&table, span, &mut extents)?;
        let Extents { extent, found, each, .. } = extents;
        extent.map_or(Ok(()), each)?;
        Ok(found)
    }
}

impl<P: Platform> LeafVisitor<P> for Extents<'_> {
    fn leaves(
        &mut self,
        locked: &Locked<'_, P>,
        table: &Table,
        (index, last): (usize, usize),
        old: Descriptor,
    ) -> Result<usize, Stop> {
        let end = index + consecutive(locked, table, (index, last), old);
        self.found.leaves(locked, (self.change, self.span), (table, index, end - 1), old)?;
        let (from, to) = (table.span_of(index), table.span_of(end - 1));
        let Pa(oa) = old.oa(locked.geometry, table.level);
        let within = |va: u64| oa + (va - from.first);
        let new = Span {
            first: within(from.first.max(self.span.first)),
            last: within(to.last.min(self.span.last)),
        };
        match &mut self.extent {
            Some(extent) if extent.last.wrapping_add(1) == new.first => extent.last = new.last,
            before => {
                if let Some(done) = before.replace(new) {
                    (self.each)(done)?;
                }
            }
        }
        Ok(end)
    }
}

/// Returns the number of entries, from one on and up to the last, that map consecutive physical memory with equal
/// attributes.
fn consecutive<P: Platform>(
    locked: &Locked<'_, P>,
    table: &Table,
    (index, last): (usize, usize),
    first: Descriptor,
) -> usize {
    if table.level != Level::PAGE || first == Descriptor::HOLE {
        return 1;
    }
    let (step, mut next, mut end) = (1 << table.shift, first.0, index);
    let one = |end: usize, next: u64| end <= last && locked.load(table, end).0 == next;
    if !index.is_multiple_of(2) {
        (next, end) = (next.wrapping_add(step), index + 1);
    }
    for _ in 0..(last + 1 - end) / 8 {
        let mut eight = next;
        if !locked.eight(table, end, (&mut eight, step)) {
            break;
        }
        (next, end) = (eight, end + 8);
    }
    while one(end, next) {
        (next, end) = (next.wrapping_add(step), end + 1);
    }
    let bits = in_place_bits(locked.geometry.oa_format());
    if (first.0 ^ next.wrapping_sub(step)) >> bits != 0 {
        // Beyond that address, the format moves high address bits to another field, so addition does not give the next
        // entry.
        let within = first.0 & ((1 << bits) - 1);
        return ((1 << bits) - within).div_ceil(step) as usize;
    }
    end - index
}
