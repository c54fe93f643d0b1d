//! Removes mappings, and the tables that become empty.

use core::convert::Infallible;
use core::mem::take;
use core::sync::atomic::{Ordering::SeqCst, fence};

use crate::batch::TlbBatch;
use crate::edit::call::{Call, Caller};
use crate::edit::cover::{Cover, GIGABYTE};
use crate::edit::driver::{Operation, Piece, Spans, Way, change_claimed};
use crate::edit::editor::{Editor, LiveVisitor};
use crate::edit::error::ChangeError;
use crate::edit::guard::Guard;
use crate::edit::one_leaf::{Removal, in_one_hold};
use crate::edit::pieces::Pieces;
use crate::edit::retired::DeferredTables;
use crate::edit::retired::retire;
use crate::edit::survey::Survey;
use crate::format::{Descriptor, LeafChange, Level, Pa, Span, Va};
use crate::read::{Entries, Table, visit_span};

/// Removes the mappings of a span, or does nothing.
///
/// # Errors
///
/// As for a change of permissions.
pub(crate) fn unmap<G: Guard>(caller: Caller<'_, G>, span: Span) -> Result<(), ChangeError> {
    if in_one_hold::<G>(caller.platform, caller.owner, &Removal(span))? {
        Ok(())
    } else {
        unmap_leaves(caller, span)
    }
}

/// Removes them by the driver. What it needs of the stack, the fast way does not.
#[inline(never)]
fn unmap_leaves<G: Guard>(caller: Caller<'_, G>, span: Span) -> Result<(), ChangeError> {
    let mut call = Call::new(caller);
    let mut unmap = Unmap::new(true);
    Spans::one::<G>(span).run(&mut call, &mut unmap)?;
    prune_if(&mut call, span, unmap.emptied)
}

/// Removes the mappings of a span, which the call has claimed and surveyed.
///
/// # Errors
///
/// Out of frames; a change of size that the policy or the CPUs do not permit.
#[cold]
pub(crate) fn unmap_claimed<G: Guard>(
    call: &mut Call<'_, G>,
    span: Span,
    found: &Survey,
) -> Result<(), ChangeError> {
    let mut unmap = Unmap::new(true);
    change_claimed(call, &mut unmap, span, found)?;
    prune_if(call, span, unmap.emptied)
}

/// Removes the mappings of several ranges of pages with one batch of invalidations, or does nothing. No leaf changes
/// its size.
///
/// # Errors
///
/// A range that is not mapped everywhere, or that contains only a part of a leaf.
pub(crate) fn unmap_all<G: Guard>(caller: Caller<'_, G>, ranges: &[(Va, u64)]) -> Result<(), ChangeError> {
    let mut hull: Option<Span> = None;
    for &(va, pages) in ranges {
        let Some(span) = caller.tables().owned_span(va, pages)? else { continue };
        let all = hull.unwrap_or(span);
        hull = Some(Span { first: all.first.min(span.first), last: all.last.max(span.last) });
    }
    let Some(hull) = hull else { return Ok(()) };
    let page = caller.tables().geometry().page_shift();
    let of = |&(Va(first), pages): &(Va, u64)| Span { first, last: first - 1 + (pages << page) };
    let spans = ranges.iter().filter(|(_, pages)| *pages != 0).map(of);
    let mut call = Call::new(caller);
    let mut unmap = Unmap::new(false);
    if let Some(all) = Spans::of::<G>(spans, 0) {
        all.run(&mut call, &mut unmap)?;
    }
    leave_one(&mut call, hull, unmap.emptied)
}

/// Tables that translate more than a gigabyte and have become empty.
#[derive(Clone, Copy)]
enum Emptied {
    None,
    /// The first address that the only one translates.
    One(u64),
    Several,
}

/// Leaves such a table where it is for the next mapping there, since to take it out excludes all other callers, and removes the
/// one that was left before, if that is another.
fn leave_one<G: Guard>(call: &mut Call<'_, G>, span: Span, emptied: Emptied) -> Result<(), ChangeError> {
    let Emptied::One(first) = emptied else { return prune_if(call, span, emptied) };
    match call.guard.leave_empty(Some(first)) {
        Some(before) if before != first => prune(call, Span { first: before, last: before }),
        _ => Ok(()),
    }
}

/// Removes the table that was left, if it is still empty.
pub(crate) fn trim<G: Guard>(caller: Caller<'_, G>) {
    if let Some(first) = G::new(caller.owner).leave_empty(None) {
        // Nothing is refused or allocated.
        _ = prune(&mut Call::new(caller), Span { first, last: first });
    }
}

/// Removes such tables.
fn prune_if<G: Guard>(call: &mut Call<'_, G>, span: Span, emptied: Emptied) -> Result<(), ChangeError> {
    if matches!(emptied, Emptied::None) { Ok(()) } else { prune(call, span) }
}

