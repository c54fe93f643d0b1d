//! The arm64 kernel linear map: one virtual address for each byte of RAM, in the fewest TLB entries.
//!
//! For kernels, hypervisors and firmware: `no_std`, no allocator. Pure functions over values decide the leaves. Tables
//! are built off line in plain memory and made live by single stores. One trait stands for the CPU.
//!
//! The root of the crate has what a kernel names to make and change a map. What it names now and then is in the modules [`arch`],
//! [`cpu`], [`error`], [`layout`], [`policy`] and [`read`]; [`prelude`] has what it takes to begin.
//!
//! The crate consists of rooms; each uses only those before it:
//!
//! | room | content |
//! |---|---|
//! | `format` | the architecture's definitions: addresses, geometry, descriptors, TLBI operands |
//! | `plan` | pure: RAM, carve-outs and image become the fewest leaves; counts; policy |
//! | `platform` | the interface to a platform: table pages, CPU primitives, promises, locks; `arm64` and `host` |
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
pub mod read;
mod repaint;
mod share;
#[cfg(test)]
mod tests;

/// The definitions of the architecture: descriptors, levels and sizes of leaves, memory types, TLBI operands.
pub mod arch {
    pub use crate::format::{
        Descriptor, Entry, FixedBits, Instruction, Leaf, LeafSize, LeafSizes, Level, Mair, RangePages, Scope,
        TableAttributes, TableLimits, Tlbi, Transition,
    };
}

/// A CPU by its registers: its features, its promise not to abort, its caches, the registers of translation.
pub mod cpu {
    pub use crate::platform::{
        BbmPromise, CacheType, Features, HardwareUpdates, Midr, Registers, RegistersError, RepeatedTlbi,
        Tcr2, Unsupported,
    };
}

/// The errors: what was refused, where, and what would be right.
pub mod error {
    pub use crate::build::BuildError;
    pub use crate::edit::{AdoptError, ChangeError, CreateError, RemakeError};
    pub use crate::format::{GeometryError, Unaligned};
    pub use crate::plan::LayoutError;
    pub use crate::repaint::RepaintError;
}

/// The parts of a [`Layout`]: what a range of memory is, what the alias of the image is, the leaves of one size in a row.
pub mod layout {
    pub use crate::plan::{ImageAlias, Kind, Run, linear_range};
}

/// The ways in which leaves may change their size, and the reasons: from the promises of the CPUs to a [`Policy`].
pub mod policy {
    pub use crate::plan::{Decision, Mode, SplitFallback};
}

pub use alias::{Aliased, Remaking};
pub use build::{Changes, SplitCost, Tree};
pub use edit::{Alone, Form, Live, Reader, Reserved, Space, Tables};
pub use format::{
    Attributes, Change, ChangeFlags, Geometry, Granule, Half, MemoryType, OaFormat, Pa, Remake, Va,
};
pub use hotplug::Hotplug;
pub use plan::{Layout, Leaves, Policy, Region, Rodata, Stats};
#[cfg(target_arch = "aarch64")]
pub use platform::arm64;
#[cfg(feature = "std")]
pub use platform::host;
pub use platform::{
    Access, CannotPark, Combined, Dsb, EntryUpdate, Frame, Hardware, Memory, OffsetMemory, Platform, Promise,
    Readers, Reason, Section, Sharing, Slot, Unshared, WithReaders,
};
pub use share::{BlankSpace, Hold, SharedSpace};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
