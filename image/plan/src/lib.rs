//! The decisions of a kernel before it builds its linear map: the machine that a device tree or ACPI describes, the boot
//! arguments, the geometry, the use of each range of memory, the CPUs that may join.
//!
//! All of it is pure: it reads bytes and values, touches no hardware and allocates nothing. linmap's bootable image
//! runs this code on a CPU; the command `linmap plan` runs it on a host, for a machine that may not exist yet.
//!
//! A file uses only those before it in this list:
//!
//! - [`ranges`]: sets of physical ranges.
//! - [`note`]: each thing that is left out of a description or of memory, as a value.
//! - [`efi`]: the start by EFI firmware: what its stub hands on, its memory map.
//! - [`device_tree`], `bus`: nodes of a device tree; the way from a CPU to their registers.
//! - [`cpus`], [`gic`], [`serial`], `memory`, [`nodes`]: CPUs, interrupt controller, serial port, RAM and its nodes.
//! - `text`: texts in bounded memory.
//! - [`machine`], `tree`, [`acpi`]: the whole machine as the kernel uses it, from a device tree or from ACPI tables.
//! - [`measure`], [`tasks`], [`bootargs`]: the plan of `run=measure`; the tasks of `run=`; all boot arguments.
//! - [`choice`], [`admit`]: the geometry; the CPUs that can use it.
//! - [`scratch`], [`plan`]: memory, by its use.
//! - [`uart`]: the console.
#![no_std]
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

#[cfg(test)]
extern crate std;

pub mod acpi;
pub mod admit;
pub mod bootargs;
mod bus;
pub mod choice;
pub mod cpus;
pub mod device_tree;
pub mod efi;
#[cfg(test)]
mod fuzz;
pub mod gic;
pub mod machine;
pub mod measure;
mod memory;
pub mod nodes;
pub mod note;
pub mod plan;
pub mod ranges;
pub mod scratch;
pub mod serial;
pub mod tasks;
mod text;
mod tree;
pub mod uart;
