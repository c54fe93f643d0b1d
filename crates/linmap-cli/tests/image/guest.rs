//! One boot of the image, and its output. With `--count`, time is the guest's own and CPUs take turns, which is many
//! times as fast with many CPUs. Without it they run at the same time, which finds races; checks must then not depend
//! on how long the host stops one of them.

use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::json_schema;

/// The default CPU of `linmap boot`, an AmpereOne, which never aborts.
pub(crate) const AMPERE_ONE: &str = "max,midr=0xc00fac30";
/// QEMU's own CPU, without a promise.
pub(crate) const MAX: &str = "max";

/// The result of a boot.
pub(crate) struct Booted {
    pub(crate) status: Option<i32>,
    pub(crate) console: String,
    pub(crate) document: Value,
}

/// Boots with these options and `--json`.
pub(crate) fn boot(options: &[&str]) -> Booted {
    boot_with(options, &[])
}

/// Boots with these options and environment variables. Every document must be as its schema says.
pub(crate) fn boot_with(options: &[&str], environment: &[(&str, &str)]) -> Booted {
    let output = run(options, environment);
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| {
        panic!("{options:?}: no JSON document on stdout: {e}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    let faults = json_schema::faults(&json_schema::read("linmap.boot-1"), &document);
    assert_eq!(faults, Vec::<String>::new(), "{options:?}: docs/schema/linmap.boot-1.json");
    let console = String::from_utf8_lossy(&output.stderr).into_owned();
    Booted { status: output.status.code(), console, document }
}

/// QEMU has an hour of its own CPU time, which no busy host uses up. If it uses none at all, `--idle` ends it.
fn run(options: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -t 3600 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_linmap")]);
    command.args(["boot", "--json", "--timeout", "4000000000"]).args(options);
    command.envs(environment.iter().copied()).stdin(Stdio::null()).output().expect("linmap runs")
}

impl Booted {
    /// Fails unless the kernel finished and all was well.
    pub(crate) fn expect_well(self, what: &str) -> Self {
        assert_eq!(self.status, Some(0), "{what}:\n{}\n{:#}", self.console, self.document);
        self
    }

    /// Returns the value at a JSON pointer.
    pub(crate) fn at(&self, pointer: &str) -> &Value {
        self.document.pointer(pointer).unwrap_or_else(|| panic!("no {pointer} in {:#}", self.document))
    }

    pub(crate) fn number(&self, pointer: &str) -> u64 {
        self.at(pointer).as_u64().unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    pub(crate) fn text(&self, pointer: &str) -> &str {
        self.at(pointer).as_str().unwrap_or_else(|| panic!("{pointer} is {}", self.at(pointer)))
    }

    /// Returns the dump on the console, marker lines included.
    pub(crate) fn dump(&self) -> String {
        let lines = self.console.lines().skip_while(|l| !l.starts_with("---[ Linear Mapping start"));
        let mut dump = String::new();
        for line in lines {
            dump.push_str(line);
            dump.push('\n');
            if line.starts_with("---[ Linear Mapping end") {
                return dump;
            }
        }
        panic!("no whole dump on the console:\n{}", self.console)
    }

    /// Returns true if a line of the console holds this text.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.console.contains(text)
    }
}
