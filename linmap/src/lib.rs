//! The arm64 kernel linear map: one virtual address for each byte of RAM, in the fewest TLB entries.
//!
//! For kernels, hypervisors and firmware: `no_std`, no allocator. What to map is decided by pure
//! functions over values; tables are built off line in plain memory and made live by single stores; the
//! CPU is behind one trait. From the bottom up:
//!
//! | module | idea |
//! |---|---|
//! | `geometry` | granule, VA size and address format as one value; a level is a number |
//! | `attributes`, `descriptor` | one 64-bit entry: encode, decode, may it change in place? |
//! | `region`, `layout` | RAM, carve-outs and image become the fewest leaves |
//! | `tlbi` | TLB invalidations: their encoding, and the fewest that cover a range |
//! | `table`, `hardware`, `features` | what a platform brings: table pages, CPU primitives, promises |
//! | `stats` | exact counts, predicted or walked |
//! | `tree` | off line: a whole tree, built and discarded |
//! | `walk` | visit what is there |
//! | `check` | what must never be in a map |
//! | `address_space` | live tables: map, unmap, protect, set_valid, split, collapse, under one lock |
//! | `repaint` | the map in pages, by a second tree and one switch to it |
//! | `linear` | policy: which leaves, and why |
//! | `ptdump` | the text that Linux prints |
//!
//! Build a map in host memory, count it and print it:
//!
//! ```
#![doc = include_str!("../examples/host.rs")]
//! ```
//!
//! A live map changes by the operations of [`AddressSpace`]. The whole life of a page:
//!
//! ```
#![doc = include_str!("../examples/page.rs")]
//! ```
#![no_std]

#[macro_use]
mod fault;

mod address;
mod address_space;
mod alias;
#[cfg(target_arch = "aarch64")]
pub mod arm64;
mod attributes;
mod backing;
mod cache;
mod change;
mod check;
mod collapse;
mod cuts;
mod decode;
mod descriptor;
mod edit;
mod error;
mod features;
mod geometry;
mod hardware;
#[cfg(feature = "std")]
pub mod host;
mod in_place;
mod layout;
mod limits;
mod linear;
mod live;
mod maintenance;
mod mapping;
mod midr;
mod mirror;
mod noted;
mod one_leaf;
mod ptdump;
mod records;
mod region;
mod repaint;
mod reserve;
mod resize;
mod retire;
mod rewrite;
mod sides;
mod split;
mod split_pages;
mod stats;
mod survey;
mod table;
#[cfg(test)]
mod tests;
mod tlbi;
mod tree;
mod unmap_all;
mod walk;

pub use address::{Pa, Va};
pub use address_space::AddressSpace;
pub use alias::Aliased;
pub use attributes::{Attributes, MemoryType};
pub use cache::CacheType;
pub use change::Change;
pub use check::{Checks, Finding, RunFault, check};
pub use descriptor::{Descriptor, Entry, Leaf, Transition};
pub use error::Error;
#[cfg(feature = "faults")]
pub use fault::{Fault, commit};
pub use features::Features;
pub use geometry::{Geometry, GeometryError, Granule, Half, LeafSize, LeafSizes, Level, OaFormat};
pub use hardware::{Both, CanNotPark, Dsb, Hardware, Platform, Promise};
pub use layout::{Kind, Layout, LayoutError, Rodata};
pub use limits::TableLimits;
pub use linear::{Decision, Mode, Policy, Split, create};
pub use midr::{BbmPromise, Midr, RepeatedTlbi};
pub use ptdump::{DumpError, Marked, dump};
pub use region::{Leaves, Region, Run};
pub use rewrite::Rewrite;
pub use stats::{Changes, Stats};
pub use table::{Bounded, Frame, Memory, ReadTables, Refused, Slot};
pub use tlbi::{Instruction, RangePages, Scope, Tlbi};
pub use tree::Tree;
pub use walk::{count, linear_range, visit};

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
