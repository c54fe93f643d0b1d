//! Surveys a range before a change: is the change possible, and what is needed? Nothing is stored.

use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::refusal;
use crate::edit::guard::Guard;
use crate::edit::stop::Stop;
use crate::format::{Descriptor, LeafChange, Level, Span};
use crate::read::{Entries, Table, visit_span};

/// The findings of a survey.
#[derive(Clone, Copy, Default)]
pub(crate) struct Survey {
    /// The first leaf in use that has to change its size.
    pub(crate) resizes: Option<u64>,
    /// The first leaf that has to be split or whose run has to be dissolved, valid or not.
    pub(crate) cut: Option<u64>,
    /// The first hole, if holes are left out.
    pub(crate) hole: Option<u64>,
    /// Leaves change in place.
    pub(crate) in_place: bool,
    /// The bits that change in the first leaf, and its validity.
    first: Option<(u64, bool)>,
    /// The changed bits or the validity are not the same in all leaves.
    differs: bool,
}

impl Survey {
    /// Returns true if anything changes.
    pub(crate) const fn changes(&self) -> bool {
        self.in_place || self.splits()
    }

    /// Returns true if there are leaves.
    pub(crate) const fn finds_leaves(&self) -> bool {
        self.first.is_some()
    }

    /// Returns true if leaves have to be cut.
    pub(crate) const fn splits(&self) -> bool {
        self.cut.is_some()
    }

    /// Returns true if the same bits change in all leaves, and all leaves or none are valid.
    pub(crate) fn is_alike(&self) -> bool {
        !self.differs
    }

    /// Adds the findings of another survey.
    pub(crate) fn include(&mut self, other: &Self) {
        // Most surveys are of one range.
        if self.first.is_none() {
            (self.resizes, self.first) = (other.resizes, other.first);
            (self.cut, self.in_place) = (other.cut, other.in_place);
            self.differs |= other.differs;
            return;
        }
        self.resizes = self.resizes.or(other.resizes);
        self.cut = self.cut.or(other.cut);
        self.in_place |= other.in_place;
        self.differs |= other.differs || other.first.is_some() && other.first != self.first;
    }

    /// Adds leaves that differ only in their addresses and runs, from one entry of a table to another, both included.
    ///
    /// # Errors
    ///
    /// They are not leaves, or must not change in this way.
    #[inline(always)]
    pub(crate) fn leaves<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        (change, span): (LeafChange, Span),
        (table, first, last): (&Table, usize, usize),
        old: Descriptor,
    ) -> Result<(), Stop> {
        let new = change.of(old, table.level);
        if change.refuses(new) || !editor.tables().is_leaf(old, table.level) {
            let is_hole = !old.is_valid() && !editor.tables().is_leaf(old, table.level);
            if change.skip_holes && is_hole {
                // So the leaves around it are visited one by one.
                self.differs = true;
                self.hole.get_or_insert(table.va(first).max(span.first));
                return Ok(());
            }
            return Err(refusal(table.va(first).max(span.first), table.level, old, editor.geometry).into());
        }
        editor.may_retype(old, new, table.va(first).max(span.first))?;
        let bits = (new.0 ^ old.0, old.is_valid());
        self.differs |= *self.first.get_or_insert(bits) != bits;
        if new == old {
            return Ok(());
        }
        // If they are in runs, the runs that have the first and the last.
        let end = if last == first { old } else { editor.load(table, last) };
        let run = |index, entry| table.run_of(index, editor.run(table, entry).unwrap_or(1));
        let (from, to) = (run(first, old).first, run(last, end).last);
        if span.covers(from, to) {
            self.in_place = true;
            return Ok(());
        }
        // Only the first and the last can be partly outside the range.
        self.in_place |= last - first > 1;
        self.size(editor, span, (table, first, first), old);
        if last != first {
            self.size(editor, span, (table, first, last), end);
        }
        Ok(())
    }

    /// Adds the last of some such leaves, which is in a run or only partly in the range.
    #[inline(never)]
    fn size<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        span: Span,
        (table, first, index): (&Table, usize, usize),
        old: Descriptor,
    ) {
        let at = table.span_of(index);
        let whole = span.covers(at.first, at.last);
        self.in_place |= whole;
        if whole && !editor.dissolves(table, index, old, span) {
            return;
        }
        let run = table.run_of(index, editor.run(table, old).unwrap_or(1));
        self.cut.get_or_insert(run.first);
        if old.is_valid() {
            self.resizes.get_or_insert(run.first.max(table.va(first)));
        }
    }
}

