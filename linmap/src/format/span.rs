//! A range of addresses that may reach the last address there is.

/// Addresses, both included.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl Span {
    #[inline]
    pub(crate) const fn covers(self, first: u64, last: u64) -> bool {
        self.first <= first && last <= self.last
    }
}
