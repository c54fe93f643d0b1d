//! The arm64 kernel linear map: one virtual address for each byte of RAM, in the fewest TLB entries.
//!
//! For kernels, hypervisors and firmware: `no_std`, no allocator. Pure functions over values decide the leaves. Tables
//! are built off line in plain memory and made live by single stores. One trait stands for the CPU. The crate consists
//! of rooms; each uses only those before it:
//!
//! | room | content |
//! |---|---|
//! | `format` | the architecture's definitions: addresses, geometry, descriptors, TLBI operands |
//! | `plan` | pure: RAM, carve-outs and image become the fewest leaves; counts; policy |
//! | `platform` | the interface to a platform: table pages, CPU primitives, promises; `arm64` and `host` |
//! | `read` | walking, checking and printing tables: live ones, dumps, anything that can be read |
//! | `build` | off line: whole trees, and the tables that replace a leaf |
//! | `batch` | the barriers and TLB invalidations of a change, as a value |
//! | `edit` | live tables: map, unmap, protect, set_valid, split, collapse; a guard keeps others away |
//! | `share` | live tables of many callers at once: locks, claims, what is pending |
//! | `alias` | `rodata=full`: pages and their aliases in the linear map change together |
//! | `hotplug` | RAM that comes and goes while the map is in use |
//! | `repaint` | the map in pages: a second tree and one switch to it |
//! | `prelude` | the types and traits that a kernel needs to make a map |
//!
//! Build a map in host memory, count it and print it:
//!
//! ```
#![doc = include_str!("../examples/host.rs")]
//! ```
//!
//! The methods of [`Live`] change a live map. The life of a page:
//!
//! ```
#![doc = include_str!("../examples/page.rs")]
//! ```
//!
//! # Features
//!
//! No feature is on by default. `std` adds the module `host`: table pages in host memory. `fixed-4k`, `fixed-16k` and
//! `fixed-64k` fix the page size at build time; at most one of them can be on. The module `arm64` exists on arm64
//! targets.
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod alias;
mod batch;
mod build;
mod edit;
mod format;
mod hotplug;
mod plan;
mod platform;
pub mod prelude;
mod read;
mod repaint;
mod share;
#[cfg(test)]
mod tests;

pub use alias::{Aliased, Remaking};
pub use build::{BuildError, Changes, SplitCost, Tree};
pub use edit::{
    AdoptError, Alone, ChangeError, CreateError, Form, GraftError, Live, Reader, RemakeError, Reserved,
    Space, Tables,
};
pub use format::{
    Attributes, Change, ChangeFlags, Descriptor, Entry, FixedBits, Geometry, GeometryError, Granule, Half,
    Instruction, Leaf, LeafSize, LeafSizes, Level, Mair, MemoryType, OaFormat, Pa, RangePages, Remake, Scope,
    TableAttributes, TableLimits, Tlbi, Transition, Unaligned, Va,
};
pub use hotplug::Hotplug;
pub use plan::{
    Decision, ImageAlias, Kind, Layout, LayoutError, Leaves, Mode, Policy, Region, Rodata, Run,
    SplitFallback, Stats, linear_range,
};
#[cfg(target_arch = "aarch64")]
pub use platform::arm64;
#[cfg(feature = "std")]
pub use platform::host;
pub use platform::{
    BbmPromise, CacheType, CannotPark, Combined, Dsb, EntryUpdate, Features, Frame, Hardware,
    HardwareUpdates, Memory, Midr, OffsetMemory, Platform, Promise, Readers, Reason, Registers,
    RegistersError, RepeatedTlbi, Section, Slot, Tcr2, Unshared, Unsupported, WithReaders, WithReason,
};
pub use read::{
    Bounded, BoundedError, Checks, DumpError, Finding, MarkedRange, ReadTables, RunFault, Visited, check,
    count, count_collapsed, dump, dump_with, visit,
};
pub use repaint::RepaintError;
pub use share::{BlankSpace, Hidden, Hold, SharedSpace};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
