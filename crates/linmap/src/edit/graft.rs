//! Whole trees, moved into a live map where its root has holes.

use crate::build::Tree;
use crate::edit::call::{Call, Caller};
use crate::edit::editor::Editor;
use crate::edit::error::{ChangeError, GraftError};
use crate::edit::guard::Guard;
use crate::edit::reserve::Reserve;
use crate::edit::tables::Tables;
use crate::format::{Descriptor, Span, Va};
use crate::plan::Stats;
use crate::platform::{Dsb, Hardware, Platform};
use crate::read::Table;

/// Moves a tree into a live map.
///
/// # Errors
///
/// As for [`SharedSpace::graft`](crate::SharedSpace::graft).
pub(crate) fn graft<G: Guard>(caller: Caller<'_, G>, mut tree: Tree) -> Result<Stats, GraftError> {
    let grafted = may_graft(caller.tables(), &tree).and_then(|span| publish(caller, &mut tree, span));
    settled(caller.platform, tree, grafted)
}

/// Moves a tree into a live map for a caller whose borrow excludes all others: no lock is taken.
///
/// # Errors
///
/// As for [`graft`].
#[inline(always)]
pub(crate) fn graft_alone<G: Guard>(caller: Caller<'_, G>, mut tree: Tree) -> Result<Stats, GraftError> {
    let grafted = may_graft(caller.tables(), &tree).and_then(|span| publish_alone(caller, &mut tree, span));
    settled(caller.platform, tree, grafted)
}

/// Checks a tree. Returns the addresses of the entries of the root that its entries may take; those of one if it has none.
fn may_graft(tables: &Tables, tree: &Tree) -> Result<Span, GraftError> {
    if (tree.geometry(), tree.half()) != (tables.geometry(), tables.half()) {
        return Err(GraftError::OtherGeometry);
    }
    let span = touched_by(tables, tree);
    if !tree.used().is_empty()
        && let Err(ChangeError::NotOwned { va }) = tables.owns(span)
    {
        return Err(GraftError::NotOwned { va });
    }
    match tree.write_execute() {
        Some(va) if !tables.allows_write_execute() => Err(GraftError::WriteExecute { va }),
        _ => Ok(span),
    }
}

/// Moves the entries of the tree's root into the live root.
fn publish<G: Guard>(caller: Caller<'_, G>, tree: &mut Tree, span: Span) -> Result<(), GraftError> {
    let published = Call::new(caller).attempts(span, |editor| {
        let root = editor.root();
        is_free(editor, &root, tree)?;
        editor.guard.mark(span);
        store_root(editor, &root, tree);
        Ok(())
    });
    match published {
        Err(ChangeError::Occupied { va }) => Err(GraftError::Occupied { va }),
        Err(_) => Err(GraftError::Busy { va: Va(span.first) }),
        Ok(_) => Ok(()),
    }
}

/// Moves them for a caller whose borrow excludes all other users, and with them claims and repaints.
#[inline(always)]
fn publish_alone<G: Guard>(caller: Caller<'_, G>, tree: &mut Tree, span: Span) -> Result<(), GraftError> {
    let reserve = Reserve::new(caller.platform);
    let editor = caller.editor(G::for_stores(span), &reserve);
    let root = editor.root();
    if let Err(ChangeError::Occupied { va }) = is_free(&editor, &root, tree) {
        return Err(GraftError::Occupied { va });
    }
    editor.guard.settle(&editor, span);
    store_root(&editor, &root, tree);
    Ok(())
}

#[inline(always)]
fn touched_by(tables: &Tables, tree: &Tree) -> Span {
    let used = tree.used();
    let at = |index: usize| tables.base() + ((index as u64) << tables.root_shift());
    let last = used.end.max(used.start + 1) - 1;
    Span { first: at(used.start), last: at(last) + ((1 << tables.root_shift()) - 1) }
}

/// Gives the root of a tree that was grafted back, or all of a tree that was not.
#[inline(always)]
fn settled<P: Platform>(
    platform: &P,
    tree: Tree,
    grafted: Result<(), GraftError>,
) -> Result<Stats, GraftError> {
    match grafted {
        Ok(()) => {
            let stats = tree.stats();
            platform.give(tree.into_root());
            Ok(stats)
        }
        Err(error) => {
            tree.discard(platform);
            Err(error)
        }
    }
}

/// Checks that the live root has holes where a tree may have entries.
///
/// # Errors
///
/// It has something there.
fn is_free<G: Guard>(editor: &Editor<'_, G>, root: &Table, tree: &Tree) -> Result<(), ChangeError> {
    match tree.used().find(|&n| editor.load(root, n) != Descriptor::HOLE) {
        Some(index) => Err(ChangeError::Occupied { va: Va(root.va(index)) }),
        None => Ok(()),
    }
}

/// Stores the entries of a tree's root, which are holes in the live root, and counts the tree.
#[inline(always)]
fn store_root<G: Guard>(editor: &Editor<'_, G>, root: &Table, tree: &mut Tree) {
    let (used, stats) = (tree.used(), tree.stats());
    editor.publish_barrier();
    tree.with_root_entries(editor.platform, |entries| {
        for (index, &bits) in used.clone().zip(&entries[used]) {
            if bits != 0 {
                editor.store(root, index, Descriptor(bits));
            }
        }
    });
    editor.platform.dsb(Dsb::Ishst);
    editor.platform.isb();
    // The tree's own root is given back.
    let below = Stats { tables: stats.tables - 1, ..stats };
    editor.count(|counters| counters.include(&below));
}
