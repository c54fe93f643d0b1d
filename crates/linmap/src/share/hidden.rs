//! A part of the linear map that is hidden, and views of it: for as long as someone looks, it is valid.
//!
//! The kernel's image has addresses of its own, so nobody needs its alias, except those who copy memory or clean caches by
//! physical address: hibernation, DMA, a dump. The first of them makes the range valid, the last invalid again. One word
//! says how many there are. While one CPU changes the range, others wait, since they may not rely on it before.

use crate::edit::ChangeError;
use crate::format::Va;
use crate::plan::{ImageAlias, Layout};
use crate::platform::Platform;
use crate::platform::atomic::AtomicU64;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::share::shared_space::SharedSpace;

/// A range of the linear map that is present-invalid, except while someone looks at it.
///
/// ```
/// use linmap::host::HostMemory;
/// use linmap::{
///     SharedSpace, Geometry, Granule, Half, Hidden, ImageAlias, Layout, Leaves, OaFormat, Pa, Rodata, Tree,
/// };
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let memory = HostMemory::new(g, 16);
/// let platform = memory.platform();
/// let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
/// let mut ram = [Pa(0x4000_0000)..Pa(0x8000_0000)];
/// let (text, data) = (Pa(0x4021_0000)..Pa(0x4040_0000), Pa(0x4040_0000)..Pa(0x404f_0000));
/// let layout = Layout::of_ram(g, &mut ram)?
///     .with_image(text, Rodata::Full)?
///     .with_data(data, ImageAlias::Hidden)?;
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.on(&platform).create(&layout, Leaves::Largest)? };
///
/// // No leaf changes its size: the policy is `Fixed`.
/// let data = Hidden::new(&space, &layout).expect("it is to be hidden");
/// // SAFETY: as above.
/// unsafe { data.hide(&platform)? };
/// assert!(data.is_hidden());
/// // SAFETY: as above.
/// unsafe { data.shown(&platform, || assert!(!data.is_hidden()))? };
/// assert!(data.is_hidden());
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Hidden<'s, const LOCKS: usize = 64> {
    space: &'s SharedSpace<LOCKS>,
    va: Va,
    pages: u64,
    /// The number of views, [`VALID`](Self::VALID) and [`CHANGES`](Self::CHANGES).
    state: AtomicU64,
}

impl<'s, const LOCKS: usize> Hidden<'s, LOCKS> {
    /// The range is valid.
    const VALID: u64 = 1 << 63;
    /// Some CPU changes the range.
    const CHANGES: u64 = 1 << 62;

    /// Returns the kernel's data in a linear map that was laid out like this, if they are to be hidden. They are valid until
    /// they are [hidden](Self::hide) for the first time, or a first view ends.
    pub fn new(space: &'s SharedSpace<LOCKS>, layout: &Layout<'_>) -> Option<Self> {
        let (data, alias) = layout.data();
        let va = layout.va(data.start).filter(|_| alias == ImageAlias::Hidden)?;
        Some(Self::of(space, va, (data.end.0 - data.start.0) >> layout.geometry().page_shift()))
    }

    /// Returns `pages` pages from `va` on, for example the alias of the kernel's text. They are valid until they are
    /// [hidden](Self::hide) for the first time. If they are whole leaves, no leaf changes its size.
    pub const fn of(space: &'s SharedSpace<LOCKS>, va: Va, pages: u64) -> Self {
        Self { space, va, pages, state: AtomicU64::new(Self::VALID) }
    }

    /// Returns the first address of the range, and its pages.
    pub const fn range(&self) -> (Va, u64) {
        (self.va, self.pages)
    }

    /// Returns true if the range is invalid, and nobody is about to look.
    pub fn is_hidden(&self) -> bool {
        self.state.load(Relaxed) == 0
    }

    /// Hides the range, or leaves that to the last view if there is one.
    ///
    /// # Errors
    ///
    /// As for [`Live::set_valid`](crate::Live::set_valid); [`Busy`](ChangeError::Busy) also if another CPU is about to show or hide it and this
    /// context cannot wait. It is as before then.
    ///
    /// # Safety
    ///
    /// From now on nothing uses these addresses except within [`shown`](Self::shown), and nobody else changes their validity.
    /// `platform` is the platform of the tables.
    pub unsafe fn hide<P: Platform>(&self, platform: &P) -> Result<(), ChangeError> {
        match self.next(platform, |state| if state == Self::VALID { state | Self::CHANGES } else { state })? {
            // SAFETY: the caller's promise, as nobody looks.
            Self::VALID => unsafe { self.set(platform, false) },
            _ => Ok(()),
        }
    }

    /// Calls `look` while the range is valid. Several CPUs can look at once, also within `look`.
    ///
    /// The range becomes invalid when the last view ends. If it cannot, since another operation has claimed it and this
    /// context cannot wait, it stays valid until the next view ends or it is [hidden](Self::hide);
    /// [`is_hidden`](Self::is_hidden) says so.
    ///
    /// # Errors
    ///
    /// As for [`hide`](Self::hide). `look` has not been called then.
    ///
    /// # Safety
    ///
    /// `look` leaves no use of these addresses behind, and writes only what it may. `platform` is the platform of the tables.
    pub unsafe fn shown<P: Platform, R>(
        &self,
        platform: &P,
        look: impl FnOnce() -> R,
    ) -> Result<R, ChangeError> {
        let begins = |state| if state == 0 { Self::CHANGES } else { state + 1 };
        if self.next(platform, begins)? == 0 {
            // SAFETY: the caller's promise: valid again as it was before it was hidden.
            unsafe { self.set(platform, true)? };
        } else {
            // Another CPU may have made it valid (Arm ARM D8.17, IWZCBG).
            platform.isb();
        }
        let result = look();
        // While there is a view no CPU changes the range, so this does not wait.
        let one = Self::VALID + 1;
        let ends = |state| if state == one { Self::VALID | Self::CHANGES } else { state - 1 };
        if self.next(platform, ends) == Ok(one) {
            // SAFETY: nobody looks any more. An error leaves it valid.
            _ = unsafe { self.set(platform, false) };
        }
        Ok(result)
    }

    /// Moves to the state that follows from the one in which no CPU changes the range, and returns that.
    fn next<P: Platform>(&self, platform: &P, after: impl Fn(u64) -> u64) -> Result<u64, ChangeError> {
        let mut state = self.state.load(Relaxed);
        loop {
            if state & Self::CHANGES != 0 {
                if !platform.wait() {
                    return Err(ChangeError::Busy { va: self.va });
                }
                state = self.state.load(Relaxed);
                continue;
            }
            match self.state.compare_exchange(state, after(state), Acquire, Relaxed) {
                Ok(_) => return Ok(state),
                Err(other) => state = other,
            }
        }
    }

    /// Makes the range valid, for one view, or invalid, for none. This CPU alone may change it.
    ///
    /// # Safety
    ///
    /// As for [`Live::set_valid`](crate::Live::set_valid).
    unsafe fn set<P: Platform>(&self, platform: &P, valid: bool) -> Result<(), ChangeError> {
        // SAFETY: the caller's promise.
        let changed = unsafe { self.space.on(platform).set_valid(self.va, self.pages, valid) };
        let state = match (valid, changed.is_ok()) {
            (true, true) => Self::VALID + 1,
            (false, true) | (true, false) => 0,
            (false, false) => Self::VALID,
        };
        self.state.store(state, Release);
        changed
    }
}
