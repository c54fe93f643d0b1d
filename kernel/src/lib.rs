//! What of the kernel can be judged without a CPU: its boot arguments, the machine that a device tree
//! describes, the geometry that follows. The image and the host's tests run this very code.
#![no_std]

pub mod bootargs;
pub mod choice;
#[cfg(test)]
mod fuzz;
pub mod machine;
pub mod plan;
pub mod ranges;
pub mod scratch;
