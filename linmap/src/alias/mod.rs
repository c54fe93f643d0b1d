//! Pages that the linear map has as well: their aliases change with them.

mod both_sides;
mod cuts;
mod extents;
mod records;
mod set_memory;

pub use set_memory::Aliased;
