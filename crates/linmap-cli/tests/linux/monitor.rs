//! QEMU's QMP monitor, as the tests themselves need it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

/// A connection to the monitor, and the events on it. QEMU has one at a time, so it is closed before the command connects.
pub(crate) struct Monitor(BufReader<UnixStream>, Vec<Value>);

impl Monitor {
    pub(crate) fn connect(path: &Path) -> Self {
        let socket = UnixStream::connect(path).expect("a monitor");
        let mut monitor = Self(BufReader::new(socket), Vec::new());
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
            match answer.get_mut("return") {
                Some(returned) => return returned.take(),
                None => self.1.push(answer),
            }
        }
    }
}

/// The events of QEMU since a moment: when its guest stood still.
pub(crate) struct Events(Monitor);

impl Events {
    pub(crate) fn of(path: &Path) -> Self {
        Self(Monitor::connect(path))
    }

    /// Returns how long each halt was, by QEMU's own times.
    pub(crate) fn halts(mut self) -> Vec<Duration> {
        // Events come before the answer to a later question.
        self.0.execute(&json!({ "execute": "query-status" }));
        let time = |event: &Value| {
            let part = |name: &str| event["timestamp"][name].as_u64().expect("a time");
            Duration::from_secs(part("seconds")) + Duration::from_micros(part("microseconds"))
        };
        let of =
            |name: &str| self.0.1.iter().filter(|event| event["event"] == name).map(time).collect::<Vec<_>>();
        let (stops, resumes) = (of("STOP"), of("RESUME"));
        assert_eq!(stops.len(), resumes.len(), "a halt has no end");
        resumes.iter().zip(&stops).map(|(resume, stop)| resume.saturating_sub(*stop)).collect()
    }
}
