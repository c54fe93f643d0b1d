//! Facts about Linux on arm64, as pure functions over values: no tables, no files.
//!
//! - `release`: a kernel's name.  `regions`: the regions of its addresses.
//! - `invalid`: the purpose of invalid pages.  `evidence`: evidence of a map.  `certainty`: how it is known.
//! - `trusted`: the CPUs on which a release splits live leaves.  `cause`: why a map is in pages.
//! - `remedy`: remedies.  `explanation`: all of it.
//! - `symbols`: names and addresses.  `kallsyms`, `btf`: symbols and types that an image has of itself.
//! - `structures`: the lists of what a kernel has protected or taken away.

pub(crate) mod btf;
pub(crate) mod cause;
pub(crate) mod certainty;
pub(crate) mod evidence;
pub(crate) mod explanation;
pub(crate) mod invalid;
pub(crate) mod kallsyms;
pub(crate) mod regions;
pub(crate) mod release;
pub(crate) mod remedy;
pub(crate) mod structures;
pub(crate) mod symbols;
pub(crate) mod trusted;
