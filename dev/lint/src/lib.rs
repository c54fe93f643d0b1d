//! The house rules that a program can check, on the sources of this workspace.
//!
//! | room | idea |
//! |---|---|
//! | `error` | why sources could not be read |
//! | `workspace` | the crates, and the files where each begins |
//! | `production` | leaves out code that only tests compile |
//! | `imports` | a `use` declaration as a list of names |
//! | `modules` | the tree of modules of one target, and the names that each has |
//! | `resolve` | from a path to the file that defines what it names |
//! | `uses` | every path of a module, resolved |
//! | `arrows` | which file of a crate uses which |
//! | `circles` | files that use each other |
//! | `rooms` | the order of the modules of a crate, and arrows against it |
//! | `figures` | sizes of files and functions |
//! | `words` | plain English |
//!
//! A crate gives its rooms an order by a table like this one, headed `room`, in the first comment of its root.
//! A room is a module with all that is below it, and uses only those above it in the table.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod arrows;
mod circles;
mod error;
mod figures;
mod imports;
mod modules;
mod production;
mod resolve;
mod rooms;
mod uses;
mod words;
mod workspace;

pub use arrows::{Arrow, Arrows};
pub use circles::{circles, shortest};
pub use error::Error;
pub use figures::Figures;
pub use rooms::Rooms;
pub use words::{Breach, Words};
pub use workspace::{Crate, Workspace};
