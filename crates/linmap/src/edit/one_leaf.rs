//! The fast way: what an operation does with one leaf or hole, in one hold.
//!
//! Most operations need no more: a page changes, is mapped or unmapped, or a page is cut out of a leaf. The hold, and what
//! others have left, are those of every operation. Whatever takes more than this is left to the operation's long form, and nothing is stored
//! then.

use crate::batch::{Invalidated, finish_one};
use crate::build::OutOfFrames;
use crate::edit::call::Caller;
use crate::edit::cover::GIGABYTE;
use crate::edit::cuts::tables_for_ends;
use crate::edit::editor::Editor;
use crate::edit::guard::Guard;
use crate::edit::mapping::Mapping;
use crate::edit::reserve::Reserve;
use crate::edit::resize::Resize;
use crate::format::{Attributes, Descriptor, Geometry, Leaf, LeafChange, Span};
use crate::read::Table;

/// A change, whether its invalidations are left to a flush, and the span.
pub(crate) type Wanted = (LeafChange, bool, Span);

/// The result of a try.
pub(crate) enum Tried {
    Done,
    /// It takes the long form. Nothing has changed.
    Long,
    /// It takes so many table pages. Nothing has changed.
    Frames(u64),
}

/// The deepest entry of a table that translates all of a span, if there is one.
pub(crate) struct Found {
    table: Table,
    index: usize,
    entry: Descriptor,
    /// The addresses of the entry.
    at: Span,
}

/// An operation that may take no more than one leaf. It is a trait, and no closure, so that it is a part of the hold in the machine's
/// code, too.
pub(crate) trait OfOneLeaf<G: Guard> {
    fn span(&self) -> Span;

    /// Returns true if invalidations are left to a flush.
    fn is_later(&self) -> bool {
        false
    }

    /// Does it to the entry that was found, in a hold.
    fn to(&self, editor: &Editor<'_, G>, found: &Found) -> Tried;
}

/// Tries an operation on a span by its one entry. Returns false, and has done nothing, if it takes the long form, which does not need
/// the stack that this takes.
///
/// # Errors
///
/// There are too few table pages.
#[inline(never)]
pub(crate) fn in_one_hold<G: Guard>(
    platform: &G::Platform,
    owner: G::Owner,
    operation: &impl OfOneLeaf<G>,
) -> Result<bool, OutOfFrames> {
    let caller = Caller::<G> { platform, owner };
    let (later, span) = (operation.is_later(), operation.span());
    if !may_be_a_leaf(caller.tables().geometry(), span) {
        return Ok(false);
    }
    let (cover, reserve) = (G::for_one(span.first), Reserve::new(caller.platform));
    loop {
        let editor = &caller.editor(cover, &reserve);
        let held = editor.guard.begin(caller.platform);
        let tried = match find(editor, later, span) {
            Some(found) => operation.to(editor, &found),
            None => Tried::Long,
        };
        drop(held);
        match tried {
            Tried::Done => return Ok(true),
            Tried::Long => return Ok(false),
            Tried::Frames(frames) => reserve.fill(frames)?,
        }
    }
}

/// Finds the entry, if others have neither left nor claimed anything there.
#[inline(always)]
fn find<G: Guard>(editor: &Editor<'_, G>, later: bool, span: Span) -> Option<Found> {
    if editor.guard.is_free(editor, later, span) { entry_of(editor, span) } else { None }
}

/// Finds the entry. Returns `None` if the span takes several.
#[inline(always)]
fn entry_of<G: Guard>(editor: &Editor<'_, G>, span: Span) -> Option<Found> {
    let table = editor.deepest(editor.root(), span);
    let index = table.index_of(span.first);
    let at = table.span_of(index);
    (span.last <= at.last).then(|| Found { table, index, entry: editor.load(&table, index), at })
}

/// Returns true if a span in one gigabyte has the size of a leaf and is aligned to it. Another one takes several leaves, or cuts one
/// at both ends, and a try would be in vain.
#[inline(always)]
const fn may_be_a_leaf(g: Geometry, span: Span) -> bool {
    let within = span.last - span.first;
    let shift = within.trailing_ones();
    within >> shift == 0
        && span.first & within == 0
        && shift <= GIGABYTE
        && (shift == g.page_shift() || (shift - g.page_shift()).is_multiple_of(g.index_bits()))
}

/// A change of the permissions or the validity of a span.
impl<G: Guard> OfOneLeaf<G> for Wanted {
    fn span(&self) -> Span {
        self.2
    }

    fn is_later(&self) -> bool {
        self.1
    }

