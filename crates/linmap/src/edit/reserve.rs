//! Table pages that were taken before any hold, so that an operation can neither run out of them half way nor allocate
//! in one. A caller that may neither allocate nor fail for want of memory takes them before the operation, as a platform of its own.

use core::cell::Cell;

use crate::build::OutOfFrames;
use crate::edit::error::ChangeError;
use crate::format::{Level, Pa};
use crate::platform::{
    Frame, Hardware, Memory, Platform, Sharing, leave_to_hardware, leave_to_memory, leave_to_sharing,
};

/// Frames, linked through their first entry: no allocation, no limit. That of the last says nothing.
#[derive(Debug)]
pub(crate) struct Reserve<'m, M: Memory> {
    memory: &'m M,
    /// The first of them, if there is one.
    head: Cell<Pa>,
    count: Cell<u64>,
}

impl<'m, M: Memory> Reserve<'m, M> {
    /// Returns an empty reserve.
    pub(crate) const fn new(memory: &'m M) -> Self {
        Self { memory, head: Cell::new(Pa(0)), count: Cell::new(0) }
    }

    /// Takes frames from the memory until there are at least so many.
    ///
    /// # Errors
    ///
    /// There are not that many. Those that it has stay in the reserve.
    pub(crate) fn fill(&self, least: u64) -> Result<(), OutOfFrames> {
        while self.count.get() < least {
            let Some(frame) = self.memory.take() else { return Err(OutOfFrames(self.count.get())) };
            self.give(frame);
        }
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn give_back(&self) {
        while let Some(frame) = Memory::take(self) {
            self.memory.give(frame);
        }
    }

    /// Returns the number of frames in it.
    #[inline]
    pub(crate) const fn count(&self) -> u64 {
        self.count.get()
    }
}

/// Gives back the frames that were not used.
impl<M: Memory> Drop for Reserve<'_, M> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.count.get() != 0 {
            self.give_back();
        }
    }
}

// SAFETY: pages and slots are those of the memory below. A page is either in the list or handed out.
unsafe impl<M: Memory> Memory for Reserve<'_, M> {
    leave_to_memory!(M, self => self.memory);

    fn take(&self) -> Option<Frame> {
        let left = self.count.get().checked_sub(1)?;
        // SAFETY: the list owns the frame, whose address is stored only here or in another frame of the list.
        let mut frame = unsafe { Frame::from_pa(self.head.get()) };
        if left != 0 {
            self.head.set(Pa(self.memory.with_slots(&mut frame, Level::PAGE, |slots| slots[0])));
        }
        self.count.set(left);
        Some(frame)
    }

    #[inline]
    fn give(&self, mut frame: Frame) {
        if self.count.get() != 0 {
            self.memory.with_slots(&mut frame, Level::PAGE, |slots| slots[0] = self.head.get().0);
        }
        self.head.set(frame.into_pa());
        self.count.set(self.count.get() + 1);
    }
}

/// A platform whose table pages come from a reserve that was taken before.
///
/// An operation through it does not call [`take`](Memory::take) of the platform below, so it may run where nothing may
/// sleep or allocate. If the reserve has as many pages as
/// [`most_tables`](crate::Tables::most_tables) or
/// [`most_tables_in_pages`](crate::Tables::most_tables_in_pages) says,
/// the operation does not fail for want of memory. A table that a [`Space`](crate::Space) no longer needs goes into the reserve. Pages
/// that were not used go back to the platform when this value is dropped.
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
/// unsafe { space.on(&platform).map(start, 512, Pa(0), Attributes::RAM)? };
///
/// // Where sleeping is permitted:
/// let reserved = Reserved::take(&platform, space.most_tables())?;
/// // And where it is not. The block is split, by a page of the reserve.
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.on(&reserved).protect(start, 1, Change::READ_ONLY)? };
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reserved<'p, P: Memory> {
    platform: &'p P,
    reserve: Reserve<'p, P>,
}

impl<'p, P: Memory> Reserved<'p, P> {
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
unsafe impl<P: Memory> Memory for Reserved<'_, P> {
    leave_to_memory!(P, self => self.platform);

    fn take(&self) -> Option<Frame> {
        Memory::take(&self.reserve)
    }

    fn give(&self, frame: Frame) {
        self.reserve.give(frame);
    }
}

// SAFETY: every method is the platform's own, which keeps its promises.
unsafe impl<P: Memory + Hardware> Hardware for Reserved<'_, P> {
    leave_to_hardware!(P, self => self.platform);
}

// SAFETY: every item is the platform's own, which keeps its promises.
unsafe impl<P: Platform> Sharing for Reserved<'_, P> {
    leave_to_sharing!(P, self => self.platform);

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.platform.read(work)
    }

    /// Retired pages go back to the platform, since they are not free before readers have left.
    fn retire(&self, _: &impl Memory, frame: Frame) {
        self.platform.retire(self.platform, frame);
    }
}
