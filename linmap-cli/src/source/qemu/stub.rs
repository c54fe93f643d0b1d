//! A gdbstub of a QEMU: the one that it has, or one that is started for a moment and ended again.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::PathBuf;
use std::process;

use super::QemuError;
use super::answers::{self, Listening};
use super::monitor::Monitor;
use crate::source::error::Why;
use crate::source::gdb::{Address, Attached};

/// A gdbstub on loan: whatever was there before is there afterwards.
pub(super) struct Lent<'m> {
    monitor: &'m mut Monitor,
    listening: Listening,
    /// Whether it was started for this.
    started: bool,
    /// The directory of its socket, to be removed.
    directory: Option<PathBuf>,
    /// Whether the guest ran.
    running: bool,
}

impl<'m> Lent<'m> {
    /// Finds or starts a stub.
    pub(super) fn from(monitor: &'m mut Monitor) -> Result<Self, QemuError> {
        let running = answers::is_running(&monitor.command("info status")?);
        let listening = answers::gdbstub(&monitor.command("info chardev")?);
        let mut lent = Self { monitor, listening, started: false, directory: None, running };
        match lent.listening {
            Listening::Busy => return Err(QemuError::StubBusy),
            Listening::Nowhere => lent.start()?,
            Listening::Tcp(_) | Listening::Unix(_) => {}
        }
        Ok(lent)
    }

    /// Connects to it, by which the guest stops.
    pub(super) fn attach(&self) -> Result<Attached, Why> {
        // Whoever had stopped the guest finds it so.
        match &self.listening {
            Listening::Tcp(address) => Attached::to(Address::Tcp(address), self.running),
            Listening::Unix(path) => Attached::to(Address::Unix(path), self.running),
            Listening::Nowhere | Listening::Busy => Err(QemuError::StubBusy.into()),
        }
    }

    /// Ends what was started. Dropping does the same.
    pub(super) fn give_back(self) {}

    fn start(&mut self) -> Result<(), QemuError> {
        if let Some(socket) = self.private_socket() {
            let device = format!("unix:{},server=on,wait=off", socket.display());
            self.start_on(&device)?;
            if self.started && socket.exists() {
                self.listening = Listening::Unix(socket);
                return Ok(());
            }
        }
        // A QEMU that is locked in somewhere else can still listen on this machine.
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

    /// A path in a new directory that only QEMU's user and root can enter.
    fn private_socket(&mut self) -> Option<PathBuf> {
        let nanos = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.subsec_nanos());
        let directory = std::env::temp_dir().join(format!("linmap-{}-{nanos}", process::id()));
        fs::DirBuilder::new().mode(0o700).create(&directory).ok()?;
        self.directory = Some(directory.clone());
        let (_, user) = self.monitor.peer()?;
        if rustix::process::geteuid().as_raw() != user {
            chown(&directory, Some(user), None).ok()?;
        }
        let path = directory.join("gdb");
        // What the monitor would take apart is not offered to it.
        path.to_str().filter(|path| !path.contains([',', ' ', '"', '\\'])).map(PathBuf::from)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // There is nothing more to be done about any failure here.
        if self.started {
            let _ = self.monitor.command("gdbserver none");
        }
        if self.running {
            let status = self.monitor.command("info status");
            if status.is_ok_and(|status| status.contains("paused")) {
                let _ = self.monitor.command("cont");
            }
        }
        if let Some(directory) = &self.directory {
            let _ = fs::remove_dir_all(directory);
        }
    }
}
