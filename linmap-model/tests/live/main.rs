//! Live changes on the model: every step keeps the rules of the architecture, every result is the one that
//! a flat list of ranges predicts, and every count is exact.

mod aliased;
mod areas;
mod exhaustion;
mod flat;
mod neighbours;
mod operation;
mod promises;
mod random;
mod restore;
mod sequences;
mod unmap_all;
mod world;

use linmap::{Geometry, Granule, OaFormat};

/// Each granule, format and VA size.
fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for granule in Granule::ALL {
        for oa in [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2] {
            all.extend((36..=52).filter_map(|va_bits| Geometry::new(granule, va_bits, oa).ok()));
        }
    }
    assert_eq!(all.len(), 94);
    all
}
