//! OSv [#1117](https://github.com/cloudius-systems/osv/issues/1117): a page is mapped, and used with no barrier between. The walker may not see
//! the new entry yet: the access faults, now and then.

use crate::machine::{Granule, SPARE, TABLE, execute, leaf, store, va};

/// The judge says: breach `NotVisible`.
pub(crate) fn wrong() {
    store!(TABLE.word(0), leaf(&SPARE[1]));
    store!(va(Granule::K4, 0) as *mut u64, 1);
    execute!("dsb ishst", "isb");
}

pub(crate) fn right() {
    store!(TABLE.word(0), leaf(&SPARE[1]));
    execute!("dsb ishst", "isb");
    store!(va(Granule::K4, 0) as *mut u64, 1);
}
