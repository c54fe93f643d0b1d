//! All geometries: tests try each of them, or, where that takes long, some.

use linmap::Geometry;

use crate::seed::drawn;

/// Lists every geometry of the crate that is named: each granule, address format and VA size.
///
/// For the unit tests of `linmap`, whose types are other ones than those of the library that they test with:
/// `all_geometries!(crate)`.
#[macro_export]
macro_rules! all_geometries {
    ($linmap:ident) => {{
        use $linmap::{Geometry, Granule, OaFormat};
        let formats = [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2];
        let all = Granule::ALL.into_iter().flat_map(move |granule| formats.map(|format| (granule, format)));
        all.flat_map(|(granule, format)| {
            (36..=52).filter_map(move |va_bits| Geometry::new(granule, va_bits, format).ok())
        })
    }};
}

/// Returns every geometry.
///
/// # Panics
///
/// There are others than those of the architecture.
pub fn geometries() -> Vec<Geometry> {
    let all: Vec<_> = all_geometries!(linmap).collect();
    assert_eq!(all.len(), 13 + 17 + 13 + 17 + 17 + 17, "4K, 4K LPA2, 16K, 16K LPA2, 64K, 64K LPA");
    all
}

/// Returns one geometry in `n`, beginning with one that the seed draws: some of each granule and format.
///
/// # Panics
///
/// `n` is 0.
pub fn some_geometries(n: usize) -> Vec<Geometry> {
    geometries().into_iter().skip(drawn(n)).step_by(n).collect()
}
