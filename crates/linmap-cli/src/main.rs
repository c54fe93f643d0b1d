//! The `linmap` command: for people who run or write arm64 kernels.
//!
//! - `arguments`: the command line, and its errors.  `choices`: options with a few names.
//! - `commands`: one module for each command.  `kernel_options`: the options that describe a kernel.
//! - `status`: the exit status.
//! - `terminal`: output to the terminal: messages, documents, colours.
//! - `source`: reads page tables.  `map`: page tables as the commands see them.  `linux`: facts about Linux.
//! - `table`: tables for people.  `progress`: the line on a terminal for what takes longer than a second.
//! - `size`, `printable`: numbers and untrusted text in a form fit for people.  `whole_file`: files that are replaced.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]

mod arguments;
mod choices;
mod commands;
mod distinct;
mod kernel_options;
mod linux;
mod map;
mod printable;
mod progress;
mod size;
mod source;
mod status;
mod table;
mod terminal;
mod whole_file;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let status = match Arguments::read() {
        Ok(arguments) => arguments.run(),
        Err(refused) => refused.report(),
    };
    status.into()
}
