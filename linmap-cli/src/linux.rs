//! What is known of Linux on arm64, as pure functions over values: no tables, no files.
//!
//! - `release`: what a kernel calls itself.  `regions`: what its addresses are for.
//! - `evidence`: what was seen of a map.  `invalid`: what pages are that are not valid.
//! - `trusted`: on which CPUs a release splits live leaves.  `cause`: what keeps a map in pages.
//! - `remedy`: what would help.

pub(crate) mod cause;
pub(crate) mod evidence;
pub(crate) mod invalid;
pub(crate) mod regions;
pub(crate) mod release;
pub(crate) mod remedy;
pub(crate) mod trusted;
