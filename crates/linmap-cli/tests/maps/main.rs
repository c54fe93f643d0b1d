//! The commands that read a SOURCE, driven as a user drives them, on cores that are made up here: tables of
//! any size and kind, in files of which only the tables take room; and on guests that are none.
//!
//! - `core`, `tables`, `kdump`: kernels in files.  `guest`, `stub`, `monitor`: a kernel that seems to run under QEMU.

mod check;
mod core;
mod diff;
mod dump;
mod dumps;
mod facts;
mod figures;
mod fleet;
mod guest;
mod halts;
#[path = "../common/json_schema.rs"]
mod json_schema;
#[path = "../common/kdump.rs"]
mod kdump;
mod manual;
mod monitor;
mod noise;
mod options;
mod outlets;
mod picture;
mod pipes;
mod progress;
mod report;
mod run;
mod saved;
mod schema;
mod shared;
mod stat;
mod stub;
mod tables;
mod tools;
mod walk;
mod watch;
mod who;
mod wrong;
