//! Zephyr [#115708](https://github.com/zephyrproject-rtos/zephyr/issues/115708): the operand of a TLBI is the address shifted by the size of a
//! page. It has bits 55:12 of the address whatever that size is, so that with pages of 16K another address is invalidated.

use crate::machine::{Granule, SPARE, TABLE, execute, map, operand, store, tlbi, va};

/// log2 of a page of this kernel.
const PAGE_SIZE_SHIFT: u32 = 14;
const PAGE: u64 = 5;

/// The judge says: suspect `Stale`, "it is for other addresses".
pub(crate) fn wrong() {
    map!(Granule::K16, PAGE as usize, &SPARE[1]);
    store!(TABLE.word(PAGE as usize), 0);
    execute!("dsb ishst");
    tlbi!("vae1is", va(Granule::K16, PAGE) >> PAGE_SIZE_SHIFT & ((1 << 44u32) - 1));
    execute!("dsb ish", "isb");
}

pub(crate) fn right() {
    map!(Granule::K16, PAGE as usize, &SPARE[1]);
    store!(TABLE.word(PAGE as usize), 0);
    execute!("dsb ishst");
    tlbi!("vae1is", operand(va(Granule::K16, PAGE)));
    execute!("dsb ish", "isb");
}
