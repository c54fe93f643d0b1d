//! Zephyr [#98344](https://github.com/zephyrproject-rtos/zephyr/issues/98344): several CPUs run, and a page is unmapped with a TLBI for the own
//! CPU alone. The other one goes on using the page, which may be that of another program then.

use crate::machine::{Granule, SPARE, TABLE, execute, map, store};

/// The judge says: suspect `Stale`, "it is for its own CPU alone".
pub(crate) fn wrong() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), 0);
    execute!("dsb ishst");
    execute!("tlbi vmalle1");
    execute!("dsb ish", "isb");
}

pub(crate) fn right() {
    map!(Granule::K4, 0, &SPARE[1]);
    store!(TABLE.word(0), 0);
    execute!("dsb ishst");
    execute!("tlbi vmalle1is");
    execute!("dsb ish", "isb");
}
