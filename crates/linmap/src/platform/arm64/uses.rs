//! The number of times that primitives were used, for measurements.

/// The number of times that each primitive was used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Uses {
    /// TLB invalidations issued.
    pub tlbi: u64,
    /// Data synchronisation barriers.
    pub dsb: u64,
    /// Instruction synchronisation barriers.
    pub isb: u64,
}

impl Uses {
    /// Returns the sum of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self { tlbi: self.tlbi + other.tlbi, dsb: self.dsb + other.dsb, isb: self.isb + other.isb }
    }
}
