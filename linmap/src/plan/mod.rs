//! What to map: RAM, carve-outs and image become regions, regions become the fewest leaves. Pure arithmetic.

mod layout;
mod policy;
mod region;
mod stats;

pub use layout::{Kind, Layout, LayoutError, Rodata, linear_range};
pub use policy::{Decision, Mode, Policy, SplitFallback};
pub use region::{Leaves, Region, Run};
pub use stats::Stats;
