//! EDK2 [#4418](https://github.com/tianocore/edk2/pull/4418): an entry is replaced with break-before-make, and after the last store comes a DSB and
//! no ISB: what was fetched or begun before may still meet the invalid entry.

use crate::machine::{Granule, READ_ONLY, SPARE, TABLE, execute, leaf, map, operand, store, tlbi, va};

/// Takes the entry out.
#[inline(always)]
fn breaks() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), 0);
    execute!("dsb ishst");
    tlbi!("vaae1is", operand(va(Granule::K4, 0)));
    execute!("dsb ish");
}

/// The judge says: breach `Unsynchronised`.
pub(crate) fn wrong() {
    breaks();
    store!(TABLE.word(0), leaf(&SPARE[2]));
    execute!("dsb ishst");
    store!(va(Granule::K4, 0) as *mut u64, 1);
    execute!("isb");
}

pub(crate) fn right() {
    breaks();
    store!(TABLE.word(0), leaf(&SPARE[2]));
    execute!("dsb ishst", "isb");
    store!(va(Granule::K4, 0) as *mut u64, 1);
    // It is read-only for good.
    store!(TABLE.word(0), leaf(&SPARE[2]) | READ_ONLY);
    execute!("dsb ishst");
    tlbi!("vaae1is", operand(va(Granule::K4, 0)));
    execute!("dsb ish", "isb");
}
