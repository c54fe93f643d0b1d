//! What the image computes and a host can test: values that it writes to registers and memory, rules that its CPUs
//! follow among themselves, and what `run=stress` expects of each page.
//!
//! What the kernel decides before it builds its map is in the crate `kernel-plan`.
#![no_std]

pub mod addresses;
pub mod crashkernel;
pub mod instructions;
pub mod patience;
pub mod rendezvous;
pub mod sgi;
pub mod stress;
pub mod ticks;
