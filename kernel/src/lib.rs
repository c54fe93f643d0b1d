//! What of the kernel can be judged without a CPU: its boot arguments, the machine that a device tree
//! describes, the geometry that follows, which CPUs fit in. The image and the host's tests run this very code.
#![no_std]

pub mod addresses;
pub mod admit;
pub mod bootargs;
mod bus;
pub mod choice;
pub mod cpus;
pub mod crashkernel;
#[cfg(test)]
mod fuzz;
pub mod gic;
pub mod instructions;
pub mod machine;
pub mod patience;
pub mod plan;
pub mod ranges;
pub mod rendezvous;
pub mod scratch;
pub mod sgi;
pub mod stress;
pub mod tasks;
pub mod ticks;
pub mod uart;
