//! Random cases for tests: each has a seed, and one variable repeats it.
//!
//! Every run draws its first seed from the system and prints it before it tries anything. A case that fails says
//! which it was as soon as it panics, whatever becomes of the process after that:
//!
//! ```text
//! random cases: LINMAP_SEED=0x8c1f20b4d7e60000.. repeats this run
//! sequences::random_sequences: LINMAP_SEED=0x8c1f20b4d7e60a52 repeats this case
//! ```
//!
//! With `LINMAP_SEED` set to a seed each test tries that case and no other; with two dots behind it, it starts there.

mod property;
mod seed;

pub use property::property;
pub use seed::{Rows, case, each, is_one, number, seeds};

/// What `proptest` has for tests, but for `proptest!`: the one here gives each case a seed of its own.
pub mod prelude {
    pub use crate::proptest;
    pub use proptest::prelude::*;
}
