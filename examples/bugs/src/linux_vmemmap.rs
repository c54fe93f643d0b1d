//! Linux, `vmemmap_pud_populate` of `mm/sparse-vmemmap.c`, 6.1 to 7.3: a page is cleared and linked as a table with no barrier between. A walker may
//! follow the link before it sees the zeros, and takes what the page had before for descriptors.

use crate::machine::{MIDDLE, Page, SPARE, execute, store, table};

/// The slot of level 2 that is empty.
const SLOT: usize = 1;

/// Clears a page that had other data.
#[inline(always)]
fn clear(page: &Page) {
    (0..512).for_each(|n| store!(page.word(n), 0));
}

/// The judge says: breach `Unfilled`.
pub(crate) fn wrong() {
    clear(&SPARE[1]);
    store!(MIDDLE.word(SLOT), table(&SPARE[1]));
    execute!("dsb ishst", "isb");
}

pub(crate) fn right() {
    clear(&SPARE[1]);
    execute!("dmb ishst");
    store!(MIDDLE.word(SLOT), table(&SPARE[1]));
    execute!("dsb ishst", "isb");
}
