//! A range that lies within one leaf: what most changes are, in as few instructions as it takes.
//!
//! The same steps as in `edit.rs`, which does what takes more than a store or two.

use crate::build::Error;
use crate::format::{Edit, Span};
use crate::live::address_space::AddressSpace;
use crate::live::edit::{Editor, refusal};
use crate::live::locked::Access;
use crate::live::resize::Resize;
use crate::plan::Policy;
use crate::platform::Platform;
use crate::read::Table;

/// Edits the entry of a table that a span lies within: a leaf, or a part of one. Or does nothing at all.
#[inline(always)]
pub(crate) fn one_leaf<P: Platform>(
    space: &AddressSpace,
    access: Access<'_, P>,
    (edit, span): (Edit, Span),
    (table, index): (Table, usize),
) -> Result<(), Error> {
    let old = access.load(&table, index);
    let new = edit.of(old, table.level);
    let refused = edit.refuse_write_execute && new.is_write_execute();
    if refused || !space.is_leaf(old, table.level) {
        return Err(refusal(span.first, table.level, old, access.geometry));
    }
    if new == old {
        return Ok(());
    }
    let in_use = old.is_valid();
    let whole = span.last - span.first == (1 << table.shift) - 1;
    if !whole || old.is_contiguous() {
        let in_place = space.policy() == Policy::Live && access.platform.promise().never_aborts;
        if in_use && !in_place {
            let Edit { clear, set, validity, refuse_write_execute } = edit;
            let refuse = refuse_write_execute;
            return in_general(space, access.platform, [clear, set, validity], refuse, span.first, span.last);
        }
        let dissolves = access.run(&table, old);
        let mut link = None;
        if !whole {
            link = Some(access.split(edit, span).leaf(old, &table, table.va(index))?);
        }
        access.resize_in_place([Resize { table, index, dissolves, link }].into_iter(), true);
    }
    if whole {
        access.store(&table, index, edit.of(old.without_contiguous(), table.level));
    }
    access.finish_one(in_use, span.first);
    Ok(())
}

/// CPUs have to be parked, or it can not be done.
///
/// What it is told are values, so that whoever does not come here need not have them in memory.
#[cold]
#[inline(never)]
fn in_general<P: Platform>(
    space: &AddressSpace,
    platform: &P,
    [clear, set, validity]: [u64; 3],
    refuse_write_execute: bool,
    first: u64,
    last: u64,
) -> Result<(), Error> {
    let access = space.access(platform);
    let (edit, span) = (Edit { clear, set, validity, refuse_write_execute }, Span { first, last });
    let table = access.deepest(space.root_table(&access), span);
    Editor::new(access, edit, span).run(space, table)
}
