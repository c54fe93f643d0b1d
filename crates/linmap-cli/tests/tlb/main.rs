//! `linmap tlb`: workloads and traces, the same for the same seed; cores; errors on bad input.

mod cores;
#[path = "../common/document.rs"]
mod fitted;
#[path = "../common/json_schema.rs"]
mod json_schema;
mod traces;
mod workloads;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The place of the kernel in these tests, so that nothing depends on a build.
const KERNEL: [&str; 2] = ["--kernel", "0x40200000-0x40240000"];

/// Runs `linmap tlb` with these options.
pub(crate) fn tlb(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("tlb").args(KERNEL).args(options).stdin(Stdio::null()).output().expect("linmap runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns the output of a run that went well.
pub(crate) fn printed(options: &[&str]) -> String {
    let output = tlb(options);
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{options:?}");
    text(&output.stdout)
}

/// Returns the document of a run that went well, which fits its schema.
pub(crate) fn document(options: &[&str]) -> Value {
    fitted::fitting(&printed(&[options, &["--json"]].concat()), options)
}

/// Returns the message for wrong options.
pub(crate) fn refused(options: &[&str]) -> String {
    let output = tlb(options);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(2), ""), "{options:?}");
    text(&output.stderr)
}
