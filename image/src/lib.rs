//! The parts of the image that a host can test: values that it writes to registers and memory, rules that its CPUs
//! follow among themselves, the model of `run=stress`, and the works of `run=measure`.
//!
//! Decisions before the linear map exists are in the crate `kernel-plan`.
#![no_std]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

#[cfg(test)]
extern crate std;

pub mod addresses;
pub mod crashkernel;
pub mod instructions;
pub mod measure;
pub mod patience;
pub mod readers;
pub mod rendezvous;
pub mod sgi;
pub mod stress;
pub mod ticks;
pub mod views;
