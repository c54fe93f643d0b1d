//! QEMU's monitor, of either kind: executes commands for people and returns their text.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time limit of a free monitor's greeting.
const GREETING: Duration = Duration::from_secs(3);
/// The most bytes of an answer.
const MAX_ANSWER: usize = 16 << 20;
/// The prompt of the monitor for people.
const PROMPT: &[u8] = b"(qemu) ";

/// Why there is no monitor.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MonitorError {
    #[error("its monitor cannot be connected to: {0}; root or QEMU's own user may")]
    Denied(io::Error),
    #[error(
        "no monitor there: {0}; QEMU makes one by `-qmp unix:SOCKET,server=on,wait=off` or `-monitor unix:...`"
    )]
    Connect(io::Error),
    #[error(
        "the monitor does not greet; it talks to one at a time, so is somebody else connected? (libvirt is, to its own)"
    )]
    Busy,
    #[error("what listens there is no QEMU monitor: it says `{0}`")]
    NotAMonitor(String),
    #[error("the monitor has gone away: {0}")]
    Gone(io::Error),
    #[error("the monitor did not answer `{0}` within {seconds} s", seconds = PATIENCE.as_secs())]
    Silent(String),
    #[error("the monitor refuses `{command}`: {why}")]
    Refused { command: String, why: String },
}

/// The language of a monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// JSON, for programs.
    Qmp,
    /// Lines, for people.
    Hmp,
}

/// A connection to a monitor.
pub(crate) struct Monitor {
    socket: UnixStream,
    arrived: Vec<u8>,
    kind: Kind,
    /// The number of requests so far.
    asked: u64,
}

impl Monitor {
    /// Connects and finds out the kind of the monitor.
    pub(crate) fn connect(path: &Path) -> Result<Self, MonitorError> {
        let socket = crate::source::socket::connect(path).map_err(|error| match error.kind() {
            io::ErrorKind::PermissionDenied => MonitorError::Denied(error),
            _ => MonitorError::Connect(error),
        })?;
        let mut monitor = Self { socket, arrived: Vec::new(), kind: Kind::Qmp, asked: 0 };
        let until = Instant::now() + GREETING;
        monitor.kind = loop {
            if let Some(kind) = kind(&monitor.arrived)? {
                break kind;
            }
            monitor.receive("", until).map_err(|error| match error {
                MonitorError::Silent(_) => MonitorError::Busy,
                error => error,
            })?;
        };
        match monitor.kind {
            Kind::Qmp => {
                monitor.line("greeting", Instant::now() + PATIENCE)?;
                monitor.execute(&json!({ "execute": "qmp_capabilities" }), "qmp_capabilities")?;
            }
            Kind::Hmp => drop(monitor.until_prompt("")?),
        }
        Ok(monitor)
    }

    /// Returns the process at the other end: its number, if it is visible from here, and its user.
    pub(super) fn peer(&self) -> Option<(u32, u32)> {
        let peer = rustix::net::sockopt::socket_peercred(&self.socket).ok()?;
        Some((u32::try_from(peer.pid.as_raw_nonzero().get()).ok()?, peer.uid.as_raw()))
    }

    /// Executes a command for people and returns its output, with lines ended by `\n`.
    pub(crate) fn command(&mut self, command: &str) -> Result<String, MonitorError> {
        let text = match self.kind {
            Kind::Qmp => {
                let arguments = json!({ "command-line": command });
                let request = json!({ "execute": "human-monitor-command", "arguments": arguments });
                let answer = self.execute(&request, command)?;
                answer.as_str().unwrap_or_default().to_owned()
            }
            Kind::Hmp => {
                self.socket.write_all(format!("{command}\n").as_bytes()).map_err(MonitorError::Gone)?;
                self.until_prompt(command)?
            }
        };
        Ok(text.replace('\r', ""))
    }

