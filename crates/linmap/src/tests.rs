//! The geometries for the unit tests.

use crate::Geometry;
extern crate std;
use std::vec::Vec;

/// Returns every geometry, as this crate's own type.
pub(crate) fn geometries() -> Vec<Geometry> {
    test_support::all_geometries!(crate).collect()
}
