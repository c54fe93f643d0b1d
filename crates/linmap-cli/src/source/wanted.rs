//! The tables that are to be read of a SOURCE, and who is told how far reading is.

use linmap::Va;

use crate::progress::Step;

/// The tables of the upper half that are to be read. Others are not in the [`Snapshot`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// All tables.
    All,
    /// Tables that translate an address in this range; both ends are included.
    Range(Va, Va),
}

impl Wanted {
    /// Returns true if its tables are read in a moment, whatever is mapped: at most 1 GiB of addresses.
    pub(super) const fn is_small(self) -> bool {
        match self {
            Self::All => false,
            Self::Range(first, last) => last.0.saturating_sub(first.0) < 1 << 30,
        }
    }
}

/// A request to read tables.
#[derive(Clone, Copy)]
pub(crate) struct Request<'p> {
    pub(crate) wanted: Wanted,
    /// Is called thousands of times; it decides which steps take long enough to be shown.
    pub(crate) progress: &'p dyn Fn(Step),
}
