//! What the unit tests share.

use crate::{Geometry, Granule, OaFormat};
extern crate std;
use std::vec::Vec;

/// Every geometry that there is: each granule, format and VA size.
pub(crate) fn geometries() -> Vec<Geometry> {
    let formats = [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2];
    let all = Granule::ALL.into_iter().flat_map(|g| formats.map(|f| (g, f)));
    all.flat_map(|(g, f)| (36..=52).filter_map(move |bits| Geometry::new(g, bits, f).ok())).collect()
}
