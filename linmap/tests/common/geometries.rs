//! Every geometry that there is.

use linmap::{Geometry, Granule, OaFormat};

/// Each granule, format and VA size.
pub(crate) fn geometries() -> Vec<Geometry> {
    let mut all = Vec::new();
    for granule in Granule::ALL {
        for oa in [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2] {
            all.extend((36..=52).filter_map(|va_bits| Geometry::new(granule, va_bits, oa).ok()));
        }
    }
    assert_eq!(all.len(), 13 + 17 + 13 + 17 + 17 + 17, "4K, 4K LPA2, 16K, 16K LPA2, 64K, 64K LPA");
    all
}
