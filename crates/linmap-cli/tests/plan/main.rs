//! `linmap plan`: its output for people and programs, its errors on bad input, its sweeps. The tests of the image
//! compare plans with its reports.

#[path = "../common/document.rs"]
mod fitted;
mod input;
#[path = "../common/json_schema.rs"]
mod json_schema;
mod output;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The place of the kernel in these tests, so that nothing depends on a build.
pub(crate) const KERNEL: [&str; 2] = ["--kernel", "0x40200000-0x40240000"];

/// Runs `linmap plan` with these options.
pub(crate) fn plan(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("plan").args(options).stdin(Stdio::null()).output().expect("linmap runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// Returns the output of a run that went well.
pub(crate) fn printed(options: &[&str]) -> String {
    let output = plan(options);
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{options:?}");
    text(&output.stdout)
}

/// Returns the document of a run that went well, which fits its schema.
pub(crate) fn document(options: &[&str]) -> Value {
    fitted::fitting(&printed(&[options, &["--json"]].concat()), options)
}