    /// Reads up to the next prompt, and removes the echo of the command.
    fn until_prompt(&mut self, command: &str) -> Result<String, MonitorError> {
        let until = Instant::now() + PATIENCE;
        while !self.arrived.ends_with(PROMPT) {
            self.receive(command, until)?;
        }
        let text = std::mem::take(&mut self.arrived);
        let text = String::from_utf8_lossy(&text[..text.len() - PROMPT.len()]).into_owned();
        Ok(text.split_once('\n').map(|(_, answer)| answer.to_owned()).unwrap_or_default())
    }

    /// Returns the result of a QMP request; events before it are skipped.
    fn execute(&mut self, request: &Value, name: &str) -> Result<Value, MonitorError> {
        self.asked += 1;
        // QEMU may still answer a client that has gone, and the next client receives it.
        let id: Value = format!("linmap-{}-{}", std::process::id(), self.asked).into();
        let mut request = request.clone();
        request["id"] = id.clone();
        self.socket.write_all(format!("{request}\n").as_bytes()).map_err(MonitorError::Gone)?;
        let until = Instant::now() + PATIENCE;
        loop {
            let line = self.line(name, until)?;
            let mut answer: Value =
                serde_json::from_slice(&line).map_err(|_| MonitorError::NotAMonitor(shown(&line)))?;
            if answer.get("id") != Some(&id) {
                continue;
            }
            if let Some(returned) = answer.get_mut("return") {
                return Ok(returned.take());
            }
            if let Some(error) = answer.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or("no reason given");
                let why = crate::printable::excerpt(why, 200);
                return Err(MonitorError::Refused { command: name.to_owned(), why });
            }
        }
    }

    /// The next line.
    fn line(&mut self, name: &str, until: Instant) -> Result<Vec<u8>, MonitorError> {
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.arrived) {
                return Ok(self.arrived.drain(..=end).collect());
            }
            self.receive(name, until)?;
        }
    }

    fn receive(&mut self, command: &str, until: Instant) -> Result<(), MonitorError> {
        let patience = until.saturating_duration_since(Instant::now());
        if patience.is_zero() || self.arrived.len() > MAX_ANSWER {
            return Err(MonitorError::Silent(command.to_owned()));
        }
        let mut buffer = [0; 1 << 14];
        let read = self.socket.set_read_timeout(Some(patience)).and_then(|()| self.socket.read(&mut buffer));
        match read {
            Ok(0) => Err(MonitorError::Gone(io::ErrorKind::UnexpectedEof.into())),
            Ok(bytes) => {
                self.arrived.extend_from_slice(&buffer[..bytes]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                Err(MonitorError::Silent(command.to_owned()))
            }
            // A signal waits until everything is given back.
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(MonitorError::Gone(error)),
        }
    }
}

/// Returns the kind of monitor by its greeting, or `None` while that is not complete.
fn kind(greeting: &[u8]) -> Result<Option<Kind>, MonitorError> {
    const QMP: &[u8] = b"{\"QMP\"";
    const HMP: &[u8] = b"QEMU ";
    let begins = |with: &[u8]| {
        let common = greeting.len().min(with.len());
        greeting[..common] == with[..common]
    };
    match greeting {
        _ if greeting.starts_with(QMP) => Ok(Some(Kind::Qmp)),
        _ if greeting.starts_with(HMP) && greeting.ends_with(PROMPT) => Ok(Some(Kind::Hmp)),
        _ if begins(QMP) || begins(HMP) => Ok(None),
        _ => Err(MonitorError::NotAMonitor(shown(greeting))),
    }
}

fn shown(bytes: &[u8]) -> String {
    crate::printable::excerpt(&String::from_utf8_lossy(bytes), 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_is_known_by_its_greeting() {
        assert_eq!(kind(b"").ok(), Some(None));
        assert_eq!(kind(b"{\"QM").ok(), Some(None));
        assert_eq!(kind(b"{\"QMP\": {\"version\"").ok(), Some(Some(Kind::Qmp)));
        assert_eq!(kind(b"QEMU 7.2.22 monitor").ok(), Some(None));
        assert_eq!(kind(b"QEMU 7.2.22 monitor - type 'help'\r\n(qemu) ").ok(), Some(Some(Kind::Hmp)));
        assert!(kind(b"SSH-2.0-OpenSSH").is_err());
    }
}
