//! Live tables, which walkers can reach, changed under one lock.

mod address_space;
mod collapse;
mod create;
mod dirty_ranges;
mod error;
mod handover;
mod in_place;
mod locked;
mod map;
mod map_state;
mod protect;
mod resize;
mod split_to_pages;
mod survey;
mod table_pages;
mod tlb_batch;
mod unmap;

pub use address_space::AddressSpace;
pub use create::create;
pub use error::{ChangeError, CreateError, GraftError};
pub(crate) use in_place::InPlace;
pub(crate) use locked::{LeafVisitor, LiveVisitor, Locked};
pub(crate) use resize::{Resize, parks};
pub(crate) use survey::Survey;
pub(crate) use tlb_batch::TlbBatch;
