//! An executable model of the arm64 MMU, to judge code that changes page tables.
//!
//! A page-table bug seldom shows when it is made. A missing TLBI costs nothing until some CPU happens to
//! hold the old entry; a block that is split in place works on every CPU at hand and aborts on another.
//! This crate runs such code on a machine where everything goes wrong that the architecture permits, and names the
//! step and the rule that it broke.
//!
//! # How it judges
//!
//! [`Machine`] has up to eight CPUs with different promises ([`Core`]), their TLBs, walk caches and table
//! base registers, and table pages. It takes one [`Event`] after another: a store, a barrier, a TLBI with
//! its operand, a register write. TLB fills are passive, so no interleaving is searched: for each CPU the
//! machine knows exactly the set of all entries that its TLB can hold. A store adds to it. A TLBI, with the DSB that
//! completes it, drops those that cannot be fetched again. Each step is judged against every [`Rule`]; a [`Breach`]
//! names the rule, the CPU, the address, the facts that contradict each other, and the events before it. If an
//! invalidation was of no use, the breach has the reason.
//!
//! [`Event::Begin`] announces a change, and [`Event::Done`] is where it is judged: between them each address has its
//! old translation or its new one; afterwards it has the new one, and no TLB has another.
//!
//! [`Event::Access`] says where a CPU uses an address. It is judged against all that the CPU may use for it then.
//!
//! Several callers owe each other four things, which are judged too: who returns leaves no stale entry of its range, even
//! where another one stored; what another has yet to invalidate is not merged, retyped or freed; a leaf that stays split
//! ([`STAYS_SPLIT`](linmap::Attributes::STAYS_SPLIT)) is not merged; and a table is given back after all have ended who read
//! without a lock when it was live ([`Event::ReadBegin`]).
//!
//! A root without announcements that a CPU loads replaces the one that the CPU was on before: it must have the same
//! translations at once, and later announcements are of both, for as long as some CPU is still on the old one.
//!
//! Nothing is known of a tree that was not announced: before a CPU loads its first root,
//! [`OnCpu::announces`](OnCpu::announces) says what that maps.
//!
//! # Three ways to use it
//!
//! - Run code on it: [`Model`] gives a handle for each CPU that is `linmap`'s `Memory` and `Hardware`.
//! - Feed it events: [`Machine::step`], from code in any language that can write JSON lines.
//! - Replay a log: [`Model::log_to`] writes one, [`replay`] and the command `linmap-model replay LOG` (feature `cli`)
//!   judge it. [`export`] writes it for other judges.
//!
//! Code that announces nothing is judged by [`observed::Observer`], less surely.
//!
//! A page of a live kernel becomes read-only, and the author forgot the TLBI:
//!
//! ```
#![doc = include_str!("../examples/missing_tlbi.rs")]
//! ```
//!
//! # What it does not model
//!
//! There are the regimes EL1&0, EL2 and EL2&0, and stage 2 of EL1&0; no EL3, Secure state or realms. A tree has one
//! regime, VMID and ASID, and the geometry of all. So stage 2 has no concatenated tables; tables of stage 1 are where
//! their descriptors say, whatever stage 2 does to that address, and accesses of a guest are not judged. What combines
//! both stages is dropped only by TLBIs of all addresses, as the virtual ones are not known. Leaves of EL2 are judged
//! as those of EL1, but for nG: AP\[1\], PXN and XN are not. The exception level at which code runs is not known, so
//! no TLBI is undefined because of it. Not modelled, and refused where they would matter: a VMID that changes under a
//! tree of EL1, HCR_EL2.E2H that changes under one of EL2, stage 2 on CPUs that need TLBIs twice, NSTable and
//! restrictions in tables of stage 2, and one table in two places, but for those that a tree shares with the one that
//! it replaces.
//!
//! The registers TCR_EL2, MAIR_EL2, SCTLR_EL2 and VTCR_EL2 do not exist here, CnP of the registers of EL2 has
//! no effect, and walkers update no leaves of stage 2. TCR_EL1.HPDn, E0PDn and TBIn have no effect.
//!
//! The ASID of a half is that of its own register. Two ASIDs in TTBR0 and TTBR1 are refused where pages of the upper
//! half are not global. Trees of the upper half are not told apart by ASID: a CPU that goes from one to another needs
//! a TLBI of everything, also where a kernel has one TTBR1 for itself and one for EL0 (KPTI). Whether CPUs with CnP
//! may have two trees is judged when they load them, not when a page becomes global later. VTTBR_EL2.CnP is not
//! modelled: entries of stage 1 count as shared without it (D8.16.3.4 RZVRZW).
//!
//! Walkers may update leaves ([`Core::hardware_access_flag`] and [`Core::hardware_dirty_state`]), not table
//! descriptors (FEAT_HAFT). Stores of two CPUs into one slot take effect in the order of the events. An
//! [`Event::Access`] is one of EL1: PAN and tag checks are not modelled. That another CPU has learned of a mapping
//! before it uses it is taken for granted, for FEAT_ETS2. SCTLR_EL1.WXN is judged where code is executed by its
//! address; [`Rule::WriteExecute`] does not count on it. With the MMU off a CPU's accesses are judged against pages
//! that were given away, its stores of code are not. Dirty state that a stale entry loses is judged for stage 1 alone.
//!
//! All CPUs are in one inner shareable domain, and use one granule. HCRX_EL2.FnXS is 0.
//!
//! A CPU that never wrote TCR_EL1, MAIR_EL1 and SCTLR_EL1 translates as the setup says. Of these registers the model
//! knows what tables need and TLBs may hold: of TCR_EL1 the fields of a half in use, of MAIR_EL1 the memory types, of
//! SCTLR_EL1 M, C, EE and the bits that a TLB may hold. Refused: walks that are not cacheable or not shareable, EPDn
//! over a tree, C = 0 with M = 1, EE = 1, and two ASIDs with A1 = 1. What a TLB holds of TCR_EL1 and MAIR_EL1 after a
//! reset goes with its TLBI, though that may come before the two are written. A context synchronisation event of any
//! kind is [`Event::Isb`].
//!
//! The manual leaves IMPLEMENTATION DEFINED what a TLB holds after a reset, and the routine that empties it (D8.16.1).
//! The model takes any contents, and TLBI VMALLE1 or a wider one by the CPU itself, with DSB and ISB. The caches keep
//! what they held; code in instruction caches is not judged after a reset.
//!
//! With the MMU off stores go past the caches, and a line has 64 bytes. Loads are not judged by their way. The other way
//! round, walkers or CPUs that go past the caches while others store into them, is not modelled.
//!
//! The nT bit and BBM level 1 have no effect: like `linmap`, the model takes a CPU that may raise a TLB conflict abort
//! for one that does. A table that replaces another counts as a change of size, on which a CPU that never aborts does
//! not (D8.17.2, IHYQMB: table descriptors conflict likewise); `linmap::arch::Descriptor::transition` asks for
//! break-before-make there, to be on the safe side. A change of the output address always needs break-before-make, even
//! where D8.17.1 RWHZWS permits it because both pages are read-only and have the same contents.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod asid;
mod cache_lines;
mod cached;
mod code;
mod event;
pub mod export;
mod fields;
mod flat;
mod grace;
mod json;
mod machine;
mod model;
pub mod observed;
mod on_cpu;
mod pages;
mod physical;
mod place;
mod register;
mod replay;
mod rule;
mod setup;
mod space;
mod stage2;
mod stale;
mod tlb;
mod waits;

pub use event::{Access, Barrier, CacheOp, CpuId, Event, Expected, Mapping, Update, Word};
pub use machine::Machine;
pub use model::Model;
pub use on_cpu::{Held, OnCpu, Reading};
pub use register::Register;
pub use replay::{ReplayError, read_log, replay};
pub use rule::{Breach, Rule};
pub use setup::{Core, Setup};
pub use tlb::Tlb;
