//! The checks on small crates that are made up: each finds what is wrong and nothing else.

mod circles;
mod paths;
mod rooms;
mod tree;
