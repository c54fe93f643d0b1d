//! Code that announces nothing, judged while it runs: stores, barriers, TLBIs and registers as a machine carries them out.
//!
//! [`Observer`] takes the [`Event`](crate::Event)s of a log or of a running machine. What the code means to do is not known, so that the end
//! of an operation is not known either. What is wrong by the letter of the manual is a breach; an invalidation that missed what
//! it was probably for, or did not come, is a suspect; what kernels do on purpose is a hint ([`Grade`]).
//!
//! Only trees that a CPU has loaded are judged. It goes on after a breach, with the entry as the code made it.
//!
//! - `memory`: what a page has when it becomes a table, and the order of stores to it.
//! - `types`, `cpu`: registers, and the format that they give the tables.
//! - `tree`: the tables of loaded trees.
//! - `held`: what CPUs may hold though the tables have it no more.
//! - `filter`: the physical addresses of tables and of what CPUs may hold, so that other stores cost little.
//! - `report`: findings as values. `document`: as JSON. `sites`: TLBIs and DSBs, and whether anything needed them.
//! - `observer`, `store`, `barriers`, `run`: the steps. `questions`: what can be asked between two. `replay`: the steps of a saved log.

mod barriers;
mod cpu;
mod document;
mod filter;
mod held;
mod memory;
mod observer;
mod questions;
mod replay;
mod report;
mod run;
mod sites;
mod store;
mod tree;
mod types;

pub use self::document::{document, moment};
pub use self::memory::{Linked, Memory, Told};
pub use self::observer::Observer;
pub use self::questions::Concerns;
pub use self::replay::{Placed, watch, watch_to};
pub use self::report::{Finding, Grade, Miss, Missed, Step, Stored};
pub use self::sites::{Kind, Site};