    #[inline(always)]
    fn to(&self, editor: &Editor<'_, G>, found: &Found) -> Tried {
        let (&Found { table, entry: old, at, .. }, &(ref change, later, span)) = (found, self);
        let new = change.of(old, table.level);
        let retyped = (old.0 ^ new.0) & Attributes::MEMORY_TYPE.bits() != 0;
        if change.refuses(new) || retyped || !editor.tables().is_leaf(old, table.level) {
            return Tried::Long;
        }
        if new == old {
            return Tried::Done;
        }
        if !span.covers(at.first, at.last) || old.is_contiguous() {
            return resize(editor, found, self);
        }
        editor.store(&table, found.index, new);
        finish(editor, found, (later, span));
        Tried::Done
    }
}

/// Cuts a larger leaf, or dissolves a run, and changes the part in the span.
#[inline(never)]
fn resize<G: Guard>(editor: &Editor<'_, G>, found: &Found, &(change, later, span): &Wanted) -> Tried {
    let (tables, &Found { table, index, entry: old, at }) = (editor.tables(), found);
    let whole = span.covers(at.first, at.last);
    let dissolves = editor.run(&table, old);
    let changing = table.run_of(index, dissolves.unwrap_or(1));
    if old.is_valid() && !tables.may_resize(editor.platform)
        || !tables.owned().covers(changing.first, changing.last)
        || editor.covers(changing).is_err()
    {
        return Tried::Long;
    }
    let mut resize = Resize { table, index, dissolves, link: None };
    if !whole {
        let frames = tables_for_ends(editor.geometry, table.level, at, span);
        if editor.reserve.count() < frames {
            return Tried::Frames(frames);
        }
        let Ok(link) = editor.replacement(change, span).leaf(old, &table, table.va(index)) else {
            return Tried::Long;
        };
        resize.link = Some(link);
    }
    editor.guard.settle(editor, span);
    resize.one_in_place(editor);
    if whole {
        editor.store(&table, index, change.of(old, table.level).without_contiguous());
    }
    finish(editor, found, (later, span));
    Tried::Done
}

/// Completes the change of a leaf: one TLB entry held it, so that any of its addresses invalidates it (D8.17, RLGSCG).
#[inline(always)]
fn finish<G: Guard>(editor: &Editor<'_, G>, found: &Found, (later, span): (bool, Span)) {
    let was_valid = found.entry.is_valid();
    if later && was_valid {
        let (Span { first, last }, entry_shift) = (span, found.table.shift);
        editor.guard.leave(Invalidated { first, last, entry_shift });
    }
    finish_one(editor, was_valid && !later, span.first);
}

/// A new mapping that is one leaf in the place of a hole.
impl<G: Guard> OfOneLeaf<G> for Mapping {
    fn span(&self) -> Span {
        self.span
    }

    #[inline(always)]
    fn to(&self, editor: &Editor<'_, G>, found: &Found) -> Tried {
        let &Found { table, index, entry, .. } = found;
        let is_free = !entry.is_valid() && !editor.tables().is_leaf(entry, table.level);
        if !is_free || !self.is_leaf(editor, &table, index) || editor.guard.sees_published().is_err() {
            return Tried::Long;
        }
        let leaf = Leaf { oa: self.oa, attributes: self.attributes, contiguous: false, valid: true };
        editor.store(&table, index, Descriptor::leaf(leaf, editor.geometry, table.level));
        editor.count(|counters| counters.leaves(table.level, false, 1));
        finish(editor, found, (false, self.span));
        Tried::Done
    }
}

/// The removal of one leaf whose table stays in use.
pub(crate) struct Removal(pub(crate) Span);

impl<G: Guard> OfOneLeaf<G> for Removal {
    fn span(&self) -> Span {
        self.0
    }

    #[inline(always)]
    fn to(&self, editor: &Editor<'_, G>, found: &Found) -> Tried {
        let (g, &Self(span), &Found { table, index, entry, at }) = (editor.geometry, self, found);
        let is_whole = span.covers(at.first, at.last) && !entry.is_contiguous();
        let in_use = |index: usize| editor.load(&table, index) != Descriptor::HOLE;
        let stays = index > 0 && in_use(index - 1) || index + 1 < g.entries(table.level) && in_use(index + 1);
        // Nobody else removes those beside it then.
        let alone = editor.covers(table.span_of_all(g)).is_ok();
        if !is_whole || !editor.tables().is_leaf(entry, table.level) || !stays || !alone {
            return Tried::Long;
        }
        editor.store(&table, index, Descriptor::HOLE);
        editor.count(|counters| counters.leaves(table.level, false, -1));
        finish(editor, found, (false, span));
        Tried::Done
    }
}
