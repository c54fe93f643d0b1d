//! The costs of RAM that comes and goes, beside the creation of the same: in an address space of its own, which no CPU
//! has loaded, so that the memory need not be there.
//!
//! Each is done once before it is counted, so that table pages come from where they usually do.

use core::fmt;
use core::ops::Range;

use linmap::error::{ChangeError, CreateError, LayoutError};
use linmap::{Frame, Half, Hotplug, Layout, Leaves, Pa, Policy, SharedSpace, Stats, Tree};

use super::counted::{counted, has_room};
use crate::counters::Window;
use crate::report;
use crate::system::System;
use crate::warning::warn;

/// RAM that is there before: its end is within a leaf of every size but the smallest.
const BEFORE: Range<Pa> = Pa(1 << 30)..Pa((3 << 30) + (5 << 20));
/// The bytes that are added after it.
const ADDED: u64 = 64 << 30;

/// The reason why nothing was counted.
pub(super) enum Wrong {
    Layout(LayoutError),
    Create(CreateError),
    Change(ChangeError),
    /// The counts afterwards are not those from before.
    Left(Stats),
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout(e) => e.fmt(f),
            Self::Create(e) => e.fmt(f),
            Self::Change(e) => e.fmt(f),
            Self::Left(stats) => write!(f, "after RAM was removed the map is {stats:?}"),
        }
    }
}

/// Counts all of it.
///
/// # Errors
///
/// A call failed, or RAM that was removed has left something.
#[inline(never)]
pub(super) fn count(system: &System<'_>) -> Result<(), Wrong> {
    let (g, policy) = (system.geometry, system.space.policy());
    let leaves = match policy {
        Policy::Live => Leaves::Largest,
        Policy::Pages => Leaves::Pages,
        // Nothing would merge, or CPUs would be parked off a map that they are not on.
        Policy::Park | Policy::Fixed => return Ok(()),
    };
    let tables = match leaves {
        Leaves::Largest => 16,
        Leaves::Pages => (ADDED >> (g.page_shift() + g.index_bits())) + 16,
    };
    if !has_room(system, 2 * tables * g.page_size(), "hot_add, hot_remove") {
        return Ok(());
    }
    if 1 << (g.va_bits() - 1) < BEFORE.end.0 + ADDED {
        warn(format_args!("hot_add, hot_remove: not counted, as {} bits are too few", g.va_bits()));
        return Ok(());
    }
    let more = BEFORE.end..Pa(BEFORE.end.0 + ADDED);
    let mut all = [None; 3];
    for _ in 0i32..2i32 {
        all = [Some(in_a_space(system, |space| created(system, space, (more.clone(), leaves)))?), None, None];
        let [added, removed] = in_a_space(system, |space| {
            created(system, space, (BEFORE, leaves))?;
            comes_and_goes(system, space, &more)
        })?;
        [all[1], all[2]] = [Some(added), Some(removed)];
    }
    for (name, window) in ["create_64g", "hot_add", "hot_remove"].into_iter().zip(all.iter().flatten()) {
        report::window(name, window, &[("bytes", Some(ADDED))]);
    }
    Ok(())
}

/// Does something with an address space that no CPU is on, and gives its tables back.
pub(super) fn in_a_space<R>(
    system: &System<'_>,
    work: impl FnOnce(&SharedSpace) -> Result<R, Wrong>,
) -> Result<R, Wrong> {
    let (frames, g) = (system.frames, system.geometry);
    let tree = Tree::empty(frames, g, Half::Upper);
    let space = SharedSpace::adopt(tree.map_err(|e| Wrong::Create(e.into()))?);
    space.set_policy(system.space.policy());
    let result = work(&space);
    // SAFETY: the root of a tree that no CPU has loaded.
    unsafe { Tree::from_root(Frame::from_pa(space.root()), g, Half::Upper) }.discard(frames);
    result
}

/// Creates a map of some RAM, and counts it.
fn created(
    system: &System<'_>,
    space: &SharedSpace,
    (ram, leaves): (Range<Pa>, Leaves),
) -> Result<Window, Wrong> {
    let mut ram = [ram];
    let layout = layout(system, &mut ram)?;
    // SAFETY: no CPU is on these tables.
    let create = || unsafe { space.on(&system.platform()).create(&layout, leaves) };
    let (done, window) = counted(system, create);
    done.map(|_| window).map_err(Wrong::Create)
}

fn layout<'r>(system: &System<'_>, ram: &'r mut [Range<Pa>]) -> Result<Layout<'r>, Wrong> {
    let g = system.geometry;
    Layout::of_ram(g, ram).and_then(|layout| layout.at(g.base(Half::Upper))).map_err(Wrong::Layout)
}

/// Adds RAM and removes it, and counts both.
fn comes_and_goes(system: &System<'_>, space: &SharedSpace, ram: &Range<Pa>) -> Result<[Window; 2], Wrong> {
    let (platform, mut before) = (system.platform(), [BEFORE]);
    let mut hotplug = Hotplug::new(space.on(&platform), &layout(system, &mut before)?);
    let stats = space.on(&platform).stats();
    // SAFETY: no CPU is on these tables.
    let (added, adding) = counted(system, || unsafe { hotplug.add(ram.clone()) });
    added.map_err(Wrong::Change)?;
    // SAFETY: as above.
    let (removed, removing) = counted(system, || unsafe { hotplug.remove(ram.clone()) });
    removed.map_err(Wrong::Change)?;
    let left = space.on(&platform).stats();
    if left == stats { Ok([adding, removing]) } else { Err(Wrong::Left(left)) }
}
