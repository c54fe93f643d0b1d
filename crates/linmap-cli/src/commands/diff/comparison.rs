//! The comparison of two maps.

use linmap::{Geometry, Va};

use crate::map::sweep::Difference;
use crate::map::view::View;

/// The comparison of two maps.
pub(super) struct Diff<'v> {
    pub(super) views: [&'v View<'v>; 2],
    /// The first and last compared address.
    pub(super) range: (Va, Va),
    /// True if output addresses were compared.
    pub(super) addresses: bool,
    pub(super) differences: Vec<Difference>,
}

impl Diff<'_> {
    pub(super) fn geometries(&self) -> [Geometry; 2] {
        self.views.map(|view| view.geometry)
    }

    pub(super) fn is_same(&self) -> bool {
        let [a, b] = self.geometries();
        a == b && self.differences.is_empty()
    }
}
