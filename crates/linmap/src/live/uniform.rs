//! Tables that one block can replace: their entries are leaves that follow each other, and the first is where a block begins.

use crate::format::{Descriptor, Geometry};
use crate::live::locked::Locked;
use crate::platform::Platform;
use crate::read::Table;

/// Returns the block that maps the same as a table whose first entry is this one, if its leaves are adjacent and may merge.
#[inline(always)]
pub(crate) fn block_for(g: Geometry, table: &Table, first: Descriptor) -> Option<Descriptor> {
    let above = table.level.down(-1);
    // The bits from those of a page up are in place in all formats, those that are not below 2^48.
    let within = ((1 << (table.shift + g.index_bits())) - 1) & !(g.page_size() - 1);
    let is_first =
        first.is_valid() && first.is_leaf(g, table.level) && first.0 & within & Descriptor::ADDRESS == 0;
    (is_first && !first.stays_split() && g.makes_leaf(above)).then(|| first.parent(table.level))
}

/// Returns true if entries of a table differ from `first`, which is its first, and those that follow it by `step`, in the contiguous
/// bit; `None` if in others. If the holder is not `alone`, they are read one by one.
#[inline(never)]
pub(crate) fn follow<P: Platform>(
    locked: &Locked<'_, P>,
    table: &Table,
    first: Descriptor,
    step: u64,
    alone: bool,
) -> Option<bool> {
    /// The number of entries that are compared at once: unrolled, 2.7 instructions each where none is in a run, or all are.
    const CHUNK: usize = 16;
    // Copied, so that its address stays in a register.
    let table = *table;
    let (entries, mut index, mut all) = (locked.geometry.entries(table.level), 0, 0);
    let mut expected = first.0;
    while index < entries {
        let mut next = expected;
        let mut eight = |index| locked.eight(&table, index, (&mut next, step));
        if alone && eight(index) && eight(index + 8) {
            expected = next;
        } else {
            for entry in index..index + CHUNK {
                all |= locked.load(&table, entry).0 ^ expected;
                expected = expected.wrapping_add(step);
            }
            if Descriptor(all).without_contiguous().0 != 0 {
                return None;
            }
        }
        index += CHUNK;
    }
    Some(Descriptor(all).is_contiguous())
}
