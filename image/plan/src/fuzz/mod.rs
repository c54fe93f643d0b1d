//! All that a boot loader hands over, from the device tree to the plan of memory: no panic, no overflow, and a plan
//! that keeps its promises. The code is the image's own.
//!
//! `boot` goes through a boot and judges it, `trees` makes trees, `machines` has cases with exact results, `noise` has
//! random ones, `firmware` starts with the memory map of UEFI firmware. ACPI tables are damaged beside their reader.

pub(crate) mod boot;
mod firmware;
mod machines;
mod noise;
mod trees;
