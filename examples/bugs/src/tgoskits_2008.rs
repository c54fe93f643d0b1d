//! tgoskits [#2008](https://github.com/rcore-os/tgoskits/pull/2008): no DSB comes between the store to the table and the TLBI. A walker may
//! fetch the old entry after the TLBI, and keep it.

use crate::machine::{Granule, SPARE, TABLE, execute, map, operand, store, tlbi, va};

/// The judge says: breach `Stale`, "no barrier had ordered the store before it".
pub(crate) fn wrong() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), 0);
    tlbi!("vaae1is", operand(va(Granule::K4, 0)));
    execute!("dsb sy", "isb");
}

pub(crate) fn right() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), 0);
    execute!("dsb ishst");
    tlbi!("vaae1is", operand(va(Granule::K4, 0)));
    execute!("dsb sy", "isb");
}
