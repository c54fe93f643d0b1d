//! How an address space begins: in memory that costs nothing to prepare, or over live tables that other software made. And how it ends: its
//! tables are handed back when no walker reaches them.

use core::mem::MaybeUninit;

use crate::build::{BuildError, Tree};
use crate::edit::AdoptError;
use crate::format::{Geometry, Half, Pa, Span, Va};
use crate::plan::Stats;
use crate::platform::Memory;
use crate::read::{Live, count_live};
use crate::share::map_state::MapState;
use crate::share::shared_space::SharedSpace;

impl SharedSpace {
    /// Takes over tables that walkers already use, for example those of a boot loader or of a kernel's older code.
    /// Reads all of them once to count their contents, and changes nothing.
    ///
    /// The policy is [`Policy::Fixed`](crate::Policy::Fixed) until [`set_policy`](crate::Tables::set_policy) changes it. Memory
    /// that is both writable and executable stays so until it changes; [`check`](crate::Reader::check) finds it. Restrictions in
    /// table descriptors stay as they are; [`set_table_attributes`](crate::Tables::set_table_attributes) is for new tables.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// - `root` is the root table that the walkers of this half use, or will use, with this geometry.
    /// - The root and all tables below it are pages of `memory`, each used in one place, and no [`Frame`](crate::Frame)
    ///   exists for any of them. From now on they belong to this value, which gives unused tables back to that memory.
    /// - Contiguous runs are whole: all members have the contiguous bit and are consistent, as [`check`](crate::Reader::check)
    ///   tests.
    /// - From now on only the walkers and this value read or write the tables, and earlier stores to them are visible
    ///   to all walkers.
    pub unsafe fn from_live<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
    ) -> Result<Self, BuildError> {
        // SAFETY: the caller's promise.
        let stats = unsafe { counted(memory, (root, geometry, half)) }?;
        Ok(Self::of(MapState::over(root, geometry, half, &stats)))
    }

    /// Takes over a part of a root that is in use and that others use too, such as the kernel's first root: the mappings
    /// from the first address of `range` to the last, for example [`linear_range`](crate::layout::linear_range). Reads the tables of
    /// that range once to count their contents, and changes nothing.
    ///
    /// The root stays where it is for ever, also when the map is [repainted](crate::Live::repaint). The rest of the root is left
    /// to others: it can be read, and whole leaves there change their permissions and their validity, as the area of
    /// [`Aliased`](crate::Aliased) does; everything else is refused with
    /// [`NotOwned`](crate::error::ChangeError::NotOwned). [`stats`](crate::Live::stats) are those of the range and of the root. The policy
    /// is [`Policy::Fixed`](crate::Policy::Fixed) until [`set_policy`](crate::Tables::set_policy) changes it.
    ///
    /// Where the root is not writable by its usual address, the memory stores its entries in its own way
    /// ([`Access::PlainButRoot`](crate::Access::PlainButRoot)).
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size; a range that is not in the half, or has a part of an entry
    /// of the root, or of a contiguous run of them.
    ///
    /// # Safety
    ///
    /// As for [`from_live`](Self::from_live), for the root and the tables of the range. The tables of the rest are pages that
    /// `memory` reaches, and their owners
    ///
    /// - store to no entry of the root in the range, and give no table back while it is read through this value;
    /// - leave alone the descriptors of pages that this value is asked to change.
    pub unsafe fn from_shared_root<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
        range: (Va, Va),
    ) -> Result<Self, AdoptError> {
        // SAFETY: the caller's promise.
        let (owned, stats) = unsafe { shared(memory, (root, geometry, half), range) }?;
        let mut state = MapState::over(root, geometry, half, &stats);
        state.tables.share_root(owned);
        Ok(Self::of(state))
    }
}

