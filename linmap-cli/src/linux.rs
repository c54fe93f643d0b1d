//! What is known of Linux on arm64, as pure functions over values: no tables, no files.
//!
//! - `release`: what a kernel calls itself.  `regions`: what its addresses are for.
//! - `evidence`: what was seen of a map.  `cause`: what keeps it in pages, and what would help.

pub(crate) mod cause;
pub(crate) mod evidence;
pub(crate) mod regions;
pub(crate) mod release;
