//! The types and traits that a kernel names when it makes a map: `use linmap::prelude::*`.
//!
//! Functions are not among them, since `create`, `check` and their like are names that kernels have, too.

pub use crate::{
    AddressSpace, Attributes, BuildError, Change, ChangeError, Combined, Decision, Dsb, Features, Frame,
    Geometry, Granule, Half, Hardware, Layout, Leaves, Level, Memory, MemoryType, OaFormat, OffsetMemory, Pa,
    Platform, Policy, Promise, Region, Registers, Rodata, Slot, SplitFallback, Stats, Tree, Va,
};
