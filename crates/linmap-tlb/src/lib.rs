//! A model of TLB reach: counts TLB misses over an arm64 linear map, mapped in pages and in large leaves.
//!
//! It models how far a TLB reaches, not time: no cycles, no caches, no overlap of walks. A [`Core`] says how many
//! entries a CPU's TLBs have and what each can cover; five are built in, each parameter with its source, and others
//! are read from text. A [`Translation`] is a linear map as such a core sees it, and a [`Tlb`] counts the misses of
//! accesses to it.
//!
//! # How far does a TLB reach?
//!
//! The Neoverse N1 has 1,280 second-level entries. In 4K pages, of which four share an entry, they cover 20 MiB; in
//! blocks of 2 MiB they cover 2.5 GiB. So memory of 32 MiB, read again and again, misses in pages and does not in blocks:
//!
//! ```
//! use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa};
//! use linmap_tlb::{Core, Tlb, Translation};
//!
//! // 1022 MiB of RAM from address 0: no leaf is larger than a run of 2 MiB blocks.
//! const MIB: u64 = 1 << 20;
//! let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
//! let mut ram = [Pa(0)..Pa(1022 * MIB)];
//! let layout = Layout::of_ram(geometry, &mut ram)?;
//!
//! let core = Core::named("neoverse-n1")?;
//! let walks = |leaves, bytes: u64| {
//!     let mut tlb = Tlb::new(&core, Translation::new(&core, &layout, leaves), 0);
//!     let pages = || (0..bytes).step_by(4096); // Addresses count from the start of the linear map.
//!     pages().for_each(|address| tlb.access(address, 1)); // The first round fills the TLB.
//!     tlb.restart();
//!     pages().for_each(|address| tlb.access(address, 1));
//!     assert_eq!(tlb.unmapped(), None);
//!     tlb.counts().walks
//! };
//! assert_eq!(walks(Leaves::Pages, 8 * MIB), 0);
//! assert!(walks(Leaves::Pages, 32 * MIB) > 1000);
//! assert_eq!(walks(Leaves::Largest, 32 * MIB), 0);
//! assert_eq!(walks(Leaves::Largest, 1022 * MIB), 0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Workloads and traces
//!
//! A [`Simulation`] runs a [`Workload`], such as reads of a ramdisk at random places, or replays a recorded trace. Both
//! maps see the same accesses, and [`Placement`] decides which physical pages the workload has:
//!
//! ```
//! use linmap::{Geometry, Granule, Layout, OaFormat, Pa};
//! use linmap_tlb::{Conditions, Core, Placement, Simulation, Workload};
//!
//! let geometry = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
//! let mut ram = [Pa(1 << 30)..Pa(5 << 30)];
//! let layout = Layout::of_ram(geometry, &mut ram)?;
//! let core = Core::named("neoverse-n1")?;
//! let simulation = Simulation::new(&core, &layout, &[])?;
//! let conditions = Conditions { footprint: 64 << 20, placement: Placement::Aged, accesses: 100_000, seed: 1 };
//! let counts = simulation.run(Workload::RamdiskRandom, &conditions)?;
//! assert!(counts.large.walks < counts.pages.walks);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is not modelled
//!
//! Everything that does not go through the linear map (user space, the kernel's own code and stacks, `struct page`), the
//! instruction side, other CPUs, invalidations, prefetching of translations, and stage 2.

#![deny(missing_docs)]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod associative;
mod core_file;
mod cpu_core;
mod fully_associative;
mod memory;
mod placement;
mod quoted;
mod simulation;
mod tlb;
mod trace;
mod translation;
mod workload;

pub use core_file::{CoreError, Parameters};
pub use cpu_core::{Core, Parameter, Replacement, TlbLevel, WalkCache};
pub use placement::Placement;
pub use simulation::{Conditions, MissCounts, Simulation, SimulationError};
pub use tlb::{Counts, Tlb};
pub use trace::{TraceError, TraceFormat, TraceProblem};
pub use translation::Translation;
pub use workload::Workload;
