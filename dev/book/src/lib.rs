//! The documents of the project: README.md and its siblings, and the book in `docs/`.
//!
//! [`check()`] follows every link in them, without a network, and looks for the paths that they name. [`commands()`] finds the command
//! lines, which a test runs. The binary builds the book. The Rust in the chapters is compiled and run by `cargo test --doc -p book`.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod check;
mod commands;
mod document;
mod paths;

pub use check::{Broken, Fault, check, documents};
pub use commands::{Command, commands};
pub use document::{Document, Link};
pub use paths::normalized;

/// Compiles the Rust in these chapters.
macro_rules! chapters {
    ($($name:ident $path:literal)*) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../docs/", $path))]
            struct $name;
        )*
    };
}

chapters! {
    Purpose "README.md"
    BringUp "bring-up.md"
    LiveChanges "live-changes.md"
    ManyCallers "many-callers.md"
    CpusThatMayAbort "cpus-that-may-abort.md"
    Aliases "aliases.md"
    Model "model.md"
}
