//! The map in pages, while everything runs: a second tree, and one switch to it.

mod copy;
mod second_tree;
