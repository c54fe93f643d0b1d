//! The `linmap` command: for people who run or write arm64 kernels.
//!
//! - `arguments`: what can be written on the command line, and what is said when it is wrong.
//! - `commands`: one module for each command.
//! - `status`: what a run tells the shell.
//! - `terminal`: messages, documents and colours on their way out.
//! - `size`, `printable`: numbers and untrusted text, made fit for people.

mod arguments;
mod commands;
mod printable;
mod size;
mod status;
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
