//! Memory for an address space that costs nothing to prepare: all of it is zero, as a program's bss is.

use crate::build::Tree;
use crate::share::map_state::MapState;
use crate::share::shared_space::SharedSpace;

/// The place of an address space, in a static: it is all zero, so an image has no bytes of it, and an address space that begins
/// there is neither filled nor copied. A [`SharedSpace`] with the state of 64 locks is larger than some stacks; `BlankSpace<1>`
/// takes a kilobyte.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{BlankSpace, Geometry, Granule, Half, OaFormat, Tree};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 1);
/// let mut place = BlankSpace::<64>::new();
/// let space = place.adopt(Tree::empty(&memory, g, Half::Upper)?);
/// assert_eq!(space.geometry(), g);
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct BlankSpace<const LOCKS: usize = 64> {
    space: SharedSpace<LOCKS>,
    used: bool,
}

impl<const LOCKS: usize> BlankSpace<LOCKS> {
    /// Returns a place without an address space.
    #[allow(clippy::new_without_default, reason = "it is for statics, and too large to be passed around")]
    pub const fn new() -> Self {
        Self { space: SharedSpace::of(MapState::BLANK), used: false }
    }

    /// Makes a tree live as [`SharedSpace::adopt`] does, in this place. What was there before is forgotten, and its tables leak.
    pub fn adopt(&mut self, tree: Tree) -> &mut SharedSpace<LOCKS> {
        if core::mem::replace(&mut self.used, true) {
            *self.space.state_mut() = MapState::BLANK;
        }
        let (geometry, half, stats) = (tree.geometry(), tree.half(), tree.stats());
        self.space.state_mut().begin((tree.into_root().into_pa(), geometry, half), &stats);
        &mut self.space
    }
}
