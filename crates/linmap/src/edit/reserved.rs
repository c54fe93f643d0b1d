//! A platform with table pages of its own, for operations that may neither allocate nor fail for want of memory.

use crate::build::OutOfFrames;
use crate::edit::error::ChangeError;
use crate::edit::reserve::Reserve;
use crate::format::{Descriptor, Level, Pa};
use crate::platform::{Frame, Hardware, Memory, Platform, Reason, Slot, leave_to_hardware};

/// A platform whose table pages come from a reserve that was taken before.
///
/// An operation through it does not call [`take`](Memory::take) of the platform below, so it may run where nothing may
/// sleep or allocate. If the reserve has as many pages as
/// [`most_tables`](crate::SharedSpace::most_tables) or
/// [`most_tables_in_pages`](crate::SharedSpace::most_tables_in_pages) says,
/// the operation does not fail for want of memory. Pages that were not used go back to the platform when this value is dropped.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{SharedSpace, Attributes, Change, Geometry, Granule, Half, Memory, OaFormat, Pa, Policy, Reserved, Tree, Va};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
/// space.set_policy(Policy::Live);
/// let start = Va(g.base(Half::Upper));
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.map(&platform, start, 512, Pa(0), Attributes::RAM)? };
///
/// // Where sleeping is permitted:
/// let reserved = Reserved::take(&platform, space.most_tables())?;
/// // And where it is not. The block is split, by a page of the reserve.
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.protect(&reserved, start, 1, Change::READ_ONLY)? };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reserved<'p, P: Platform> {
    platform: &'p P,
    reserve: Reserve<'p, P>,
}

impl<'p, P: Platform> Reserved<'p, P> {
    /// Takes `pages` table pages of the platform.
    ///
    /// # Errors
    ///
    /// [`ChangeError::OutOfFrames`]: there are not that many. All that were taken have been given back.
    pub fn take(platform: &'p P, pages: u64) -> Result<Self, ChangeError> {
        let reserve = Reserve::new(platform);
        reserve.fill(pages).map_err(|OutOfFrames(taken)| ChangeError::OutOfFrames { taken })?;
        Ok(Self { platform, reserve })
    }

    /// Returns the number of pages that are left.
    pub const fn pages(&self) -> u64 {
        self.reserve.count()
    }
}

// SAFETY: pages are those of the platform's memory. Each is in the reserve or handed out.
unsafe impl<P: Platform> Memory for Reserved<'_, P> {
    const PLAIN: bool = P::PLAIN;

    fn page_size(&self) -> u64 {
        self.platform.page_size()
    }

    fn take(&self) -> Option<Frame> {
        Memory::take(&self.reserve)
    }

    fn give(&self, frame: Frame) {
        self.reserve.give(frame);
    }

    #[inline]
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.platform.slots(frame)
    }

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.platform.words(table) }
    }

    #[inline]
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.platform.load(slot) }
    }

    #[inline]
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.platform.store(slot, new) }
    }

    const STORES_ROOT: bool = P::STORES_ROOT;

    #[inline]
    unsafe fn store_root(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.platform.store_root(slot, new) }
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.platform.with_slots(frame, level, work)
    }
}

// SAFETY: every method is the platform's own, which keeps its promises.
unsafe impl<P: Platform> Hardware for Reserved<'_, P> {
    leave_to_hardware!(P, self => self.platform);

    fn reason(&self) -> Reason {
        self.platform.reason()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.platform.read(work)
    }

    /// Retired pages go back to the platform, since they are not free before readers have left.
    fn retire(&self, _: &impl Memory, frame: Frame) {
        self.platform.retire(self.platform, frame);
    }
}
