//! The TLB invalidations of a change, as a value.

mod tlb_batch;

pub(crate) use tlb_batch::{Invalidated, Issuer, TlbBatch, finish_one};
