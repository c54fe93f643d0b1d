//! The start by EFI, as far as it is decisions.
//!
//! - [`handover`]: the memory that the stub hands on.
//! - [`relocations`]: the image as it was before firmware relocated it.
//! - [`command_line`]: the command line, of load options and a file.
//! - [`exit`]: the exit of boot services.
//! - [`memory_map`]: RAM, from the memory map of the firmware.

pub mod command_line;
pub mod exit;
pub mod handover;
pub mod memory_map;
pub mod relocations;
