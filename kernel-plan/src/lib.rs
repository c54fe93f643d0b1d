//! What a kernel decides before it builds its linear map: which machine a device tree describes, what the boot arguments
//! ask for, which geometry follows, what each range of memory is for, and which CPUs may join.
//!
//! All of it is pure: it reads bytes and values, touches no hardware and allocates nothing. linmap's bootable image runs
//! this code on a CPU; the command `linmap plan` runs it on a host, for a machine that may not exist yet.
//!
//! A file uses only those before it in this list:
//!
//! - [`ranges`]: sets of physical ranges.
//! - [`note`]: what is left out of a device tree or of memory, and why.
//! - [`device_tree`], `bus`: what a node of a device tree says; where a CPU reaches its registers.
//! - [`cpus`], [`gic`], [`machine`]: CPUs, interrupt controller, and all of a machine that the kernel uses.
//! - [`tasks`], [`bootargs`]: what `run=` can name; all boot arguments.
//! - [`choice`], [`admit`]: the geometry; the CPUs that can use it.
//! - [`scratch`], [`plan`]: memory, by its use.
//! - [`uart`]: the console.
#![no_std]

pub mod admit;
pub mod bootargs;
mod bus;
pub mod choice;
pub mod cpus;
pub mod device_tree;
#[cfg(test)]
mod fuzz;
pub mod gic;
pub mod machine;
pub mod note;
pub mod plan;
pub mod ranges;
pub mod scratch;
pub mod tasks;
pub mod uart;
