//! The image under QEMU, booted by the command as its users boot it.
//!
//! Its reports and dumps are compared with the library's predictions on the host for the same memory. `make test`
//! builds the image first.

mod bad_input;
mod bare_metal;
mod boards;
mod changes;
mod code;
mod contend;
mod counts;
mod cpus;
mod disk;
mod early;
mod efi;
mod executed;
mod fixed;
mod guest;
mod halts;
mod hidden;
mod hotplug;
mod interrupts;
#[path = "../common/json_schema.rs"]
mod json_schema;
mod judge;
mod judged_bugs;
mod judged_ways;
mod late;
mod lines;
mod loader;
mod matrix;
mod measure;
mod micro;
mod modes;
mod pagealloc;
mod planned;
mod prediction;
mod remakes;
mod secure_boot;
mod stress;
mod updates;
