//! QEMU as a process. When its value is dropped, QEMU has ended: no way out of this program, early return or panic,
//! leaves one running.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{self, Pid, Signal, WaitId, WaitIdOptions};

/// A running QEMU, or one that has ended and is not waited for yet.
pub(crate) struct Qemu {
    child: Child,
    /// Also the process group: until the child is waited for, no other process can have this number.
    pid: Pid,
    reaped: bool,
}

impl Qemu {
    /// Starts QEMU in a process group of its own, so that a terminal's Ctrl-C reaches only this program.
    pub(crate) fn start(program: &OsStr, arguments: &[OsString]) -> io::Result<Self> {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let pid = Pid::from_child(&child);
        Ok(Self { child, pid, reaped: false })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Returns its console and its messages, once.
    pub(crate) fn take_output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.child.stdout.take().zip(self.child.stderr.take())
    }

    /// Kills it and everything that it started. If it has ended, kills only processes that it left behind.
    pub(crate) fn kill(&self) {
        if !self.reaped {
            // An error means that no process is left.
            let _ = process::kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Makes sure that it has ended, and returns its exit status.
    pub(crate) fn end(&mut self) -> io::Result<ExitStatus> {
        self.kill();
        let exit = self.child.wait()?;
        self.reaped = true;
        Ok(exit)
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        if !self.reaped {
            // There is no way left to report an error.
            let _ = self.end();
        }
    }
}

/// Waits until the process has ended; its owner still has to wait for it.
pub(crate) fn until_ended(pid: Pid) {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(process::waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
}
