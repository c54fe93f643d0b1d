//! Support for the tests of several crates: seeds and random numbers, all geometries, numbers of locks, a map
//! without tables, logs in memory, and texts that are stored.
//!
//! Each random case has a seed, and one variable repeats it. A run has the same seeds as the one before, so that what
//! fails is due to a change. With `LINMAP_SEED=fresh` the first seed is drawn from the system, and printed before
//! anything is tried. A case that fails prints its own as soon as it panics, even if the process then aborts:
//!
//! ```text
//! random cases: LINMAP_SEED=0x8c1f20b4d7e60000.. repeats this run
//! sequences::random_sequences: LINMAP_SEED=0x8c1f20b4d7e60a52 repeats this case
//! ```
//!
//! With `LINMAP_SEED` set to a seed each test tries that case and no other; with two dots after it, it starts there.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod flat;
mod geometries;
mod locks;
mod log;
mod property;
mod random;
mod seed;
mod stored;

pub use flat::{Flat, Mapped, Piece};
pub use geometries::{geometries, some_geometries};
pub use log::Log;
pub use property::property;
pub use random::Random;
pub use seed::{Rows, case, each, is_one, number, parsed, seeds};
pub use stored::is_as_stored;

/// The prelude of `proptest`, with another `proptest!`, which gives each case a seed of its own.
pub mod prelude {
    pub use crate::proptest;
    pub use proptest::prelude::*;
}

/// The examples of the repository's README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
