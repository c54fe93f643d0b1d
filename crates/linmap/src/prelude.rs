//! The types and traits that a kernel needs to make a map: `use linmap::prelude::*`.
//!
//! It has no functions, because kernels often have functions called `create` or `check` themselves.

pub use crate::{
    Attributes, BuildError, Change, ChangeError, Combined, CreateError, Decision, Dsb, Features, Frame,
    Geometry, Granule, Half, Hardware, Layout, Leaves, Level, MarkedRange, Memory, MemoryType, OaFormat,
    OffsetMemory, Pa, Platform, Policy, Promise, Region, Registers, Rodata, Run, SharedSpace, Slot, Space,
    SplitFallback, Stats, Tree, Va,
};
