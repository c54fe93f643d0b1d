//! `linmap plan`: what it says for people and programs, what it says of bad input, what sweeps show.
//! That a plan is what the image reports is tested with the image.

mod input;
mod output;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Where the kernel of these tests is, so that nothing depends on what was built.
pub(crate) const KERNEL: [&str; 2] = ["--kernel", "0x40200000-0x40240000"];

/// `linmap plan` with these options.
pub(crate) fn plan(options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linmap"));
    command.arg("plan").args(options).stdin(Stdio::null()).output().expect("linmap runs")
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What a run that went well printed.
pub(crate) fn printed(options: &[&str]) -> String {
    let output = plan(options);
    assert_eq!((output.status.code(), &*text(&output.stderr)), (Some(0), ""), "{options:?}");
    text(&output.stdout)
}

pub(crate) fn document(options: &[&str]) -> Value {
    let text = printed(&[options, &["--json"]].concat());
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{options:?}: {error}: {text}"))
}
