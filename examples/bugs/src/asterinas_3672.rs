//! Asterinas [#3672](https://github.com/asterinas/asterinas/issues/3672): a page becomes read-only, and no TLB is told: a program that has used the page
//! goes on writing to it.

use crate::machine::{Granule, READ_ONLY, SPARE, TABLE, execute, leaf, map, operand, store, tlbi, va};

/// The judge says: suspect `Stale`, "no invalidation came".
pub(crate) fn wrong() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), leaf(&SPARE[1]) | READ_ONLY);
    execute!("dsb ishst", "isb");
}

pub(crate) fn right() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), leaf(&SPARE[1]) | READ_ONLY);
    execute!("dsb ishst", "isb");
    tlbi!("vaale1is", operand(va(Granule::K4, 0)));
    execute!("dsb ish", "isb");
}
