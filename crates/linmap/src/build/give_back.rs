//! Gives tables back to their memory, those below before those above. No walker reaches them.

use crate::format::{Descriptor, Geometry, Level, Pa};
use crate::platform::{Frame, Memory};

/// Gives a table at `level` and all tables below it back to `memory`. No walker may reach them. Calls `gone` with the entries
/// and the level of each table before that table is given back.
///
/// The way down is kept in an array and not in calls: it takes little of the stack, however deep it goes.
pub(crate) fn give_back<M: Memory>(
    memory: &M,
    geometry: Geometry,
    top: Level,
    mut table: Frame,
    gone: &mut impl FnMut(&[u64], Level),
) {
    // The tables above, and the index after the entry that led down from each.
    let mut above = [(Pa(0), 0); Level::COUNT];
    let (mut level, mut index) = (top, 0);
    loop {
        let below = memory.with_slots(&mut table, level, |slots| {
            let slots = &slots[..geometry.entries(level)];
            let below = next_table(slots, index, level);
            if below.is_none() {
                gone(slots, level);
            }
            below
        });
        if let Some((at, entry)) = below {
            above[level.ordinal()] = (table.into_pa(), at + 1);
            // SAFETY: walkers could reach this table only through the one above, which is a frame. The tree owned it,
            // and the only pointer to it is in the table above, which is given back as well.
            table = unsafe { Frame::from_pa(entry.next_table(geometry)) };
            (level, index) = (level.next(), 0);
            continue;
        }
        memory.give(table);
        if level == top {
            return;
        }
        level = level.down(-1);
        let (pa, next) = above[level.ordinal()];
        // SAFETY: the frame that was given up for its place here.
        table = unsafe { Frame::from_pa(pa) };
        index = next;
    }
}

/// Returns the next entry from an index on that points to a table.
fn next_table(slots: &[u64], mut index: usize, level: Level) -> Option<(usize, Descriptor)> {
    if level == Level::PAGE {
        return None;
    }
    while let Some(&bits) = slots.get(index) {
        if Descriptor(bits).is_table(level) {
            return Some((index, Descriptor(bits)));
        }
        index += 1;
        // Most tables above others have more holes than entries.
        while bits == 0
            && let Some([0, 0, 0, 0, 0, 0, 0, 0]) = slots[index..].first_chunk()
        {
            index += 8;
        }
    }
    None
}
