//! Gives tables that no walker reaches back to their memory, from the bottom up.

use crate::format::{Descriptor, Geometry, Level};
use crate::platform::{Frame, Memory};

/// Gives back a table at `level`, which no walker reaches, and all tables below it. Before a table goes, calls `gone` with its
/// entries and its level.
pub(crate) fn give_back<M: Memory>(
    memory: &M,
    geometry: Geometry,
    level: Level,
    mut table: Frame,
    gone: &mut impl FnMut(&[u64], Level),
) {
    let slots = &memory.slots(&mut table)[..geometry.entries(level)];
    if level != Level::PAGE {
        for entry in slots.iter().map(|&bits| Descriptor(bits)).filter(|entry| entry.is_table(level)) {
            // SAFETY: the table above is a frame, so walkers reached this one through it alone; the tree owned it, and its
            // only pointer is in the table above, which goes away now.
            let below = unsafe { Frame::from_pa(entry.next_table(geometry)) };
            give_back(memory, geometry, level.next(), below, gone);
        }
    }
    gone(slots, level);
    memory.give(table);
}
