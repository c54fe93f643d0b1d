//! The alias of the image in the linear map: data and bss are writable, read-only, or hidden, as `data=` says; code and
//! constants are read-only or hidden, as `text=` says.

use core::ops::ControlFlow::Continue;
use core::ops::Range;

use kernel::views::Hidden;
use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::layout::ImageAlias;
use linmap::{Pa, Rodata, Va};

use crate::system::System;

/// Returns the data of the image in the linear map, if they are to be hidden and the map reaches them.
pub(crate) fn data<'s>(system: &'s System<'_>) -> Option<Hidden<'s>> {
    Hidden::new(system.space, &system.memory.layout)
}

/// Returns the code and constants in the linear map, if they are to be hidden and the map reaches them.
pub(crate) fn text<'s>(system: &'s System<'_>) -> Option<Hidden<'s>> {
    let (range, layout) = (&system.memory.alias, &system.memory.layout);
    let va =
        layout.va(range.start).filter(|_| !range.is_empty() && text_alias(system) == ImageAlias::Hidden)?;
    Some(Hidden::of(system.space, va, (range.end.0 - range.start.0) >> system.geometry.page_shift()))
}

/// Returns what the alias of code and constants is. Without read-only memory (`rodata=off`) it is no leaf of its own, and
/// not hidden.
pub(crate) fn text_alias(system: &System<'_>) -> ImageAlias {
    let hides = system.args.hides_text && system.args.rodata != Rodata::Off;
    if hides { ImageAlias::Hidden } else { ImageAlias::ReadOnly }
}

/// Hides what is to be hidden. No CPU uses that alias from then on, except while it is shown.
///
/// # Errors
///
/// The library refuses.
pub(crate) fn hide(system: &System<'_>) -> Result<(), ChangeError> {
    for part in [data(system), text(system)].into_iter().flatten() {
        // SAFETY: code uses the image by its own addresses, and the frames in the image are behind its bss.
        unsafe { part.hide(&system.platform())? };
    }
    Ok(())
}

/// Returns the number of pages of the image that can be accessed in a way that was not chosen.
pub(crate) fn exposed(system: &System<'_>) -> u64 {
    let (data, alias) = system.memory.layout.data();
    let text =
        (system.args.rodata != Rodata::Off).then(|| of(system, &system.memory.alias, text_alias(system)));
    of(system, data, alias) + text.unwrap_or(0)
}

/// Returns the number of pages of memory whose alias is not as it should be.
fn of(system: &System<'_>, range: &Range<Pa>, alias: ImageAlias) -> u64 {
    let mut pages = 0;
    let Some(first) = system.memory.layout.va(range.start).filter(|_| !range.is_empty()) else { return 0 };
    let last = Va(first.0 + (range.end.0 - range.start.0 - 1));
    _ = system.space.on(&system.platform()).read(|reader| {
        reader.visit((first, last), |seen| {
            if let Entry::Leaf(leaf) = seen.entry
                && leaf.valid
                && (alias == ImageAlias::Hidden
                    || alias == ImageAlias::ReadOnly && leaf.attributes.is_writable())
            {
                pages += 1;
            }
            Continue(())
        })
    });
    pages
}
