//! QEMU's QMP monitor, as the tests themselves need it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};

/// A connection to the monitor. QEMU has one at a time, so it is closed before the command connects.
pub(crate) struct Monitor(BufReader<UnixStream>);

impl Monitor {
    pub(crate) fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("a monitor");
        let mut monitor = Self(BufReader::new(socket));
        monitor.0.read_line(&mut String::new()).expect("a greeting");
        monitor.execute(&json!({ "execute": "qmp_capabilities" }));
        monitor
    }

    /// Returns the answer to a command for people.
    pub(crate) fn command(&mut self, line: &str) -> String {
        let arguments = json!({ "command-line": line });
        let answer = self.execute(&json!({ "execute": "human-monitor-command", "arguments": arguments }));
        answer.as_str().unwrap_or_else(|| panic!("{line}: {answer}")).to_owned()
    }

    fn execute(&mut self, request: &Value) -> Value {
        writeln!(self.0.get_mut(), "{request}").expect("a monitor");
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).expect("an answer");
            let mut answer: Value = serde_json::from_str(&line).unwrap_or_else(|e| panic!("{line:?}: {e}"));
            assert_eq!(answer.get("error"), None, "{request}");
            if let Some(returned) = answer.get_mut("return") {
                return returned.take();
            }
        }
    }
}
