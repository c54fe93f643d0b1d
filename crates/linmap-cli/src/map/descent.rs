//! Every entry of a range in order of address, found by the library's walk, with the pages that Linux took away as
//! invalid leaves.

use std::ops::ControlFlow;

use linmap::arch::{Descriptor, Entry, Leaf, Level};
use linmap::read::{ReadTables, Visited};
use linmap::{Attributes, Geometry, Pa, Va};

/// Calls `each` for every entry that translates an address of this range, both ends included: a table before its
/// entries. `each` ends the walk by `ControlFlow::Break`.
pub(crate) fn descend<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    range: (Va, Va),
    mut each: impl FnMut(&Visited) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    linmap::read::visit(reader, geometry, root, range, |visited| match visited.entry {
        Entry::Hole => {
            each(&Visited { entry: kept(visited.descriptor, geometry, visited.level), ..*visited })
        }
        _ => each(visited),
    })
}

/// Returns the meaning of a descriptor, as [`descend`] has it.
pub(crate) fn meaning(descriptor: Descriptor, geometry: Geometry, level: Level) -> Entry {
    match descriptor.decode(geometry, level) {
        Entry::Hole => kept(descriptor, geometry, level),
        entry => entry,
    }
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
) -> Result<Vec<Visited>, R::Error> {
    let mut path = Vec::new();
    let _ = descend(reader, geometry, root, (va, va), |visited| {
        path.push(*visited);
        ControlFlow::Continue(())
    })?;
    Ok(path)
}
