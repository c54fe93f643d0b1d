//! The alias of the image's data and bss in the linear map: writable, read-only, or hidden, as `data=` says.

use core::ops::ControlFlow::Continue;

use linmap::{ChangeError, Entry, Hidden, ImageAlias, Va};

use crate::system::System;

/// Returns the data of the image in the linear map, if they are to be hidden and the map reaches them.
pub(crate) fn data<'s>(system: &'s System<'_>) -> Option<Hidden<'s>> {
    Hidden::new(system.space, &system.memory.layout)
}

/// Hides them, if they are to be hidden. No CPU uses that alias from then on, except while it is shown.
///
/// # Errors
///
/// The library refuses.
pub(crate) fn hide(system: &System<'_>) -> Result<(), ChangeError> {
    // SAFETY: code uses the image by its own addresses, and the frames in the image are behind its bss.
    data(system).map_or(Ok(()), |data| unsafe { data.hide(&system.platform()) })
}

/// Returns the number of pages of the data that can be accessed in a way that was not chosen.
pub(crate) fn exposed(system: &System<'_>) -> u64 {
    let (layout, mut pages) = (&system.memory.layout, 0);
    let (range, alias) = layout.data();
    let Some(first) = layout.va(range.start).filter(|_| !range.is_empty()) else { return 0 };
    let last = Va(first.0 + (range.end.0 - range.start.0 - 1));
    _ = system.space.visit(&system.platform(), (first, last), |seen| {
        if let Entry::Leaf(leaf) = seen.entry
            && leaf.valid
            && (alias == ImageAlias::Hidden || alias == ImageAlias::ReadOnly && leaf.attributes.is_writable())
        {
            pages += 1;
        }
        Continue(())
    });
    pages
}
