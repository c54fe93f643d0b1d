//! The sizes of leaves: the one of an entry, and its name.

use linmap::Geometry;
use linmap::arch::{LeafSize, Level};

use crate::size::human;

/// Returns the size of a leaf at a level, alone or in a contiguous run.
///
/// A run whose level has none in this geometry counts as single leaves; `None` for a level without leaves.
pub(crate) fn size(geometry: Geometry, level: Level, contiguous: bool) -> Option<LeafSize> {
    let sizes = geometry.leaf_sizes();
    let of =
        |contiguous| sizes.iter().find(|size| size.level == level && size.contiguous == contiguous).copied();
    of(contiguous).or_else(|| of(false))
}

/// Returns the name of a leaf: `2M`, or `32M contiguous (16 x 2M)`.
pub(crate) fn name(size: LeafSize) -> String {
    let entry = human(1 << size.entry_shift);
    if size.contiguous {
        format!("{} contiguous ({} x {entry})", human(size.bytes()), size.descriptors())
    } else {
        entry
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::{Granule, OaFormat};

    #[test]
    fn each_leaf_has_a_name() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let named = |level, contiguous| size(g, Level::new(level), contiguous).map(name);
        assert_eq!(named(2, false).as_deref(), Some("2M"));
        assert_eq!(named(2, true).as_deref(), Some("32M contiguous (16 x 2M)"));
        assert_eq!(named(3, true).as_deref(), Some("64K contiguous (16 x 4K)"));
        assert_eq!(named(0, false), None);
    }
}
