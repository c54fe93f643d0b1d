//! Tables that no walker reaches: whole trees, and the replacements of leaves.

mod builder;
mod copy;
mod counters;
mod error;
pub(crate) mod fill;
mod give_back;
mod in_order;
mod replacement;
mod tree;

pub use counters::{Changes, SplitCost};
pub(crate) use counters::{Counters, SplitCosts};
pub use error::BuildError;
pub(crate) use error::OutOfFrames;
pub(crate) use fill::FILLED;
pub(crate) use give_back::give_back;
pub(crate) use replacement::{Replacement, discard, page_tables_for};
pub use tree::Tree;
