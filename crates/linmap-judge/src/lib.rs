//! Judges the memory mapping of an arm64 kernel while QEMU runs it.
//!
//! The kernel needs no change: each store, barrier, TLBI and register write at EL1 is shown to
//! [`linmap_model::observed::Observer`], which knows the manual's rules. The crate `linmap-judge-plugin` is the QEMU plugin that calls
//! this one.
//!
//! - [`decode`]: instructions that say something about translation.
//! - [`ram`]: the guest's RAM, and who stored to it last.
//! - [`watcher`]: the events of instructions and stores.
//! - [`told`]: lies to the observer, which show what it notices.
//! - `log`: the events in a file.
//! - [`outcome`]: the document of a run, in a file.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

pub mod decode;
mod log;
pub mod outcome;
pub mod ram;
pub mod told;
pub mod watcher;
