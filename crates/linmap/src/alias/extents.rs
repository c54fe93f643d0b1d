//! The physical memory of a range of pages, in as few extents as possible. In an extent, consecutive addresses are
//! mapped to consecutive physical memory. A budget says how many entries one hold may still read and write.

use core::cell::Cell;

use crate::edit::{Editor, Guard, LiveVisitor, Stop, Survey};
use crate::format::{Descriptor, LeafChange, Level, Pa, Span, in_place_bits};
use crate::read::{Entries, Table, visit_span};

/// A walk of a range that must be mapped everywhere; present-invalid leaves count as mapped. It also surveys the range.
pub(crate) struct Extents {
    /// The change for which the range is surveyed.
    change: LeafChange,
    span: Span,
    pub(crate) found: Survey,
    /// The extent that may continue, if there is one: physical addresses, both included.
    extent: Option<Span>,
}

impl Extents {
    pub(crate) fn new(change: LeafChange, span: Span) -> Self {
        Self { change, span, found: Survey::default(), extent: None }
    }

    /// Calls `each` for every extent of physical addresses, in the order of the range, which `table` translates. Returns the survey
    /// of the range.
    ///
    /// # Errors
    ///
    /// A hole; a descriptor that the library would not write; a change that is refused; more entries than are left; or
    /// the error of `each`. `each` may have been called for some extents by then.
    pub(crate) fn visit<G: Guard>(
        editor: &Editor<'_, G>,
        table: &Table,
        (change, span): (LeafChange, Span),
        budget: &Budget,
        each: &mut dyn FnMut(Span) -> Result<(), Stop>,
    ) -> Result<Survey, Stop> {
        let mut extents = Self::new(change, span);
        extents.go_on(editor, (table, span), budget, each)?;
        extents.take_last().map_or(Ok(()), each)?;
        Ok(extents.found)
    }

    /// Goes on with a part of the range, which `table` translates. Calls `each` for every extent that does not continue in it.
    ///
    /// # Errors
    ///
    /// As for [`visit`](Self::visit).
    pub(crate) fn go_on<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        (table, part): (&Table, Span),
        budget: &Budget,
        each: &mut dyn FnMut(Span) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        visit_span(editor, table, part, &mut Walk { extents: self, part, budget, each })
    }

    /// Returns the last extent, once all of the range has been visited, and nothing after that.
    pub(crate) const fn take_last(&mut self) -> Option<Span> {
        self.extent.take()
    }
}

/// A part of a walk, in one hold.
struct Walk<'e> {
    extents: &'e mut Extents,
    part: Span,
    budget: &'e Budget,
    each: &'e mut dyn FnMut(Span) -> Result<(), Stop>,
}

impl<G: Guard> LiveVisitor<G> for Walk<'_> {
    type Stop = Stop;

    #[inline(always)]
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        self.entries(editor, at.table, (at.index, at.last), at.entry)
    }

    /// A page table is visited at once, since there is nothing below it.
    #[inline(always)]
    fn enter(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<bool, Stop> {
        let below = editor.below(at.table, at.index, at.entry);
        if below.level != Level::PAGE {
            return Ok(true);
        }
        let (index, last) = below.entries_of(self.part, editor.geometry);
        self.entries(editor, &below, (index, last), editor.load(&below, index)).map(|_| false)
    }
}

