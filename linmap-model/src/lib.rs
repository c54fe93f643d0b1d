//! An executable model of the arm64 MMU, to judge code that changes page tables.
//!
//! A page-table bug seldom shows when it is made. A missing TLBI costs nothing until some CPU happens to
//! hold the old entry; a block that is split in place works on every CPU at hand and aborts on another.
//! This crate runs such code on a machine where everything that the architecture permits to go wrong does,
//! and says which step broke which rule.
//!
//! # How it judges
//!
//! [`Machine`] has up to eight CPUs with different promises ([`Core`]), their TLBs, walk caches and table
//! base registers, and table pages. It takes one [`Event`] after another: a store, a barrier, a TLBI with
//! its operand, a register write. TLB fills are passive, so no interleaving is searched: for each CPU the
//! machine knows the set of all entries that its TLB may possibly hold, exactly. A store adds to it; a
//! TLBI takes away, with the DSB that completes it, what can not be fetched again. Each step is judged
//! against every [`Rule`]; a [`Breach`] names the rule, the CPU, the address, the facts that contradict
//! each other, and the events that led there. Where an invalidation was of no use it says why.
//!
//! What is being changed is announced by [`Event::Begin`] and judged at [`Event::Done`]: meanwhile each
//! address translates as before or as it will, afterwards as promised, and no TLB says otherwise.
//!
//! A root that a CPU loads and of which nothing was announced takes the place of the one that the CPU was on
//! before: it must translate as that one did, at once, and what is announced from then on is of both, for as
//! long as some CPU is still on the old one.
//!
//! Nothing is known of a tree that was not announced: before a CPU loads its first root,
//! [`OnCpu::announces`](OnCpu::announces) says what that maps.
//!
//! # Three ways to use it
//!
//! - Run code on it: [`Model`] gives a handle for each CPU that is `linmap`'s `Memory` and `Hardware`.
//! - Feed it events: [`Machine::step`], from code in any language that can write JSON lines.
//! - Replay a log: [`Model::log_to`] writes one, [`replay`] and the command `linmap-model replay LOG` (feature `cli`)
//!   judge it.
//!
//! A page of a live kernel becomes read-only, and the author forgot the TLBI:
//!
//! ```
#![doc = include_str!("../examples/missing_tlbi.rs")]
//! ```
//!
//! # What it does not model
//!
//! One translation regime, EL1&0 without stage 2, and one ASID for each tree. Not modelled, and refused where they would matter:
//! hierarchical restrictions in table descriptors, hardware updates of the access flag, and one table in two
//! places, but for those that a tree shares with the one whose place it takes. The nT bit and BBM level 1 count for nothing: as `linmap` does, the model takes a CPU that may
//! raise a TLB conflict abort for one that will. A table that takes the place of another counts as a change
//! of size, which a CPU that never aborts copes with (D8.17.2, IHYQMB: table descriptors conflict likewise);
//! `linmap::Descriptor::transition` asks for break-before-make there, to be on the safe side. An output address that changes always needs
//! break-before-make here, also where D8.17.1 RWHZWS would let it pass because both pages are read-only and
//! have the same contents.

mod cached;
mod code;
mod event;
mod flat;
mod machine;
mod model;
mod on_cpu;
mod pages;
mod replay;
mod rule;
mod setup;
mod stale;
mod tlb;
mod waits;

pub use event::{Barrier, CacheOp, CpuId, Event, Expected, Mapping, Ttbr};
pub use machine::Machine;
pub use model::Model;
pub use on_cpu::{Held, OnCpu};
pub use replay::{ReplayError, replay};
pub use rule::{Breach, Rule};
pub use setup::{Core, Setup};
pub use tlb::Tlb;
