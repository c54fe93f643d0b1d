//! The tables that are to be read of a SOURCE, and the progress of reading.

use linmap::Va;

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

/// The progress of a long step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The step, in words such as `reading tables`.
    pub(crate) what: &'static str,
    /// The part that is done, in units of the step.
    pub(crate) done: u64,
    /// The whole, if known.
    pub(crate) total: Option<u64>,
}
