//! Pages that are also in the linear map: their aliases there change with them.

mod both_sides;
mod budget;
mod extents;
mod long;
mod remake;
mod set_memory;
mod sides;

pub use set_memory::Aliased;
