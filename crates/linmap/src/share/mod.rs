//! Live tables that many callers share: locks, claims, what is left to a flush, and what a repaint has to copy again.

mod begun;
mod claims;
mod handover;
mod hold;
mod lock_set;
mod map_state;
pub(crate) mod marks;
mod pending;
mod publishing;
mod shared_space;
mod words;

pub(crate) use claims::Claim;
pub use handover::BlankSpace;
pub(crate) use handover::whole_entries;
pub use hold::Hold;
pub use shared_space::SharedSpace;
