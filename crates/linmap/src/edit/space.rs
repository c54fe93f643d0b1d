//! An address space of one caller at a time: exclusive by its borrow.

use core::ops::Deref;

use crate::build::{BuildError, Tree};
use crate::edit::call::Caller;
use crate::edit::guard::Alone;
use crate::edit::operations::Live;
use crate::edit::reader::Reader;
use crate::edit::tables::Tables;
use crate::format::{Geometry, Half, Pa};
use crate::platform::{Hardware, Memory};

/// The live tables of one half of an address space that has one caller at a time.
///
/// [`on`](Self::on) leads to the [operations](Live), which are those of [`SharedSpace`](crate::SharedSpace), and do the same to the tables.
/// Nothing is locked, claimed or counted: the borrow keeps others away, as a lock of the kernel's own does. All that it is besides its
/// tables is 64 bytes. What is known of them, and the policy, are methods of [`Tables`], to which it leads. A table that is removed
/// goes back to the memory at once, since there are no other readers. The platform is not asked for [`Sharing`](crate::Sharing).
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{Attributes, Change, Geometry, Granule, Half, OaFormat, Pa, Policy, Space, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let mut space = Space::adopt(Tree::empty(&memory, g, Half::Lower)?);
/// space.set_policy(Policy::Live);
/// // SAFETY: no CPU uses these tables.
/// unsafe {
///     space.on(&platform).map(Va(0x20_0000), 512, Pa(0x4000_0000), Attributes::RAM)?;
///     space.on(&platform).protect(Va(0x20_3000), 1, Change::READ_ONLY)?;
/// }
/// assert_eq!(space.reader(&memory).translate(Va(0x20_3008)), Some(Pa(0x4000_3008)));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Space {
    tables: Tables,
}

const _: () = assert!(size_of::<Space>() <= 64);

impl Space {
    /// Makes a tree live: from now on it belongs to the walkers. The caller then executes a DSB ISHST and loads
    /// [`root`](Tables::root) into the TTBR of the tree's half. The policy is [`Policy::Fixed`](crate::Policy::Fixed).
    pub fn adopt(tree: Tree) -> Self {
        let (geometry, half) = (tree.geometry(), tree.half());
        Self::over((tree.into_root().into_pa(), geometry, half))
    }

    /// Takes over tables that walkers already use. Reads and changes nothing. The policy is [`Policy::Fixed`](crate::Policy::Fixed).
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::from_live`](crate::SharedSpace::from_live).
    pub unsafe fn from_live<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
    ) -> Result<Self, BuildError> {
        Tree::fits(memory, geometry)?;
        Ok(Self::over((root, geometry, half)))
    }

    fn over(root: (Pa, Geometry, Half)) -> Self {
        let mut tables = Tables::BLANK;
        tables.begin(root);
        Self { tables }
    }

    /// Hands the tables back as a tree, which can be [discarded](Tree::discard) or published elsewhere. Reads all of
    /// them once.
    ///
    /// # Safety
    ///
    /// As for [`SharedSpace::into_tree`](crate::SharedSpace::into_tree).
    pub unsafe fn into_tree<M: Memory>(self, memory: &M) -> Tree {
        // SAFETY: the caller's promise. This value owned the tables, and is gone.
        unsafe { Tree::of_live(memory, (self.root(), self.geometry(), self.half())) }
    }

    /// Returns the operations on these tables, by this platform.
    #[inline]
    pub const fn on<'a, P: Memory + Hardware>(&'a mut self, platform: &'a P) -> Live<'a, Alone<'a, P>> {
        Live { caller: Caller { platform, owner: &self.tables } }
    }

    /// Returns a reader of the map: it walks, translates, counts, prints and checks. `memory` is the memory of the tables.
    pub const fn reader<'a, M: Memory>(&'a self, memory: &'a M) -> Reader<'a, M> {
        Reader::new(&self.tables, None, memory)
    }
}

impl Deref for Space {
    type Target = Tables;

    fn deref(&self) -> &Tables {
        &self.tables
    }
}
