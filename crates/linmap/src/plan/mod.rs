//! The plan of a map: RAM, carve-outs and image become regions, regions become the fewest leaves. Pure arithmetic.

mod image_alias;
mod layout;
mod offset;
mod policy;
mod ranges;
mod region;
mod stats;

pub use image_alias::ImageAlias;
pub use layout::{Kind, Layout, LayoutError, Rodata};
pub use offset::linear_range;
pub use policy::{Decision, Mode, Policy, SplitFallback};
pub use region::{Leaves, Region, Run};
pub use stats::Stats;
