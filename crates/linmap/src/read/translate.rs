//! The memory that an address is mapped to, and its entry in a page table, in tables of the 48-bit format: every level has
//! constants of its own.
//!
//! A loop would compute at each step what is known here: where the index is, whether this is the last level, and whether a
//! leaf may be here.

use core::hint::black_box;
use core::ops::ControlFlow::{self, Break, Continue};

use crate::format::{Descriptor, Level, Pa};
use crate::platform::Slot;

/// Returns the memory that an address is mapped to, or `None` if no valid leaf maps it. The address is so many bytes above the
/// first one that the root translates. Pages have 2 to the power of `PAGE_SHIFT` bytes.
#[inline(always)]
pub(crate) fn translate<const PAGE_SHIFT: u32>(
    (root, root_level): (Pa, Level),
    from_base: u64,
    load: impl Fn(Slot) -> Descriptor,
) -> Option<Pa> {
    let step = |table, level| step::<PAGE_SHIFT>(table, level, from_base, &load);
    let down = |mut table| {
        if root_level.number() == 0 {
            table = step(table, 0)?;
        }
        if root_level.number() <= 1 {
            table = step(table, 1)?;
        }
        table = step(table, 2)?;
        step(table, 3)
    };
    match down(root) {
        Break(found) => found,
        Continue(_) => None,
    }
}

/// Returns the place of the page table's entry for an address, and what it has. The address is so many bytes above the first
/// one that the root translates. Pages have 2 to the power of `PAGE_SHIFT` bytes.
///
/// # Errors
///
/// There is no page table: the level of the block above, and the block, or `None` if that entry is not valid.
#[inline(always)]
pub(crate) fn page_entry<const PAGE_SHIFT: u32>(
    (root, root_level): (Pa, Level),
    from_base: u64,
    load: impl Fn(Slot) -> Descriptor,
) -> Result<(Slot, Descriptor), Option<(Level, Descriptor)>> {
    let mut table = root;
    if root_level.number() == 0 {
        table = link::<PAGE_SHIFT>(table, 0, from_base, &load)?;
    }
    if root_level.number() <= 1 {
        table = link::<PAGE_SHIFT>(table, 1, from_base, &load)?;
    }
    let slot = slot::<PAGE_SHIFT>(link::<PAGE_SHIFT>(table, 2, from_base, &load)?, 3, from_base);
    let entry = load(slot);
    // Otherwise the compiler joins the ways of all page sizes before this load, with what is constant in each as a variable.
    black_box(());
    Ok((slot, entry))
}

/// Returns the table that an entry points to, for [`page_entry`].
#[inline(always)]
fn link<const PAGE_SHIFT: u32>(
    table: Pa,
    level: u32,
    from_base: u64,
    load: impl Fn(Slot) -> Descriptor,
) -> Result<Pa, Option<(Level, Descriptor)>> {
    let entry = load(slot::<PAGE_SHIFT>(table, level, from_base));
    match (entry.is_valid(), entry.is_table_or_page()) {
        (true, true) => Ok(Pa(entry.0 & addresses::<PAGE_SHIFT>())),
        (true, false) => Err(Some((Level::new(level as i8), entry))),
        (false, _) => Err(None),
    }
}

/// Returns the bits of a descriptor that are the address of a table or page.
const fn addresses<const PAGE_SHIFT: u32>() -> u64 {
    (1 << 48) - (1 << PAGE_SHIFT)
}

/// Returns log2 of the bytes that an entry at a level spans.
const fn shift_of<const PAGE_SHIFT: u32>(level: u32) -> u32 {
    PAGE_SHIFT + (3 - level) * (PAGE_SHIFT - 3)
}

/// Returns the slot of a table at a level that translates an address.
#[inline(always)]
const fn slot<const PAGE_SHIFT: u32>(table: Pa, level: u32, from_base: u64) -> Slot {
    let index = (from_base >> shift_of::<PAGE_SHIFT>(level)) as usize & ((1 << (PAGE_SHIFT - 3)) - 1);
    Slot { table, index }
}

/// Reads the entry of a table. Continues with the table that it points to, or breaks with the memory that it maps.
#[inline(always)]
fn step<const PAGE_SHIFT: u32>(
    table: Pa,
    level: u32,
    from_base: u64,
    load: impl Fn(Slot) -> Descriptor,
) -> ControlFlow<Option<Pa>, Pa> {
    let entry = load(slot::<PAGE_SHIFT>(table, level, from_base));
    let (addresses, within) = (addresses::<PAGE_SHIFT>(), (1 << shift_of::<PAGE_SHIFT>(level)) - 1);
    let memory = Pa(entry.0 & addresses & !within | from_base & within);
    if level == 3 {
        // Valid or not says whether there is a result, without a branch.
        return Break(if entry.is_table_or_page() { entry.is_valid().then_some(memory) } else { None });
    }
    if !entry.is_valid() {
        return Break(None);
    }
    match (entry.is_table_or_page(), level) {
        (true, _) => Continue(Pa(entry.0 & addresses)),
        (false, 0) => Break(None),
        (false, 1) if PAGE_SHIFT != 12 => Break(None),
        _ => Break(Some(memory)),
    }
}
