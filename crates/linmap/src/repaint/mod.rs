//! Maps the linear map in pages while everything runs: a second tree, and one switch to it.

mod copy;
mod error;
mod second_tree;
#[cfg(test)]
mod tests;

pub use error::RepaintError;
