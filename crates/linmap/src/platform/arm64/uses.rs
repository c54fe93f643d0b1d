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
