//! Stores that change no translation: a leaf becomes a table of the same leaves, or a run its members. Long changes do that to all
//! leaves at their ends before they take effect.

use linmap::arch::{Descriptor, Entry, Leaf, Level};
use linmap::{Geometry, Pa, Slot};

/// Returns true if an entry of a live table translates as before once it has a new descriptor. Pages are of 4K, `load` reads
/// tables.
pub(crate) fn keeps(g: Geometry, load: &impl Fn(Slot) -> Descriptor, slot: Slot, new: Descriptor) -> bool {
    let old = load(slot);
    let same = |level| match old.decode(g, level) {
        Entry::Leaf(leaf) => is_made_of(g, load, new, level, leaf),
        _ => false,
    };
    // The level of a slot is not known. All is global, so that bit 1 tells pages from blocks; blocks of the two levels differ
    // in what a new table has.
    match (old.decode(g, Level::new(2)), new.decode(g, Level::new(2))) {
        _ if old.0 & PAGE != 0 => same(Level::PAGE),
        (Entry::Leaf(_), Entry::Table(table)) => {
            let entries: Vec<_> =
                (0..g.entries(Level::PAGE)).map(|index| load(Slot { table, index })).collect();
            let level = if entries.iter().all(|e| e.0 & PAGE != 0) { 2 } else { 1 };
            entries.iter().all(|e| e.decode(g, Level::PAGE) != Entry::Hole) && same(Level::new(level))
        }
        _ => same(Level::new(2)) && same(Level::new(1)),
    }
}

/// The bit that tells a table or a page from a block.
const PAGE: u64 = 1 << 1;

/// Returns true if an entry is a leaf, or a table of such leaves, with the addresses and attributes of `leaf`.
fn is_made_of(
    g: Geometry,
    load: &impl Fn(Slot) -> Descriptor,
    new: Descriptor,
    level: Level,
    leaf: Leaf,
) -> bool {
    match new.decode(g, level) {
        Entry::Leaf(now) => Leaf { contiguous: leaf.contiguous, ..now } == leaf,
        Entry::Table(table) => {
            let below = Level::new(level.number() + 1);
            (0..g.entries(below)).all(|index| {
                let oa = Pa(leaf.oa.0 + index as u64 * g.level_size(below));
                is_made_of(g, load, load(Slot { table, index }), below, Leaf { oa, ..leaf })
            })
        }
        _ => false,
    }
}
