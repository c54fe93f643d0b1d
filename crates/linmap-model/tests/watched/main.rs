//! Kernels that announce nothing: mistakes of the public record, each wrong and right, and habits that are none.

mod habits;
mod machine;
mod mistakes;
mod questions;
mod trace;