/// Removes the empty tables that translate addresses of a span and more than one gigabyte.
#[cold]
fn prune<G: Guard>(call: &mut Call<'_, G>, span: Span) -> Result<(), ChangeError> {
    let all = Span { first: 0, last: u64::MAX };
    let prunes = call.looks(G::for_stores(all), span, |editor| {
        let mut unmap = Unmap { upper: true, ..Unmap::new(false) };
        editor.guard.mark(span);
        unmap.piece(editor, Piece { piece: span, span });
        unmap.finish(editor);
        Ok(())
    });
    prunes.map(|_| ())
}

/// The operation that removes mappings.
struct Unmap {
    /// True if leaves that reach beyond a span are cut.
    cuts: bool,
    /// True if only empty tables are removed that translate more than a gigabyte.
    upper: bool,
    /// True if some spans are gone.
    has_removed: bool,
    /// The piece from which leaves are being removed.
    at: Piece,
    batch: TlbBatch,
    deferred: DeferredTables,
    /// Tables that were unlinked with everything below them. They are retired after the hold.
    whole: Option<WholeTables>,
    /// Tables that may be empty, but are not covered.
    emptied: Emptied,
    /// True if a table was removed that also translated addresses outside the span.
    beyond: bool,
}

/// Tables that were unlinked with everything below them, and their levels.
struct WholeTables {
    /// A part of the cover of the hold.
    cover: Cover,
    tables: [Pa; Self::ROOM],
    levels: [Level; Self::ROOM],
    used: usize,
}

impl WholeTables {
    /// The most of one hold.
    const ROOM: usize = 16;

    const fn none(cover: Cover) -> Self {
        Self { cover, tables: [Pa(0); Self::ROOM], levels: [Level::PAGE; Self::ROOM], used: 0 }
    }

    /// Retires all of them, and the tables below them.
    #[inline(never)]
    fn retire<G: Guard>(&self, call: &Call<'_, G>) {
        let entries = |level| 0..call.tables().geometry().entries(level);
        let all = self.tables.iter().zip(&self.levels).take(self.used);
        retire(call, (self.cover, true), all.map(|(table, level)| (*table, *level, entries(*level))));
    }
}

impl Unmap {
    #[inline(always)]
    const fn new(cuts: bool) -> Self {
        let none = Span { first: 0, last: 0 };
        Self {
            cuts,
            upper: false,
            has_removed: false,
            at: Piece { piece: none, span: none },
            batch: TlbBatch::new(),
            deferred: DeferredTables::new(),
            whole: None,
            emptied: Emptied::None,
            beyond: false,
        }
    }

    /// Removes the leaves of a piece, which are all within it. It starts at the root, since tables above can become
    /// empty.
    fn piece<G: Guard>(&mut self, editor: &Editor<'_, G>, at: Piece) {
        self.at = at;
        let Ok(()) = visit_span(editor, &editor.root(), at.piece, self);
    }

    /// Removes a table with everything below it by one store. Returns false if there are too many already: then its entries are visited.
    #[inline(never)]
    fn takes_whole<G: Guard>(
        &mut self,
        editor: &Editor<'_, G>,
        (table, index): (&Table, usize),
        old: Descriptor,
    ) -> bool {
        let (g, at) = (editor.geometry, table.span_of(index));
        let none = || WholeTables::none(editor.guard.cover().first());
        let whole = self.whole.get_or_insert_with(none);
        if whole.used == WholeTables::ROOM {
            return false;
        }
        (whole.tables[whole.used], whole.levels[whole.used]) = (old.next_table(g), table.level.down(1));
        whole.used += 1;
        editor.store(table, index, Descriptor::HOLE);
        self.batch.add(at.first, at.last, g.page_shift());
        self.batch.with_tables();
        true
    }

    /// Completes the removal so far.
    fn finish<G: Guard>(&mut self, editor: &Editor<'_, G>) {
        self.batch.finish(editor);
        self.deferred.retire(editor);
    }
}

impl<G: Guard> Operation<G> for Unmap {
    /// Once some spans are gone, a hole in others is what has been removed: all of them were mapped.
    fn change(&self) -> LeafChange {
        LeafChange { skip_holes: self.has_removed, ..LeafChange::REMOVE }
    }

    fn cuts(&self) -> bool {
        self.cuts
    }

    fn batch(&mut self) -> &mut TlbBatch {
        &mut self.batch
    }

    #[inline(always)]
    fn apply(&mut self, editor: &Editor<'_, G>, _: &mut Way, at: Piece, _: bool) {
        self.piece(editor, at);
    }

    fn pieces(&mut self, span: Span) -> Pieces {
        Pieces::of_tables::<G>(span, WholeTables::ROOM)
    }

