//! A gdbstub of a QEMU: its own, or one that is started for a moment and ended again.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Duration;

use super::answers::{self, Listening};
use super::error::QemuError;
use super::monitor::{Monitor, MonitorError};
use crate::source::error::{Halted, Problem};
use crate::source::gdb::{Address, Attached, GdbError, resolve};
use crate::source::interrupts::{self, Held};
use crate::source::mark::Mark;
use crate::source::pause::Pause;

/// The time in which the gdbstub has to let the guest run; after that the monitor does.
pub(super) const GOODBYE: Duration = Duration::from_millis(500);
/// The beginning of the name of the socket's directory.
const DIRECTORY: &str = "linmap-";
/// The socket's name in it.
const SOCKET: &str = "gdb";

/// A borrowed gdbstub: afterwards the state is as before.
pub(super) struct BorrowedStub<'m> {
    monitor: &'m mut Monitor,
    listening: Listening,
    /// True if it was started by this run, or by one that was killed.
    started: bool,
    /// The directory of its socket, to be removed.
    directory: Option<PathBuf>,
    /// True if the guest ran.
    running: bool,
    /// True if the guest is to run afterwards.
    goes_on: bool,
    /// The mark of this run.
    own: Option<Mark>,
    /// The mark of a run that was killed.
    left: Option<Mark>,
    /// True if everything was given back.
    done: bool,
    /// Signals wait until everything is given back, so this is dropped last.
    _held: Held,
}

impl<'m> BorrowedStub<'m> {
    /// Finds or starts a stub, and leaves a mark on a guest that runs, since it is to be halted.
    pub(super) fn from(monitor: &'m mut Monitor, pause: Pause) -> Result<Self, QemuError> {
        let running = answers::is_running(&monitor.command("info status")?);
        let devices = monitor.command("info chardev")?;
        let (listening, left) = (answers::gdbstub(&devices), Mark::find(&devices));
        if listening == Listening::Busy {
            return Err(QemuError::StubBusy);
        }
        let directory = left.as_ref().filter(|left| left.stub).and_then(|_| directory_of(&listening));
        let mut lent = Self {
            monitor,
            // This run also ends the stub of a killed one.
            started: left.as_ref().is_some_and(|left| left.stub) && listening != Listening::Nowhere,
            listening,
            directory,
            running,
            goes_on: running || pause.resume,
            own: None,
            left,
            done: false,
            _held: interrupts::hold(),
        };
        lent.mark()?;
        if lent.listening == Listening::Nowhere {
            lent.start()?;
        }
        Ok(lent)
    }

    fn mark(&mut self) -> Result<(), MonitorError> {
        if self.running {
            let mark = Mark::own(self.listening == Listening::Nowhere || self.started);
            let add = mark.add();
            self.own = Some(mark);
            self.monitor.command(&add)?;
        }
        Ok(())
    }

    /// Connects to it, which halts the guest.
    pub(super) fn attach(&self, pause: Pause) -> Result<Attached, Problem> {
        match &self.listening {
            Listening::Tcp(address) => {
                let addresses = resolve(address).map_err(GdbError::from)?;
                Attached::to(Address::Tcp(&addresses), pause)
            }
            Listening::Unix(path) => Attached::to(Address::Unix(path), pause),
            Listening::Nowhere | Listening::Busy => Err(QemuError::StubBusy.into()),
        }
    }

    /// Returns true if the guest is to run afterwards: if it ran before, or is to be resumed.
    pub(super) const fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Returns true if the guest ran before.
    pub(super) const fn was_running(&self) -> bool {
        self.running
    }

    /// Returns the mark of a killed run that left the guest halted, if there is one.
    pub(super) fn left_halted(&self) -> Option<Mark> {
        self.left.clone().filter(|_| !self.running)
    }

    /// Ends the stub if it was started, and makes sure that the guest runs if it is to.
    pub(super) fn give_back(mut self) -> Result<(), Halted> {
        self.restore()
    }

    fn restore(&mut self) -> Result<(), Halted> {
        self.done = true;
        if self.started {
            // A failure here cannot be repaired.
            let _ = self.monitor.command("gdbserver none");
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_file(directory.join(SOCKET));
            let _ = fs::remove_dir(directory);
        }
        if self.goes_on {
            self.go_on().map_err(|why| Halted::Monitor(why.to_string()))?;
        }
        let gone = if self.goes_on { self.left.take() } else { None };
        for mark in self.own.take().iter().chain(&gone) {
            let _ = self.monitor.command(&mark.remove());
        }
        Ok(())
    }

    fn go_on(&mut self) -> Result<(), MonitorError> {
        if answers::is_running(&self.monitor.command("info status")?) {
            return Ok(());
        }
        let answer = self.monitor.command("cont")?;
        let status = self.monitor.command("info status")?;
        // It can have ended, or have stopped for a reason of its own.
        if status.contains("paused") {
            let why = crate::printable::excerpt(&format!("{answer}{status}"), 200);
            return Err(MonitorError::Refused { command: "cont".to_owned(), why });
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), QemuError> {
        if let Some(socket) = self.private_socket() {
            let device = format!("unix:{},server=on,wait=off", socket.display());
            self.start_on(&device)?;
            if self.started && socket.exists() {
                self.listening = Listening::Unix(socket);
                return Ok(());
            }
        }
        // A QEMU in a sandbox can still listen on this machine.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.map_err(|error| QemuError::NoStub(error.to_string()))?.to_string();
        let answer = self.start_on(&format!("tcp:{address}"))?;
        self.listening = Listening::Tcp(address);
        if self.started { Ok(()) } else { Err(QemuError::NoStub(crate::printable::excerpt(&answer, 200))) }
    }

    fn start_on(&mut self, device: &str) -> Result<String, QemuError> {
        let answer = self.monitor.command(&format!("gdbserver {device}"))?;
        self.started = answer.contains("Waiting for gdb connection");
        Ok(answer)
    }

    /// Returns a path in a new directory that only QEMU's user and root can enter.
    fn private_socket(&mut self) -> Option<PathBuf> {
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
        let directory = std::env::temp_dir().join(format!("{DIRECTORY}{}-{nanos}", process::id()));
        fs::DirBuilder::new().mode(0o700).create(&directory).ok()?;
        self.directory = Some(directory.clone());
        let (_, user) = self.monitor.peer()?;
        if rustix::process::geteuid().as_raw() != user {
            chown(&directory, Some(user), None).ok()?;
        }
        let path = directory.join(SOCKET);
        // The monitor would split a path with such characters.
        path.to_str().filter(|path| !path.contains([',', ' ', '"', '\\'])).map(PathBuf::from)
    }
}

/// Returns the directory that a run of this program made for a stub.
fn directory_of(listening: &Listening) -> Option<PathBuf> {
    let Listening::Unix(socket) = listening else { return None };
    let directory = socket.parent().filter(|_| socket.ends_with(SOCKET))?;
    let is_ours = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with(DIRECTORY);
    directory.file_name().is_some_and(is_ours).then(|| Path::to_path_buf(directory))
}

impl Drop for BorrowedStub<'_> {
    fn drop(&mut self) {
        if !self.done {
            // The cause is reported already.
            let _ = self.restore();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_this_program_are_removed() {
        let of = |path: &str| directory_of(&Listening::Unix(path.into()));
        assert_eq!(of("/tmp/linmap-1-2/gdb"), Some(PathBuf::from("/tmp/linmap-1-2")));
        for other in ["/tmp/linmap-1-2/other", "/run/gdb", "gdb", "/gdb"] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(directory_of(&Listening::Tcp("127.0.0.1:1".into())), None);
    }
}
