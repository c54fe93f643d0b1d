//! What a benchmark writes: Markdown tables, and plots as SVG that are readable on light and on dark pages.

mod bars;
mod lines;
mod svg;
mod table;

pub(crate) use bars::bars;
pub(crate) use lines::lines;
pub(crate) use table::{table, thousands};
