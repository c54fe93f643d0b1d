//! Plots for linmap's command and benchmarks: lines over logarithmic axes, groups of bars, and pictures of memory.
//!
//! A plot is a plain value that becomes an SVG file; `plotters` draws those with axes. Text is escaped, so names may come from users.
//!
//! ```
//! use linmap_plot::{Axis, Line, Lines};
//!
//! let plot = Lines {
//!     title: "Table memory".into(),
//!     subtitle: String::new(),
//!     x: Axis { label: "GiB of RAM".into(), base: 2.0, tick: Box::new(|ram| format!("{ram} G")) },
//!     y: Axis { label: "MiB".into(), base: 10.0, tick: Box::new(|size| size.to_string()) },
//!     lines: vec![Line {
//!         name: "4K pages".into(),
//!         color: 0,
//!         dashed: false,
//!         points: vec![(4.0, 8.0), (64.0, 128.0)],
//!     }],
//! };
//! assert!(plot.render()?.starts_with("<svg "));
//! # Ok::<(), linmap_plot::PlotError>(())
//! ```
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod bars;
mod lines;
mod page;
mod strips;

pub use bars::{Bars, Group, Spread};
pub use lines::{Axis, Line, Lines};
pub use page::PlotError;
pub use strips::{Class, Piece, Strip, Strips};

/// Writes a number in a few characters: `950`, `1.5 k`, `28 M`.
///
/// ```
/// assert_eq!([0.25, 12.34, 28e6].map(linmap_plot::short), ["0.25", "12.3", "28 M"]);
/// ```
pub fn short(value: f64) -> String {
    let units = [(1e12f64, " T"), (1e9f64, " G"), (1e6f64, " M"), (1e3f64, " k")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0f64, ""));
    let digits = match value / scale {
        v if v >= 100.0f64 || v == 0.0f64 => 0,
        v if v >= 10.0f64 => 1,
        v if v >= 1.0f64 => 2,
        _ => 4,
    };
    let text = format!("{:.digits$}", value / scale);
    let text = if digits == 0 { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    format!("{text}{unit}")
}
