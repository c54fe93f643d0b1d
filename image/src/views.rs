//! A part of the linear map that is hidden, and views of it: for as long as someone looks, it is valid.
//!
//! The kernel's image has addresses of its own, so nobody needs its alias, except those who copy memory or clean caches by
//! physical address: hibernation, DMA, a dump. The first of them makes the range valid, the last invalid again. One word
//! says how many there are. While one CPU changes the range, others wait, since they may not rely on it before.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use linmap::error::ChangeError;
use linmap::layout::ImageAlias;
use linmap::{Layout, Platform, SharedSpace, Va};

/// A range of the linear map that is present-invalid, except while someone looks at it.
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
    /// As for [`Live::set_valid`](linmap::Live::set_valid); [`Busy`](ChangeError::Busy) also if another CPU is about to show or hide it and this
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
    /// As for [`Live::set_valid`](linmap::Live::set_valid).
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::{iter, thread};

    use linmap::arch::Entry;
    use linmap::host::{HostMemory, SharedMemory, Threads};
    use linmap::{Geometry, Granule, Half, Leaves, OaFormat, Pa, Rodata, Tree};

    use super::*;

    const RAM: u64 = 1 << 30;

    /// Data that are to be hidden, behind text and constants.
    fn laid_out(work: impl FnOnce(&Layout<'_>)) {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let at = |page: u64| Pa(RAM + (page << 12));
        let mut ram = [at(0)..at(16384)];
        let layout = Layout::of_ram(g, &mut ram)
            .and_then(|layout| layout.with_image(at(33)..at(70), Rodata::Full))
            .and_then(|layout| layout.with_data(at(70)..at(130), ImageAlias::Hidden));
        work(&layout.expect("it is in RAM"));
    }

    fn created<P: Platform>(platform: &P, layout: &Layout<'_>) -> SharedSpace {
        let tree = Tree::build(platform, layout.geometry(), Half::Upper, iter::empty()).expect("a page");
        let space = SharedSpace::adopt(tree);
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(platform).create(layout, Leaves::Largest) }.expect("frames enough");
        space
    }

    /// Returns true if the page at an address is valid.
    fn is_valid<P: Platform>(space: &SharedSpace, platform: &P, va: Va) -> bool {
        match space.on(platform).read(|reader| reader.entry(va)) {
            Some((_, _, Entry::Leaf(leaf))) => leaf.valid,
            other => panic!("{other:?} at {va}"),
        }
    }

    #[test]
    fn views_within_views_end_with_the_last() {
        laid_out(|layout| {
            let memory = HostMemory::new(layout.geometry(), 16);
            let platform = memory.platform();
            let space = created(&platform, layout);
            let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
            let (va, _) = hidden.range();
            let valid = || is_valid(&space, &platform, va);
            assert!(valid() && !hidden.is_hidden());
            // SAFETY: no CPU uses these tables.
            unsafe {
                hidden.hide(&platform).expect("whole leaves");
                assert!(!valid() && hidden.is_hidden());
                let within = hidden.shown(&platform, || {
                    let inner = hidden.shown(&platform, valid);
                    // A view is under way, so it stays.
                    hidden.hide(&platform).expect("left to the view");
                    (inner, valid())
                });
                assert_eq!(within, Ok((Ok(true), true)));
            }
            assert!(!valid() && hidden.is_hidden());
        });
    }

    #[test]
    fn a_change_that_fails_leaves_it_as_it_was() {
        laid_out(|layout| {
            let memory = HostMemory::new(layout.geometry(), 16);
            let platform = memory.platform();
            let space = created(&platform, layout);
            let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
            let (va, pages) = hidden.range();
            // SAFETY: no CPU uses these tables.
            unsafe {
                hidden.hide(&platform).expect("whole leaves");
                space.on(&platform).unmap(va, pages).expect("whole leaves");
                let hole = ChangeError::Hole { va };
                assert_eq!(hidden.shown(&platform, || unreachable!("nothing is there")), Err::<(), _>(hole));
                assert!(hidden.is_hidden());
                // A page of a run, which may not be split.
                let part = Hidden::of(&space, Va(va.0 - (20 << 12)), 1);
                assert!(matches!(part.hide(&platform), Err(ChangeError::NeedsResize { .. })));
                assert!(!part.is_hidden());
            }
        });
    }

    /// Threads look at once: each that looks finds the range valid, and nobody finds it so when all have gone.
    #[test]
    fn many_look_at_once() {
        laid_out(|layout| {
            let (memory, threads) = (SharedMemory::new(layout.geometry(), 16), Threads::<64, 64>::new());
            // SAFETY: the locks of these threads are these.
            let platform = unsafe { memory.platform(&threads) };
            let space = created(&platform, layout);
            let hidden = Hidden::new(&space, layout).expect("it is to be hidden");
            let (va, pages) = hidden.range();
            // SAFETY: no CPU uses these tables.
            unsafe { hidden.hide(&platform) }.expect("whole leaves");
            let (looked, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
            let valid = || (0..pages).step_by(7).all(|n| is_valid(&space, &platform, Va(va.0 + (n << 12))));
            thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        for _ in 0..300 {
                            // SAFETY: as above.
                            match unsafe { hidden.shown(&platform, valid) } {
                                Ok(valid) => {
                                    looked.fetch_add(1, SeqCst);
                                    wrong.fetch_add(u64::from(!valid), SeqCst);
                                }
                                Err(ChangeError::Busy { .. }) => thread::yield_now(),
                                Err(other) => panic!("{other}"),
                            }
                        }
                    });
                }
            });
            assert!(looked.into_inner() != 0);
            assert_eq!(wrong.into_inner(), 0);
            assert!(hidden.is_hidden() && !is_valid(&space, &platform, va));
        });
    }
}
