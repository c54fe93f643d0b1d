//! The `linmap` command: for people who run or write arm64 kernels.
//!
//! - `arguments`: what can be written on the command line, and what is said when it is wrong.
//! - `commands`: one module for each command.
//! - `status`: what a run tells the shell.
//! - `terminal`: messages, documents and colours on their way out.
//! - `source`: where page tables are read from.  `map`: what is made of them.  `linux`: what is known of it.
//! - `table`: tables for people.
//! - `size`, `printable`: numbers and untrusted text, made fit for people.

mod arguments;
mod commands;
mod linux;
mod map;
mod printable;
mod size;
mod source;
mod status;
mod table;
mod terminal;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    let status = match Arguments::read() {
        Ok(arguments) => arguments.run(),
        Err(refused) => refused.report(),
    };
    status.into()
}