impl Walk<'_> {
    /// Visits entries up to the next table descriptor, as [`each_leaf`](Editor::each_leaf) does.
    ///
    /// The table is a parameter of its own, so the compiler knows that it does not change. As a field of `Entries` it would be loaded again
    /// for each page.
    #[inline(never)]
    fn entries<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, last): (usize, usize),
        entry: Descriptor,
    ) -> Result<usize, Stop> {
        editor.each_leaf(Entries { table, index, last, entry }, |at| self.alike(editor, at))
    }

    /// Visits the entries that continue the first.
    #[inline(always)]
    fn alike<G: Guard>(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, entry: old } = at;
        let first = self.part.first;
        let Extents { change, span, found, extent } = &mut *self.extents;
        let last = self.budget.last(index, last)?;
        let end = index + consecutive(editor, Entries { last, ..at });
        self.budget.take(end - index)?;
        found.leaves(editor, (*change, *span), (table, index, end - 1), old)?;
        let from = table.span_of(index);
        let Pa(oa) = old.oa(editor.geometry, table.level);
        let within = |va: u64| oa + (va - from.first);
        let visited = table.span_of(end - 1).last.min(span.last);
        let new = Span { first: within(from.first.max(first)), last: within(visited) };
        match extent {
            Some(extent) if extent.last.wrapping_add(1) == new.first => extent.last = new.last,
            Some(extent) => {
                (self.each)(*extent)?;
                *extent = new;
            }
            None => *extent = Some(new),
        }
        Ok(end)
    }
}

/// Returns the number of entries, from one on and up to the last, that map consecutive physical memory with equal
/// attributes, in runs or not.
fn consecutive<G: Guard>(editor: &Editor<'_, G>, at: Entries<'_>) -> usize {
    let Entries { table, index, last, entry: first } = at;
    let step = 1 << table.shift;
    let is_alone = table.level != Level::PAGE || first == Descriptor::HOLE || index == last;
    // Pages that lie apart cost no more than this.
    if is_alone || !is_next(editor.load(table, index + 1), first.0.wrapping_add(step)) {
        return 1;
    }
    series(editor, table, (index, last), first)
}

/// Returns true if an entry is the next of a series, in a run or not.
fn is_next(entry: Descriptor, next: u64) -> bool {
    Descriptor(entry.0 ^ next).without_contiguous() == Descriptor::HOLE
}

/// Returns the same for a page that is not the last.
#[inline(never)]
fn series<G: Guard>(
    editor: &Editor<'_, G>,
    table: &Table,
    (index, last): (usize, usize),
    first: Descriptor,
) -> usize {
    let step = 1 << table.shift;
    let (end, _) = editor.slots(table).series(Descriptor::CONTIGUOUS, (index, last), (first, step));
    let value = |at: usize| first.0.wrapping_add(step * (at - index) as u64);
    let bits = in_place_bits(editor.geometry.oa_format());
    if (first.0 ^ value(end - 1)) >> bits != 0 {
        // Beyond that address, the format moves high address bits to another field, so addition does not give the next
        // entry.
        let within = first.0 & ((1 << bits) - 1);
        return ((1 << bits) - within).div_ceil(step) as usize;
    }
    end - index
}

/// The number of entries that one hold may still read and write.
pub(crate) struct Budget(Cell<usize>);

impl Budget {
    /// The entries that an extent counts as: it is looked up, and its alias surveyed and changed.
    pub(crate) const EXTENT: usize = 32;

    pub(crate) const fn new(entries: usize) -> Self {
        Self(Cell::new(entries))
    }

    /// Returns the last entry, up to `last`, for which it suffices, from one on.
    ///
    /// # Errors
    ///
    /// Nothing is left.
    #[inline]
    pub(crate) fn last(&self, index: usize, last: usize) -> Result<usize, Stop> {
        match self.0.get() {
            0 => Err(Stop::TooLong),
            left => Ok(last.min(index.saturating_add(left - 1))),
        }
    }

    /// Takes so many entries.
    ///
    /// # Errors
    ///
    /// There are fewer.
    #[inline]
    pub(crate) fn take(&self, entries: usize) -> Result<(), Stop> {
        self.0.set(self.0.get().checked_sub(entries).ok_or(Stop::TooLong)?);
        Ok(())
    }

    /// Returns the number of entries that are left.
    #[inline]
    pub(crate) fn left(&self) -> usize {
        self.0.get()
    }

    /// Keeps so many entries of those that were left.
    #[inline]
    pub(crate) fn keep(&self, entries: usize) {
        self.0.set(entries);
    }
}
