//! Pages that are also in the linear map: their aliases there change with them.

mod alias_survey;
mod both_sides;
mod budget;
mod cuts;
mod extents;
mod long;
mod remake_both;
mod set_memory;
mod sides;
mod tables_needed;

pub use set_memory::Aliased;
