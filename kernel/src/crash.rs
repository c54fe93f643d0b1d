//! The crash kernel's reservation in the linear map: sealed, opened, loaded, shrunk.
//!
//! It is mapped in pages from the start, and set apart from what is beside it, so that it stays so. So a seal takes no
//! memory and changes the size of no leaf: it can be done where nothing can wait.

use core::cell::UnsafeCell;
use core::fmt;
use core::ops::Range;

use kernel::crashkernel::{Refusal, Reserved, Seal, Step, apart};
use linmap::{Change, Pa, Va};

use crate::System;
use crate::lock::Lock;
use crate::memory::warn_of_lost;
use crate::parking;

/// The reservation of a system, used by one CPU at a time.
pub(crate) struct Crash {
    lock: Lock,
    reserved: UnsafeCell<Option<Reserved>>,
}

// SAFETY: the reservation is used by whoever has the lock.
unsafe impl Sync for Crash {}

/// Why something is not done. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    /// There is no reservation.
    None,
    Refused(Refusal),
    Map(linmap::Error),
    /// The frame source has no room for one more range.
    Frames,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("nothing is reserved for a crash kernel; boot with crashkernel=SIZE"),
            Self::Refused(e) => e.fmt(f),
            Self::Map(e) => e.fmt(f),
            Self::Frames => f.write_str("too many separate ranges of memory are free to take one more"),
        }
    }
}

impl From<Refusal> for Error {
    fn from(e: Refusal) -> Self {
        Self::Refused(e)
    }
}

impl From<linmap::Error> for Error {
    fn from(e: linmap::Error) -> Self {
        Self::Map(e)
    }
}

impl Crash {
    /// That of a plan, if it has one.
    pub(crate) fn new(range: Option<&Range<Pa>>, page: u64) -> Self {
        let reserved = range.map(|range| Reserved::new(range.clone(), page));
        Self { lock: Lock::new(), reserved: UnsafeCell::new(reserved) }
    }

    fn with<R>(&self, work: impl FnOnce(&mut Reserved) -> Result<R, Error>) -> Result<R, Error> {
        let _held = self.lock.lock();
        // SAFETY: the lock is held, and `work` does not come here again.
        let reserved = unsafe { &mut *self.reserved.get() };
        reserved.as_mut().map_or(Err(Error::None), work)
    }

    /// The reservation as it is now.
    pub(crate) fn reserved(&self) -> Option<Reserved> {
        self.with(|reserved| Ok(reserved.clone())).ok()
    }

    /// Sets its pages apart. Once, before anything collapses.
    pub(crate) fn set_apart(&self, system: &System<'_>) -> Result<(), Error> {
        self.with(|reserved| Ok(protect(system, reserved.range(), apart(true))?))
    }

    /// Seals it, or opens it again.
    pub(crate) fn seal(&self, system: &System<'_>, seal: Seal) -> Result<(), Error> {
        self.with(|reserved| {
            change(system, reserved.range(), reserved.seal(), seal)?;
            reserved.sealed(seal);
            Ok(())
        })
    }

    /// An image is loaded, or is not any more.
    pub(crate) fn load(&self, load: bool) -> Result<(), Error> {
        self.with(|reserved| Ok(reserved.load(load)?))
    }

    /// Gives what is beyond a new size to the frame source, and lets its pages become larger leaves. What went.
    pub(crate) fn shrink(&self, system: &System<'_>, size: u64) -> Result<Range<Pa>, Error> {
        self.with(|reserved| {
            let (tail, seal) = (reserved.tail(size)?, reserved.seal());
            change(system, &tail, seal, Seal::Open)?;
            protect(system, &tail, apart(false))?;
            // SAFETY: reserved memory that is nobody's from here on, and is mapped as all RAM is again.
            let lost = unsafe { system.frames.add(&tail) };
            if lost.as_ref() == Some(&tail) {
                protect(system, &tail, apart(true))?;
                change(system, &tail, Seal::Open, seal)?;
                return Err(Error::Frames);
            }
            warn_of_lost(lost);
            reserved.shrunk(&tail);
            if let Some((va, pages)) = pages(system, &tail) {
                // What does not collapse stays in pages, which is as good.
                _ = parking::again(|| system.space.collapse(&system.platform(), va, pages));
            }
            Ok(tail)
        })
    }
}

/// The addresses of some memory in the linear map, and how many pages it has; nothing if it has none.
fn pages(system: &System<'_>, range: &Range<Pa>) -> Option<(Va, u64)> {
    let pages = (range.end.0 - range.start.0) >> system.geometry.page_shift();
    Some((system.memory.layout.va(range.start).filter(|_| pages != 0)?, pages))
}

/// Makes one seal of some memory another.
fn change(system: &System<'_>, range: &Range<Pa>, from: Seal, to: Seal) -> Result<(), linmap::Error> {
    from.steps(to).try_for_each(|step| match step {
        Step::Protect(change) => protect(system, range, change),
        Step::SetValid(valid) => {
            let Some((va, pages)) = pages(system, range) else { return Ok(()) };
            // SAFETY: as in `protect`.
            parking::again(|| unsafe { system.space.set_valid(&system.platform(), va, pages, valid) })
        }
    })
}

fn protect(system: &System<'_>, range: &Range<Pa>, change: Change) -> Result<(), linmap::Error> {
    let Some((va, pages)) = pages(system, range) else { return Ok(()) };
    // SAFETY: the memory is set aside for an image that uses it when this kernel does not run any more.
    parking::again(|| unsafe { system.space.protect(&system.platform(), va, pages, change) })
}
