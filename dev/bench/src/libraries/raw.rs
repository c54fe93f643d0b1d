//! Counts the leaves in tables of other libraries without calling those.

use std::ptr::NonNull;

use super::Leaves;

/// A decoded entry.
pub(super) enum Entry {
    Hole,
    Table(NonNull<u64>),
    Leaf { read_only: bool },
}

/// Counts the leaves below a table of 512 entries. Tables point to each other by addresses of this process.
///
/// # Safety
///
/// `table` must be the root of such tables in the format of `decode`, and no code may write to them during the call.
pub(super) unsafe fn count(table: NonNull<u64>, decode: &impl Fn(u64, usize) -> Entry) -> Leaves {
    let mut leaves = Leaves::default();
    // SAFETY: the caller's promise.
    unsafe { add(table, 0, decode, &mut leaves) };
    leaves
}

/// # Safety
///
/// As for [`count`], for a table at `level`.
unsafe fn add(table: NonNull<u64>, level: usize, decode: &impl Fn(u64, usize) -> Entry, leaves: &mut Leaves) {
    for index in 0..512 {
        // SAFETY: a table has 512 entries.
        let bits = unsafe { table.add(index).read() };
        match decode(bits, level) {
            Entry::Hole => {}
            Entry::Leaf { read_only } => leaves[level][usize::from(read_only)] += 1,
            // SAFETY: a table entry points to a table one level down.
            Entry::Table(below) => unsafe { add(below, level + 1, decode, leaves) },
        }
    }
}

/// Decodes an entry of arm64 tables with 4K pages.
pub(super) fn arm64(bits: u64, level: usize) -> Entry {
    match (bits & 1 != 0, bits & 2 != 0 && level < 3) {
        (false, _) => Entry::Hole,
        (true, true) => table(bits & 0x0000_ffff_ffff_f000),
        (true, false) => Entry::Leaf { read_only: bits & 1 << 7 != 0 },
    }
}

/// Decodes an entry of x86-64 tables.
#[cfg(target_arch = "x86_64")]
pub(super) fn x86_64(bits: u64, level: usize) -> Entry {
    match (bits & 1 != 0, level < 3 && bits & 1 << 7 == 0) {
        (false, _) => Entry::Hole,
        (true, true) => table(bits & 0x000f_ffff_ffff_f000),
        (true, false) => Entry::Leaf { read_only: bits & 2 == 0 },
    }
}

fn table(address: u64) -> Entry {
    let pointer = std::ptr::with_exposed_provenance_mut(address as usize);
    Entry::Table(NonNull::new(pointer).expect("a table's address"))
}
