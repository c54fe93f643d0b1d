//! A range that lies within one leaf: what most changes are, in as few instructions as it takes.
//!
//! The same steps as in `edit.rs`, without the walk.

use crate::address_space::AddressSpace;
use crate::edit::{Edit, refusal};
use crate::live::{Access, Span, Table};
use crate::reserve::Reserve;
use crate::split::{Split, tables_for};
use crate::{Descriptor, Error, Platform, Policy};

/// Edits the entry of a table that a span lies within: a leaf, or a part of one. Or does nothing at all.
#[inline(always)]
pub(crate) fn one_leaf<P: Platform>(
    space: &AddressSpace,
    access: Access<'_, P>,
    (edit, span): (Edit, Span),
    (table, index): (Table, usize),
) -> Result<(), Error> {
    let old = access.load(&table, index);
    let new = edit.of(old);
    let refused = edit.refuse_write_execute && new.is_write_execute();
    if refused || !old.is_leaf(access.geometry, table.level) {
        return Err(refusal(span.first, table.level, old, access.geometry));
    }
    if new == old {
        return Ok(());
    }
    let whole = span.last - span.first == (1 << table.shift) - 1;
    if !whole || (old.is_contiguous() && !in_place(&access, space.policy(), old)) {
        return OneLeaf { access, edit, span, table, index }.resize(space, old, whole);
    }
    if old.is_contiguous() {
        let members = access.dissolve(&table, index);
        access.counters.dissolved(table.level, members as i64);
    }
    access.store(&table, index, edit.of(old.without_contiguous()));
    access.finish_one(old.is_valid(), span.first);
    Ok(())
}

/// Whether a run can be dissolved without further ado.
#[inline(always)]
fn in_place<P: Platform>(access: &Access<'_, P>, policy: Policy, old: Descriptor) -> bool {
    !old.is_valid() || (policy == Policy::Live && access.platform.promise().never_aborts)
}

/// A leaf that is one of a run, or that the range has only a part of.
struct OneLeaf<'a, P> {
    access: Access<'a, P>,
    edit: Edit,
    span: Span,
    table: Table,
    index: usize,
}

impl<P: Platform> OneLeaf<'_, P> {
    #[inline(never)]
    fn resize(self, space: &AddressSpace, old: Descriptor, whole: bool) -> Result<(), Error> {
        let policy = space.policy();
        let in_use = old.is_valid();
        self.access.may_resize(policy, in_use.then_some(self.table.va(self.index)))?;
        if !whole {
            return self.split(policy, old);
        }
        self.access.resizing(policy, in_use, || {
            self.access.dissolve(&self.table, self.index);
        })?;
        let members = self.access.geometry.contiguous_entries(self.table.level) as i64;
        self.access.counters.dissolved(self.table.level, members);
        self.access.store(&self.table, self.index, self.edit.of(old.without_contiguous()));
        self.access.finish_one(in_use, self.span.first);
        Ok(())
    }

    /// Tables take the place of the leaf.
    #[inline]
    fn split(&self, policy: Policy, old: Descriptor) -> Result<(), Error> {
        let (access, table, in_use) = (&self.access, &self.table, old.is_valid());
        let (geometry, counters, edit, span) = (access.geometry, access.counters, self.edit, self.span);
        let base = table.va(self.index);
        let tables = tables_for(geometry, table.level, base, span);
        let memory = &Reserve::take(access.platform, tables)?;
        let split = Split { memory, geometry, edit, span, pages: false, counters };
        let link = split.leaf(old, table.level, base);
        access.filled();
        let stores = || {
            if old.is_contiguous() {
                access.dissolve(table, self.index);
            }
            access.store(table, self.index, link);
        };
        if let Err(error) = access.resizing(policy, in_use, stores) {
            access.discard(link, table.level.next());
            return Err(error);
        }
        if old.is_contiguous() {
            counters.dissolved(table.level, geometry.contiguous_entries(table.level) as i64);
        }
        counters.leaves(table.level, false, -1);
        counters.split(1);
        // Parked CPUs have dropped everything.
        access.finish_one(in_use && policy != Policy::Park, span.first);
        Ok(())
    }
}
