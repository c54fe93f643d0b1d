//! The switch to the second tree: the CPUs load its root, or the first root gets its entries.

use core::ops::Range;

use crate::edit::{Editor, Guard};
use crate::format::Pa;
use crate::platform::{CannotPark, EntryUpdate, Frame, Hardware, Memory};

/// Lets all CPUs load the second root, which has the entries outside the range of the repaint in common with the first.
/// Returns its address.
///
/// # Errors
///
/// CPUs do not park.
pub(super) fn load_root<G: Guard>(
    editor: &Editor<'_, G>,
    root: &mut Frame,
    entries: Range<usize>,
) -> Result<Pa, CannotPark> {
    let (g, live, pa) = (editor.geometry, editor.root(), root.pa());
    let slots = &mut editor.platform.slots(root)[..g.entries(g.root())];
    for index in (0..entries.start).chain(entries.end..slots.len()) {
        slots[index] = editor.load(&live, index).0;
    }
    editor.publish_barrier();
    // SAFETY: walkers see all of the second tree after the barrier. It is complete, and all locks are held.
    unsafe { editor.platform.park(editor.platform, pa, &[]) }?;
    Ok(pa)
}

/// Stores the entries of the second root into the first, which stays where it is, while the CPUs are parked. `old`, which has
/// holes there, gets the old ones. Returns its address.
///
/// # Errors
///
/// CPUs do not park.
pub(super) fn store_entries<G: Guard>(
    editor: &Editor<'_, G>,
    (root, old): (&mut Frame, &mut Frame),
    entries: Range<usize>,
) -> Result<Pa, CannotPark> {
    let (live, platform, of_old) = (editor.root(), editor.platform, old.pa());
    let (new, old) = (platform.slots(root), platform.slots(old));
    // The CPUs may have parked already: most entries are holes, which are passed over as fast as possible.
    let is_used = |&index: &usize| new[index] | editor.load(&live, index).0 != 0;
    let last = entries.clone().rfind(is_used);
    let used = last.and_then(|last| Some(entries.clone().find(is_used)?..last + 1));
    for index in used.clone().unwrap_or(0..0) {
        old[index] = editor.load(&live, index).0;
    }
    editor.publish_barrier();
    let update = used.map(|used| EntryUpdate::copy(live.pa, root.pa(), used.start, used.len()));
    // SAFETY: the root of the live tree gets entries of the second one, which is complete and which walkers see after the barrier.
    // All locks are held.
    unsafe { platform.park(platform, live.pa, update.as_slice()) }?;
    Ok(of_old)
}
