//! Zephyr [#37600](https://github.com/zephyrproject-rtos/zephyr/issues/37600): a thread moves to other tables under the ASID of the first ones,
//! and nothing is invalidated. It goes on seeing what the first tables had.

use core::arch::asm;

use crate::machine::{LOWER, NOT_GLOBAL, Page, SPARE, execute, leaf, store, table};

/// An address of the lower half beside RAM, 2 GiB, and the slot of the root for it.
const USER: u64 = 0x8000_0000;
const SLOT: usize = 2;

/// Fills the tables of a domain: the kernel's own addresses, and a page of its own.
fn domain(root: &Page, tables: [&Page; 2], page: &Page) {
    for n in 0..SLOT {
        // SAFETY: it is a word of the kernel's root.
        store!(root.word(n), unsafe { LOWER.word(n).read_volatile() });
    }
    store!(tables[1].word(0), leaf(page) | NOT_GLOBAL);
    store!(tables[0].word(0), table(tables[1]));
    store!(root.word(SLOT), table(tables[0]));
    execute!("dsb ishst");
}

/// Loads the tables of a domain under an ASID.
#[inline(always)]
fn swap(root: &Page, asid: u64) {
    // SAFETY: all domains map this kernel alike.
    unsafe { asm!("msr ttbr0_el1, {}", "isb", in(reg) root.at() | asid << 48u32) }
}

/// The judge says: breach `TtbrSwitch`.
pub(crate) fn wrong() {
    domain(&SPARE[1], [&SPARE[2], &SPARE[3]], &SPARE[4]);
    swap(&SPARE[1], 7);
    store!(USER as *mut u64, 1);
    // The other domain is the kernel's: nothing is at that address.
    swap(&LOWER, 7);
}

pub(crate) fn right() {
    domain(&SPARE[1], [&SPARE[2], &SPARE[3]], &SPARE[4]);
    swap(&SPARE[1], 7);
    store!(USER as *mut u64, 1);
    swap(&LOWER, 1);
    execute!("tlbi vmalle1is", "dsb ish", "isb");
    swap(&LOWER, 7);
}
