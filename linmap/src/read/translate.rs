//! The memory that an address is mapped to, in tables of the 48-bit format: every level has constants of its own.
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

/// Reads the entry of a table. Continues with the table that it points to, or breaks with the memory that it maps.
#[inline(always)]
fn step<const PAGE_SHIFT: u32>(
    table: Pa,
    level: u32,
    from_base: u64,
    load: impl Fn(Slot) -> Descriptor,
) -> ControlFlow<Option<Pa>, Pa> {
    let bits = PAGE_SHIFT - 3;
    let shift = PAGE_SHIFT + (3 - level) * bits;
    let entry = load(Slot { table, index: (from_base >> shift) as usize & ((1 << bits) - 1) });
    let (addresses, within) = ((1 << 48) - (1 << PAGE_SHIFT), (1 << shift) - 1);
    if !entry.is_valid() {
        return Break(None);
    }
    match (entry.is_table_or_page(), level) {
        (true, ..3) => Continue(Pa(entry.0 & addresses)),
        (false, 3) | (false, 0) => Break(None),
        (false, 1) if PAGE_SHIFT != 12 => Break(None),
        _ => Break(Some(Pa(entry.0 & addresses & !within | from_base & within))),
    }
}
