//! The types and traits that a kernel needs to make a map: `use linmap::prelude::*`.

pub use crate::{
    Attributes, BuildError, Change, ChangeError, Combined, CreateError, Decision, Dsb, Features, Frame,
    Geometry, Granule, Half, Hardware, Layout, Leaves, Level, Live, MarkedRange, Memory, MemoryType,
    OaFormat, OffsetMemory, Pa, Platform, Policy, Promise, Region, Registers, Rodata, Run, SharedSpace, Slot,
    Space, SplitFallback, Stats, Tree, Va,
};
