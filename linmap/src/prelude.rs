//! The types and traits that a kernel needs to make a map: `use linmap::prelude::*`.
//!
//! It has no functions, because kernels often have functions called `create` or `check` themselves.

pub use crate::{
    AddressSpace, Attributes, BuildError, Change, ChangeError, Combined, Decision, Dsb, Features, Frame,
    Geometry, Granule, Half, Hardware, Layout, Leaves, Level, Memory, MemoryType, OaFormat, OffsetMemory, Pa,
    Platform, Policy, Promise, Region, Registers, Rodata, Slot, SplitFallback, Stats, Tree, Va,
};
