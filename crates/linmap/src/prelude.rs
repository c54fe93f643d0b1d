//! The types and traits that a kernel needs to make a map: `use linmap::prelude::*`.

pub use crate::arch::Level;
pub use crate::cpu::{Features, Registers};
pub use crate::error::{BuildError, ChangeError, CreateError};
pub use crate::layout::Run;
pub use crate::policy::{Decision, SplitFallback};
pub use crate::read::MarkedRange;
pub use crate::{
    Attributes, Change, Combined, Dsb, Frame, Geometry, Granule, Half, Hardware, Layout, Leaves, Live,
    Memory, MemoryType, OaFormat, OffsetMemory, Pa, Platform, Policy, Promise, Region, Rodata, SharedSpace,
    Sharing, Slot, Space, Stats, Tree, Va,
};
