//! The promise of a CPU, from its ID registers.

use linmap::cpu::{BbmPromise, Midr};

/// Returns true if a CPU with this MIDR_EL1 and ID_AA64MMFR2_EL1 never aborts when a leaf in use changes its size. If all
/// CPUs that use a map are like that, they promise LINMAP_NEVER_ABORTS. Needs no map.
#[unsafe(no_mangle)]
pub extern "C" fn linmap_never_aborts(midr: u64, id_aa64mmfr2: u64) -> bool {
    BbmPromise::of(Midr(midr), id_aa64mmfr2).never_aborts()
}
