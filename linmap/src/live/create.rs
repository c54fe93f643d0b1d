//! Creation of the linear map in a live address space.

use crate::build::Tree;
use crate::format::Half;
use crate::live::address_space::AddressSpace;
use crate::live::error::CreateError;
use crate::plan::{Layout, Leaves, Stats};
use crate::platform::Platform;

/// Creates the linear map in a live address space that has nothing mapped there yet. Returns the counts of what was
/// added.
///
/// The tree is built off line in one pass and published by one store for each entry of the root: no TLBI, two DSB and
/// one ISB, whatever the size of RAM. Another CPU that uses the tables already needs a context synchronisation event
/// before it uses the linear map, as [`AddressSpace::map`] says.
///
/// # Errors
///
/// Out of frames; an existing mapping in the range; a layout of another geometry or page size. The address space is
/// then as before, and every frame has been given back.
///
/// # Safety
///
/// The ranges that the layout calls RAM are RAM, and may be read and written through the linear map as well as through
/// all other addresses that map them: none of these has another memory type, and nothing depends on the memory not
/// being written.
pub unsafe fn create<P: Platform>(
    space: &AddressSpace,
    platform: &P,
    layout: &Layout<'_>,
    leaves: Leaves,
) -> Result<Stats, CreateError> {
    Tree::fits(platform, layout.geometry())?;
    // None of a layout's leaves is executable.
    let tree = Tree::build_judged(platform, layout.geometry(), Half::Upper, layout.runs(leaves))?;
    // SAFETY: the caller's promise; the layout's leaves have the memory types that the caller chose, and none is executable.
    Ok(unsafe { space.graft(platform, tree) }?)
}
