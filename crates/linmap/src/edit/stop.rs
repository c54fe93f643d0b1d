//! The reasons why an attempt did nothing: it is refused, or it needs something that is not provided in a hold.

use core::convert::Infallible;

use crate::build::OutOfFrames;
use crate::edit::cover::Cover;
use crate::edit::error::ChangeError;
use crate::platform::CannotPark;

/// The reason why an attempt did nothing.
pub(crate) enum Stop {
    /// The operation is refused.
    Refused(ChangeError),
    /// It needs this.
    Needs(Needs),
    /// It would read or write too many entries in one hold.
    TooLong,
}

/// The needs of an attempt.
pub(crate) enum Needs {
    /// At least so many table pages.
    Frames(u64),
    /// At least so many table pages, and it is not known how many more.
    MoreFrames {
        /// The number without which another attempt is in vain.
        least: u64,
        /// The number to take if there are that many.
        wish: u64,
    },
    /// A hold with this cover, too.
    Cover(Cover),
    /// CPUs that have answered just now, since they are to be parked.
    Answers,
    /// Another caller has claimed the addresses.
    Patience,
}

impl From<ChangeError> for Stop {
    fn from(error: ChangeError) -> Self {
        Self::Refused(error)
    }
}

impl From<Needs> for Stop {
    fn from(needs: Needs) -> Self {
        Self::Needs(needs)
    }
}

impl From<Infallible> for Stop {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

/// A reserve that was too small by at least one page.
impl From<OutOfFrames> for Stop {
    fn from(OutOfFrames(taken): OutOfFrames) -> Self {
        Needs::Frames(taken + 1).into()
    }
}

impl From<CannotPark> for Stop {
    fn from(error: CannotPark) -> Self {
        Self::Refused(error.into())
    }
}