    fn end_piece(&mut self, editor: &Editor<'_, G>) {
        // Others may map at those addresses from now on, and walk caches must not have the table then.
        if take(&mut self.beyond) || self.whole.is_some() {
            self.finish(editor);
        } else {
            editor.publish_barrier();
        }
    }

    fn end(&mut self, editor: &Editor<'_, G>) {
        self.finish(editor);
        self.has_removed = true;
    }

    #[inline(always)]
    fn after(&mut self, call: &Call<'_, G>) {
        if let Some(whole) = &self.whole {
            whole.retire(call);
            self.whole = None;
        }
    }
}

impl<G: Guard> LiveVisitor<G> for Unmap {
    type Stop = Infallible;

    #[inline(always)]
    fn leaves(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<usize, Infallible> {
        let Entries { table, index, last, entry: old } = at;
        if self.upper {
            return Ok(if table.level == Level::PAGE { last + 1 } else { index + 1 });
        }
        if old == Descriptor::HOLE {
            return Ok(index + 1);
        }
        let end = editor.slots(table).alike((index, last), old);
        editor.slots(table).clear((index, end));
        editor.count(|counters| counters.leaves(table.level, old.is_contiguous(), -((end - index) as i64)));
        if old.is_valid() {
            self.batch.add(table.va(index), table.span_of(end - 1).last, table.shift);
        }
        Ok(end)
    }

    /// A table within the span is removed at once, with everything below it.
    fn enter(&mut self, editor: &Editor<'_, G>, at: Entries<'_>) -> Result<bool, Infallible> {
        let Entries { table, index, entry: old, .. } = at;
        let at = table.span_of(index);
        if self.upper {
            return Ok(table.shift > GIGABYTE);
        }
        let is_whole = self.at.piece.covers(at.first, at.last);
        Ok(!is_whole || !self.takes_whole(editor, (table, index), old))
    }

    fn leave(
        &mut self,
        editor: &Editor<'_, G>,
        table: &Table,
        index: usize,
        below: &Table,
    ) -> Result<(), Infallible> {
        if !goes_on(editor, below, self.at.piece) && is_empty(editor, below) {
            let at = table.span_of(index);
            if editor.covers(at).is_err() {
                self.emptied = match self.emptied {
                    Emptied::None => Emptied::One(at.first),
                    _ => Emptied::Several,
                };
                return Ok(());
            }
            // Another caller may be about to use it.
            if editor.guard.is_claimed(at) {
                return Ok(());
            }
            editor.count(|counters| {
                counters.no_table();
                counters.collapsed(1);
            });
            // The leaves are in the batch. Walk caches drop the table by any of its addresses.
            let (first, g) = (table.va(index), editor.geometry);
            self.batch.add(first, first + (g.page_size() - 1), g.page_shift());
            self.beyond |= !self.at.span.covers(at.first, at.last);
            editor.store(table, index, Descriptor::HOLE);
            self.deferred.add(below.pa, &mut self.batch, editor);
        }
        Ok(())
    }
}

/// Returns true if the entry after a span is in use. Pieces are removed in ascending order, so it usually is.
fn goes_on<G: Guard>(editor: &Editor<'_, G>, table: &Table, span: Span) -> bool {
    let next = table.index_of(span.last) + 1;
    next < editor.geometry.entries(table.level) && editor.load(table, next) != Descriptor::HOLE
}

fn is_empty<G: Guard>(editor: &Editor<'_, G>, table: &Table) -> bool {
    if editor.covers(table.span_of_all(editor.geometry)).is_err() {
        // If two callers remove the last entries at once, each under its own lock, one of them sees the other's store.
        fence(SeqCst);
    }
    editor.slots(table).are_holes(editor.geometry.entries(table.level))
}

#[cfg(test)]
mod tests {
    use crate::build::Tree;
    use crate::format::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Va};
    use crate::platform::host::HostMemory;
    use crate::share::SharedSpace;
    extern crate std;
    use std::vec::Vec;

    /// So many ranges that they go in several groups, and each of them twice.
    #[test]
    fn what_is_named_twice_goes_once() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let memory = HostMemory::new(g, 16);
        let p = memory.platform();
        let tree = Tree::build(&p, g, Half::Upper, core::iter::empty()).expect("a page");
        let space = SharedSpace::adopt(tree);
        let at_first = space.on(&p).stats();
        let pages: Vec<(Va, u64)> = (0..400).map(|n| (Va(0xffff_0000_0000_0000 + (n << 13)), 1)).collect();
        for &(va, pages) in &pages {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&p).map(va, pages, Pa(va.0 & 0xffff_ffff), Attributes::RAM) }.expect("mapped");
        }
        // SAFETY: as above.
        let done = unsafe { space.on(&p).unmap_all(&[&pages[..], &pages[..]].concat()) };
        assert_eq!((done, space.on(&p).stats()), (Ok(()), at_first));
    }
}
