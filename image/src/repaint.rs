//! The linear map in pages, for a CPU that might abort where a leaf is split live. All else continues meanwhile.

use linmap::Va;
use linmap::arch::Entry;
use linmap::error::RepaintError;
use linmap::layout::linear_range;

use crate::hardware::HARDWARE;
use crate::parking;
use crate::system::{Repainted, System};

unsafe extern "C" {
    fn mark_repaint_begin();
    fn mark_repaint_end();
}

/// Puts the linear map into pages, except for the alias of the image's code and constants.
///
/// # Errors
///
/// Out of frames, or a CPU does not park: the map is as before.
pub(crate) fn repaint(system: &mut System<'_>) -> Result<(), RepaintError> {
    let System { space, geometry, counters, .. } = &*system;
    let keep = kept(system);
    let (platform, range, root) = (system.platform(), linear_range(*geometry), space.root());
    let entries = used_entries(system, range);
    parking::measure(true);
    // SAFETY: markers do nothing.
    unsafe { mark_repaint_begin() };
    // The window is that of the attempt that was not called off.
    let repainted = parking::again(|| {
        let repaint = || space.on(&platform).repaint(range, keep.as_slice());
        let (repainted, window) = counters.window(&HARDWARE.cpu, repaint);
        repainted.map(|stats| (stats, window))
    });
    // SAFETY: as above.
    unsafe { mark_repaint_end() };
    let stopped = counters.counted(parking::measured()).map(u64::from);
    parking::measure(false);
    let (stats, window) = repainted?;
    let stored = (space.root() == root).then_some(entries);
    *system.stats.get_mut() = stats;
    system.repainted = Some(Repainted { window, stopped, stored });
    Ok(())
}

/// Returns the number of entries of the root that are no holes: a repaint in place stores so many while the CPUs are parked.
fn used_entries(system: &System<'_>, (first, last): (Va, Va)) -> u64 {
    let root = system.geometry.root();
    let bytes = system.geometry.level_size(root);
    let entries = (0..=(last.0 - first.0) / bytes).map(|n| Va(first.0 + n * bytes));
    system.space.on(&system.platform()).read(|reader| {
        let is_hole = |va: &Va| matches!(reader.entry(*va), Some((_, level, Entry::Hole)) if level == root);
        entries.filter(|va| !is_hole(va)).count() as u64
    })
}

/// Returns what a repaint leaves as it is: the alias of the image's code and constants.
pub(crate) fn kept(system: &System<'_>) -> Option<(Va, Va)> {
    let System { memory, .. } = system;
    let start = memory.layout.va(memory.alias.start)?;
    Some((start, Va(start.0 + (memory.alias.end.0 - memory.alias.start.0) - 1)))
}
