//! The leaves of a range change in place: none has to change its size, nothing can fail.

use crate::format::{Descriptor, Level};
use crate::live::edit::Editor;
use crate::platform::Platform;
use crate::read::Table;

impl<P: Platform> Editor<'_, P> {
    /// Changes the leaves that lie within the range.
    #[inline]
    pub(crate) fn change(&mut self, table: &Table) {
        let (first, last) = table.entries_of(self.span, self.access.geometry);
        if self.alike && table.level == Level::PAGE {
            return self.change_alike(*table, (first, last));
        }
        let mut index = first;
        while index <= last {
            let old = self.access.load(table, index);
            if old.is_table(table.level) {
                self.change_below(table, index, old);
                index += 1;
                continue;
            }
            let end = if self.alike { self.alike(table, index, old, last) } else { index + 1 };
            match end - index {
                1 => self.change_one(table, index, old),
                _ => self.change_alike(*table, (index, end - 1)),
            }
            index = end;
        }
    }

    #[inline(never)]
    fn change_below(&mut self, table: &Table, index: usize, old: Descriptor) {
        self.change(&self.access.below(table, index, old));
    }

    #[inline(always)]
    fn change_one(&mut self, table: &Table, index: usize, old: Descriptor) {
        let new = self.edit.of(old, table.level);
        if new != old {
            self.access.store(table, index, new);
            if old.is_valid() {
                let at = table.span_of(index);
                self.batch.add(at.first, at.last, table.shift);
            }
        }
    }

    /// Changes leaves, from one entry of a table to another, both included: in all of them the same bits change, so
    /// that nobody has to look at each. A table that was built for this has the change in all of them: the first shows
    /// it.
    fn change_alike(&mut self, table: Table, (first, last): (usize, usize)) {
        let old = self.access.load(&table, first);
        let changes = self.edit.of(old, table.level).0 ^ old.0;
        if changes == 0 {
            return;
        }
        let changed = |entry: Descriptor| Descriptor(entry.0 ^ changes);
        let mut index = first;
        if !index.is_multiple_of(2) {
            self.access.store(&table, index, changed(old));
            index += 1;
        }
        for _ in 0..(last + 1 - index) / 8 {
            let eight = self.access.load_eight(&table, index);
            self.access.store_eight(&table, index, eight.map(changed));
            index += 8;
        }
        for index in index..=last {
            self.access.store(&table, index, changed(self.access.load(&table, index)));
        }
        if old.is_valid() {
            self.batch.add(table.va(first), table.span_of(last).last, table.shift);
        }
    }
}
