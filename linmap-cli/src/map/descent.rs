//! Every entry of a range in address order, as the library's walk finds it, with what that walk does not
//! hand out: the descriptor as it is, and the restrictions of the tables above.

use std::cell::Cell;
use std::ops::ControlFlow;

use linmap::{Attributes, Descriptor, Entry, Geometry, Leaf, Level, Pa, ReadTables, Slot, TableLimits, Va};

/// An entry and where it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    /// The first address that it translates.
    pub(crate) va: Va,
    pub(crate) level: Level,
    /// Where it was read from.
    pub(crate) slot: Slot,
    pub(crate) descriptor: Descriptor,
    pub(crate) entry: Entry,
    /// APTable, PXNTable and UXNTable of the tables above, bits 63:59.
    pub(crate) limits: TableLimits,
}

/// A reader that remembers what it read last.
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

/// Calls `each` for every entry that translates an address from the first to the last, both included: a
/// table before what is in it. `each` ends the walk by `ControlFlow::Break`.
pub(crate) fn descend<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    mut each: impl FnMut(&Found) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let nothing = (Slot::default(), Descriptor::HOLE);
    let remembers = Remembers { reader, last: Cell::new(nothing) };
    // By level ordinal: what the tables above lay on the entries of the table that is being read.
    let mut limits = [TableLimits::empty(); Level::COUNT];
    linmap::visit(&remembers, geometry, root, range, |va, level, entry| {
        let (slot, descriptor) = remembers.last.get();
        let above = limits[level.ordinal()];
        let entry = if entry == Entry::Hole { kept(descriptor, geometry, level) } else { entry };
        if let Entry::Table(_) = entry {
            limits[level.next().ordinal()] = above | TableLimits::of(descriptor);
        }
        each(&Found { va, level, slot, descriptor, entry, limits: above })
    })
}

/// What a hole is that is not empty: Linux takes pages away (KFENCE, debug_pagealloc, the crash kernel) by
/// clearing the valid bit alone, in older kernels (6.12 is one) without the software-present bit.
fn kept(descriptor: Descriptor, geometry: Geometry, level: Level) -> Entry {
    const VALID: u64 = 1;
    const NOT_GLOBAL: u64 = 1 << 11;
    if descriptor.0 == 0 {
        return Entry::Hole;
    }
    match Descriptor((descriptor.0 | VALID) & !NOT_GLOBAL).decode(geometry, level) {
        // What never was a mapping of the kernel has no access flag.
        Entry::Leaf(leaf) if leaf.attributes.contains(Attributes::ACCESSED) => {
            Entry::Leaf(Leaf { valid: false, ..leaf })
        }
        _ => Entry::Hole,
    }
}

/// The entries on the way to one address, from the root down.
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
