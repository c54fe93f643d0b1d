//! The crash kernel's reservation in the linear map: sealed, opened, loaded, shrunk.
//!
//! It is mapped in pages from the start, as a carve-out of the layout, so it stays in pages. So a seal takes no memory and
//! changes the size of no leaf, and can be done where nothing can wait.

use core::fmt;
use core::ops::Range;

use kernel::crashkernel::{Refusal, Reserved, Seal, Step};
use linmap::error::ChangeError;
use linmap::{Change, Pa, Reason, Va};

use crate::memory::warn_of_lost;
use crate::parking;
use crate::system::System;

/// The reason why something is not done. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Error {
    /// There is no reservation.
    None,
    Refused(Refusal),
    Map(ChangeError),
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

impl From<ChangeError> for Error {
    fn from(e: ChangeError) -> Self {
        Self::Map(e)
    }
}

/// Works on the reservation, while no other CPU does.
fn with<R>(system: &System<'_>, work: impl FnOnce(&mut Reserved) -> Result<R, Error>) -> Result<R, Error> {
    system.crash.with(|reserved| reserved.as_mut().map_or(Err(Error::None), work))
}

/// Returns the reservation as it is now, if there is one.
pub(crate) fn reserved(system: &System<'_>) -> Option<Reserved> {
    with(system, |reserved| Ok(reserved.clone())).ok()
}

/// Seals it, or opens it again.
pub(crate) fn seal(system: &System<'_>, seal: Seal) -> Result<(), Error> {
    with(system, |reserved| {
        change(system, reserved.range(), reserved.seal(), seal)?;
        reserved.sealed(seal);
        Ok(())
    })
}

/// Loads an image, or unloads it.
pub(crate) fn load(system: &System<'_>, load: bool) -> Result<(), Error> {
    with(system, |reserved| Ok(reserved.load(load)?))
}

/// Gives the memory beyond a new size to the frame source, and lets its pages become larger leaves. Returns that
/// memory.
pub(crate) fn shrink(system: &System<'_>, size: u64) -> Result<Range<Pa>, Error> {
    with(system, |reserved| {
        let (tail, seal) = (reserved.tail(size)?, reserved.seal());
        change(system, &tail, seal, Seal::Open)?;
        pin(system, &tail, false)?;
        // SAFETY: reserved memory that nothing uses from here on, and that is mapped as all RAM is again.
        let lost = unsafe { system.frames.add(&tail) };
        if lost.as_ref() == Some(&tail) {
            pin(system, &tail, true)?;
            change(system, &tail, Seal::Open, seal)?;
            return Err(Error::Frames);
        }
        warn_of_lost(lost);
        reserved.shrunk(&tail);
        if let Some((va, pages)) = pages(system, &tail) {
            // Pages that do not collapse are as good.
            _ = parking::again(|| system.space.on(&system.platform()).collapse(va, pages));
        }
        Ok(tail)
    })
}

/// Returns the address of some memory in the linear map, and its pages; none if it has none.
fn pages(system: &System<'_>, range: &Range<Pa>) -> Option<(Va, u64)> {
    let pages = (range.end.0 - range.start.0) >> system.geometry.page_shift();
    Some((system.memory.layout.va(range.start).filter(|_| pages != 0)?, pages))
}

/// Changes the seal of some memory.
fn change(system: &System<'_>, range: &Range<Pa>, from: Seal, to: Seal) -> Result<(), ChangeError> {
    from.steps(to).try_for_each(|step| match step {
        Step::Protect(change) => protect(system, range, change),
        Step::SetValid(valid) => {
            let Some((va, pages)) = pages(system, range) else { return Ok(()) };
            // SAFETY: as in `protect`.
            parking::again(|| unsafe { system.space.on(&system.platform()).set_valid(va, pages, valid) })
        }
    })
}

/// Lets pages stay pages, or merge with others.
fn pin(system: &System<'_>, range: &Range<Pa>, stay: bool) -> Result<(), ChangeError> {
    let Some((va, pages)) = pages(system, range) else { return Ok(()) };
    let (space, platform) = (system.space, system.platform());
    parking::again(|| {
        if stay { space.on(&platform).pin(va, pages) } else { space.on(&platform).unpin(va, pages) }
    })
}

fn protect(system: &System<'_>, range: &Range<Pa>, change: Change) -> Result<(), ChangeError> {
    let Some((va, pages)) = pages(system, range) else { return Ok(()) };
    let platform = system.platform();
    let live = || system.space.on(&platform).because(Reason::CRASH);
    // SAFETY: the memory is reserved for an image that uses it when this kernel does not run any more.
    parking::again(|| unsafe { live().protect(va, pages, change) })
}
