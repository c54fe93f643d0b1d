//! Facts about Linux on arm64, as pure functions over values: no tables, no files.
//!
//! - `release`: a kernel's name.  `regions`: the regions of its addresses.
//! - `evidence`: evidence of a map.  `invalid`: the purpose of invalid pages.
//! - `trusted`: the CPUs on which a release splits live leaves.  `cause`: why a map is in pages.
//! - `remedy`: remedies.

pub(crate) mod cause;
pub(crate) mod evidence;
pub(crate) mod invalid;
pub(crate) mod regions;
pub(crate) mod release;
pub(crate) mod remedy;
pub(crate) mod trusted;
