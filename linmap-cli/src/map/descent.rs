//! Every entry of a range in order of address, found by the library's walk, with facts that the walk does not return:
//! the raw descriptor, and the restrictions of the tables above.

use std::cell::Cell;
use std::ops::ControlFlow;

use linmap::{Attributes, Descriptor, Entry, Geometry, Leaf, Level, Pa, ReadTables, Slot, TableLimits, Va};

/// An entry and its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The first address that it translates.
    pub(crate) va: Va,
    pub(crate) level: Level,
    /// Its place in a table.
    pub(crate) slot: Slot,
    pub(crate) descriptor: Descriptor,
    pub(crate) entry: Entry,
    /// APTable, PXNTable and UXNTable of the tables above, bits 63:59.
    pub(crate) limits: TableLimits,
}

/// A reader that remembers its last answer.
struct Remembers<'a, R> {
    reader: &'a R,
    last: Cell<(Slot, Descriptor)>,
}

impl<R: ReadTables> ReadTables for Remembers<'_, R> {
    type Error = R::Error;

    #[inline]
    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, R::Error> {
        let descriptor = self.reader.entry(slot, level)?;
        self.last.set((slot, descriptor));
        Ok(descriptor)
    }
}

/// Calls `each` for every entry that translates an address of this range, both ends included: a table before its
/// entries. `each` ends the walk by `ControlFlow::Break`.
pub(crate) fn descend<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    mut each: impl FnMut(&Found) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let nothing = (Slot::default(), Descriptor::HOLE);
    let remembers = Remembers { reader, last: Cell::new(nothing) };
    // By level ordinal: the restrictions of the tables above, for the table that is being read.
    let mut limits = [TableLimits::empty(); Level::COUNT];
    linmap::visit(&remembers, geometry, root, range, |&linmap::Visited { va, level, entry, .. }| {
        let (slot, descriptor) = remembers.last.get();
        let above = limits[level.ordinal()];
        let entry = if entry == Entry::Hole { kept(descriptor, geometry, level) } else { entry };
        if let Entry::Table(_) = entry {
            limits[level.next().ordinal()] = above | TableLimits::of(descriptor);
        }
        each(&Found { va, level, slot, descriptor, entry, limits: above })
    })
}

/// Returns a hole that is not empty as an invalid leaf: Linux takes pages away (KFENCE, debug_pagealloc, the crash
/// kernel) by clearing the valid bit alone, in older kernels (6.12 is one) without the software-present bit.
fn kept(descriptor: Descriptor, geometry: Geometry, level: Level) -> Entry {
    const VALID: u64 = 1;
    const NOT_GLOBAL: u64 = 1 << 11;
    if descriptor.0 == 0 {
        return Entry::Hole;
    }
    match Descriptor((descriptor.0 | VALID) & !NOT_GLOBAL).decode(geometry, level) {
        // An entry that never mapped anything for the kernel has no access flag.
        Entry::Leaf(leaf) if leaf.attributes.contains(Attributes::ACCESSED) => {
            Entry::Leaf(Leaf { valid: false, ..leaf })
        }
        _ => Entry::Hole,
    }
}

/// Returns the entries on the way to one address, from the root down.
pub(crate) fn path<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    va: Va,
) -> Result<Vec<Found>, R::Error> {
    let mut path = Vec::new();
    let _ = descend(reader, geometry, root, (va, va), |found| {
        path.push(*found);
        ControlFlow::Continue(())
    })?;
    Ok(path)
}
