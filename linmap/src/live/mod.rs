//! Tables that walkers reach, changed under one lock.

mod address_space;
mod collapse;
mod create;
mod dirty_ranges;
mod edit;
mod in_place;
mod locked;
mod map;
mod one_leaf;
mod reserve;
mod resize;
mod split_to_pages;
mod survey;
mod table_pages;
mod tlb_batch;
mod unmap;

pub use address_space::AddressSpace;
pub use create::create;
pub(crate) use edit::Editor;
pub(crate) use locked::Access;
pub(crate) use resize::Resize;
pub(crate) use survey::Survey;
