//! Gives tables back to their memory, those below before those above. No walker reaches them.

use crate::format::{Descriptor, Geometry, Level};
use crate::platform::{Frame, Memory};

/// Gives a table at `level` and all tables below it back to `memory`. No walker may reach them. Calls `gone` with the entries
/// and the level of each table before that table is given back.
pub(crate) fn give_back<M: Memory>(
    memory: &M,
    geometry: Geometry,
    level: Level,
    mut table: Frame,
    gone: &mut impl FnMut(&[u64], Level),
) {
    memory.with_slots(&mut table, level, |slots| {
        let slots = &slots[..geometry.entries(level)];
        if level != Level::PAGE {
            // Most tables above others have more holes than entries.
            let (eights, rest) = slots.as_chunks::<8>();
            let used = eights.iter().filter(|eight| eight.iter().fold(0, |any, bits| any | bits) != 0);
            let entries = used.flatten().chain(rest).map(|&bits| Descriptor(bits));
            for entry in entries.filter(|entry| entry.is_table(level)) {
                // SAFETY: walkers could reach this table only through the one above, which is a frame. The tree owned it,
                // and the only pointer to it is in the table above, which is given back as well.
                let below = unsafe { Frame::from_pa(entry.next_table(geometry)) };
                give_back(memory, geometry, level.next(), below, gone);
            }
        }
        gone(slots, level);
    });
    memory.give(table);
}
