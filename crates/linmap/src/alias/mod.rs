//! Pages that are also in the linear map: their aliases there change with them.

mod both_sides;
mod extents;
mod long;
mod remake;
mod set_memory;
mod sides;

pub use remake::Remaking;
pub use set_memory::Aliased;