/// So many adjacent pages of one kind are compared as one.
const MANY: usize = 8;

/// A survey under way.
pub(crate) struct Surveyor {
    change: LeafChange,
    /// The range of the whole operation. A part of it is surveyed.
    span: Span,
    found: Survey,
    /// The number of entries that may still be read.
    left: usize,
    /// The last two pages that were surveyed, without their addresses. A page that is like one of them changes in place as it does.
    kinds: [Descriptor; 2],
}

impl Surveyor {
    /// Returns a survey for this change that may read so many entries.
    pub(crate) fn new(change: LeafChange, most: usize) -> Self {
        // No page less its address has a bit of an address.
        let (span, kinds) = (Span { first: 0, last: 0 }, [Descriptor(Descriptor::ADDRESS); 2]);
        Self { change, span, found: Survey::default(), left: most, kinds }
    }

    /// Surveys a piece of `span`, for a change of all of it. The piece lies within what `table` translates. One span after the other
    /// may be surveyed.
    ///
    /// # Errors
    ///
    /// The change is refused: a hole, a descriptor that the library would not write, or memory that would be both
    /// writable and executable. Or there are more entries than may be read.
    #[inline]
    pub(crate) fn add<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (span, piece): (Span, Span),
    ) -> Result<(), Stop> {
        self.span = span;
        if (piece.first ^ piece.last) >> table.shift == 0 {
            let index = table.index_of(piece.first);
            let old = editor.load(table, index);
            if !old.is_table(table.level) {
                self.take(1)?;
                return self.found.leaves(editor, (self.change, span), (table, index, index), old);
            }
        }
        visit_span(editor, table, piece, self)
    }

    /// Counts entries that are read.
    ///
    /// # Errors
    ///
    /// There are more than may be read.
    #[inline(always)]
    pub(crate) fn take(&mut self, entries: usize) -> Result<(), Stop> {
        self.left = self.left.checked_sub(entries).ok_or(Stop::TooLong)?;
        Ok(())
    }

    /// Returns the findings.
    pub(crate) const fn found(&self) -> &Survey {
        &self.found
    }

    /// Returns the number of entries that may still be read.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }
}

impl<G: Guard> LiveVisitor<G> for Surveyor {
    type Stop = Stop;

    #[inline(always)]
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Stop> {
        let Entries { table, index, last, entry: old } = at;
        // A table may have more entries than a hold.
        let last = last.min(index.saturating_add(self.left));
        // Pages in runs and others are compared as one.
        let end = if table.level == Level::PAGE && index != last {
            editor.slots(table).same_but(Descriptor::PAGE, (index, last), old).max(index + 1)
        } else {
            editor.slots(table).alike((index, last), old)
        };
        self.take(end - index)?;
        self.found.leaves(editor, (self.change, self.span), (table, index, end - 1), old)?;
        if end > last || table.level != Level::PAGE {
            return Ok(end);
        }
        self.others_like(editor, table, (end, last), old)
    }
}

impl Surveyor {
    /// Passes over pages that are like one that has been surveyed, or like the one before it, as where permissions alternate. Returns the
    /// index after them.
    ///
    /// # Errors
    ///
    /// There are more entries than may be read.
    #[inline(never)]
    fn others_like<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        (index, last): (usize, usize),
        surveyed: Descriptor,
    ) -> Result<usize, Stop> {
        let (kind, before) = (surveyed.kind(), self.kinds[0]);
        // All of a run is looked at, and what tables above permit is asked for each.
        let new = self.change.of(surveyed, table.level);
        if surveyed.is_contiguous()
            || new.is_write_execute()
            || !surveyed.is_leaf(editor.geometry, table.level)
        {
            return Ok(index);
        }
        self.kinds = [kind, before];
        // Many of one kind are compared faster, sixteen at a time.
        let (mut last_kind, mut same) = (kind, 0);
        let is_like = |at: &usize| {
            let kind = editor.load(table, *at).kind();
            same = if kind == last_kind { same + 1 } else { 0 };
            last_kind = kind;
            same < MANY && self.kinds.contains(&kind)
        };
        let passed = (index..last.min(index.saturating_add(self.left)) + 1).take_while(is_like).count();
        self.take(passed)?;
        Ok(index + passed)
    }
}
