//! A document in variables of firmware, from the end of a run to the next start, when there is a file system again.
//!
//! The document is packed, cut into pieces, and stored piece by piece. The next start finds them, writes a file and removes them.
//! A set that is not whole, as when power fails, is removed and becomes no file.
//!
//! A file uses only those before it in this list:
//!
//! - `variables`: the firmware's variables as far as they are used.
//! - `pieces`: how large documents and pieces are, and the header by which a piece says which set it belongs to.
//! - `store`: into the variables.  `find`: out of them.  `collect`: into a file.

mod collect;
mod find;
mod pieces;
mod store;
#[cfg(test)]
mod tests;
mod variables;

pub use collect::{MOST_FILES, NotCollected, Outcome, Volume, collect};
pub use find::{Found, Torn, find};
pub use pieces::{MOST, WORK};
pub use store::{NotStored, Stored, store};
pub use variables::{Limits, Variables};