impl<const LOCKS: usize> SharedSpace<LOCKS> {
    /// Takes over tables as [`from_live`](SharedSpace::from_live) does, where the value will stay.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// As for [`from_live`](SharedSpace::from_live).
    pub unsafe fn from_live_in<'s, M: Memory>(
        place: &'s mut MaybeUninit<Self>,
        memory: &M,
        (geometry, half): (Geometry, Half),
        root: Pa,
    ) -> Result<&'s mut Self, BuildError> {
        // SAFETY: the caller's promise.
        let stats = unsafe { counted(memory, (root, geometry, half)) }?;
        Ok(Self::over_in(place, (root, geometry, half), &stats))
    }

    /// Takes over a part of a root as [`from_shared_root`](SharedSpace::from_shared_root) does, where the value will stay: with many locks
    /// it is larger than the stacks of some kernels.
    ///
    /// # Errors
    ///
    /// As there.
    ///
    /// # Safety
    ///
    /// As there.
    pub unsafe fn from_shared_root_in<'s, M: Memory>(
        place: &'s mut MaybeUninit<Self>,
        memory: &M,
        (geometry, half): (Geometry, Half),
        root: Pa,
        range: (Va, Va),
    ) -> Result<&'s mut Self, AdoptError> {
        // SAFETY: the caller's promise.
        let (owned, stats) = unsafe { shared(memory, (root, geometry, half), range) }?;
        let space = Self::over_in(place, (root, geometry, half), &stats);
        space.state_mut().tables.share_root(owned);
        Ok(space)
    }

    /// Hands the tables back as a tree, which can be [discarded](Tree::discard) or published elsewhere. Reads all of
    /// them once.
    ///
    /// # Safety
    ///
    /// - `memory` is the memory of the tables, and the root is [not shared](Self::from_shared_root).
    /// - No walker can reach any of them, and no TLB holds an entry of them: the TTBR changed on each CPU, ISB, TLBI, DSB.
    pub unsafe fn into_tree<M: Memory>(self, memory: &M) -> Tree {
        // SAFETY: the caller's promise. This value owned the tables, and is gone.
        unsafe { Tree::of_live(memory, (self.root(), self.geometry(), self.tables().half())) }
    }
}

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

/// Returns the counts of tables that are to be taken over.
///
/// # Errors
///
/// A memory whose pages are not of the geometry's size.
///
/// # Safety
///
/// These are live tables of this memory.
unsafe fn counted<M: Memory>(
    memory: &M,
    (root, geometry, half): (Pa, Geometry, Half),
) -> Result<Stats, BuildError> {
    Tree::fits(memory, geometry)?;
    // SAFETY: the caller's promise.
    let tables = unsafe { Live::new(memory) };
    Ok(count_live(&tables, geometry, root, whole(geometry, half)))
}

/// Returns a part of a root that is to be taken over, and what is there.
///
/// # Safety
///
/// As for [`SharedSpace::from_shared_root`].
unsafe fn shared<M: Memory>(
    memory: &M,
    (root, geometry, half): (Pa, Geometry, Half),
    range: (Va, Va),
) -> Result<(Span, Stats), AdoptError> {
    Tree::fits(memory, geometry)?;
    let owned = whole_entries(geometry, half, range)?;
    // SAFETY: these are live tables of this memory, by the caller's promise.
    let tables = unsafe { Live::new(memory) };
    Ok((owned, count_live(&tables, geometry, root, range)))
}

/// Returns a range whose ends are those of entries of the root, or of contiguous runs of them.
pub(crate) fn whole_entries(g: Geometry, half: Half, (first, last): (Va, Va)) -> Result<Span, AdoptError> {
    let (from, to) = (first.0.wrapping_sub(g.base(half)), last.0.wrapping_sub(g.base(half)));
    if from > to || to >> g.va_bits() != 0 {
        return Err(AdoptError::OutsideHalf { first, last });
    }
    let below = ((g.contiguous_entries(g.root()) as u64) << g.level_shift(g.root())) - 1;
    match () {
        () if from & below != 0 => Err(AdoptError::PartOfEntry { va: first }),
        () if to & below != below => Err(AdoptError::PartOfEntry { va: last }),
        () => Ok(Span { first: first.0, last: last.0 }),
    }
}

/// Returns the first and the last address of a half.
const fn whole(geometry: Geometry, half: Half) -> (Va, Va) {
    let base = geometry.base(half);
    (Va(base), Va(base + ((1 << geometry.va_bits()) - 1)))
}
