//! The memory that an address is mapped to, in tables of the 48-bit format: every level has
//! constants of its own.
//!
//! A loop would compute at each step what is known here: where the index is, whether this is the last level, and whether a
//! leaf may be here.

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
