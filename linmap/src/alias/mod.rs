//! Pages that are also in the linear map: their aliases there change with them.

mod both_sides;
mod cuts;
mod extents;
mod records;
mod set_memory;

pub use set_memory::Aliased;
