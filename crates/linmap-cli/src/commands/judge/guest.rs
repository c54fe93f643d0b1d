//! QEMU from its start to its end. It is asked to end by SIGTERM, at which the plugin writes its document, and killed only if it
//! does not.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::failure::Failure;
use crate::commands::boot::console::Sink;
use crate::commands::boot::signals;
use crate::printable::Printable;
use crate::source::Monitor;
use crate::status::Status;

/// The time in which QEMU ends when it is asked to.
const GRACE: Duration = Duration::from_secs(20);

/// A guest to be run.
pub(crate) struct Guest<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    /// It ends after so many seconds.
    pub(crate) seconds: Option<u32>,
    /// It ends when its console has shown this.
    pub(crate) until: Option<&'a str>,
    /// Shows its console, if anything does.
    pub(crate) console: Option<Sink>,
    pub(crate) stop: Option<Stop<'a>>,
}

/// A machine is paused at its first breach.
pub(crate) struct Stop<'a> {
    /// The file that is there once there was a breach.
    pub(crate) at: &'a Path,
    /// The socket of QEMU's monitor.
    pub(crate) monitor: &'a Path,
    /// Tells the user when it is paused.
    pub(crate) paused: &'a dyn Fn() -> Result<Status, Failure>,
}

/// The end of a run.
pub(crate) struct Ending {
    pub(crate) why: Why,
    pub(crate) time: Duration,
    /// The answer that was given when it was paused.
    pub(crate) paused: Option<Status>,
}

/// The reason that a guest ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Why {
    /// QEMU ended by itself.
    Exited(ExitStatus),
    /// It showed the text.
    Shown,
    /// It had a breach, and could not be paused.
    Breach,
    /// It closed its console, and went on.
    Closed,
    /// Its time was over.
    TimedOut,
    /// This program was asked to end, by this signal.
    Signal(i32),
    /// QEMU did not end when it was asked to.
    Killed,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(status) if status.success() => f.write_str("QEMU ended"),
            Self::Exited(status) => write!(f, "QEMU ended with {status}"),
            Self::Closed => f.write_str("QEMU closed its console"),
            Self::Breach => f.write_str("a breach"),
            Self::Shown => f.write_str("the console showed the text"),
            Self::TimedOut => f.write_str("the time was over"),
            Self::Signal(number) => write!(f, "signal {number}"),
            Self::Killed => f.write_str("QEMU did not end when it was asked to, and was killed"),
        }
    }
}

enum Event {
    Breach,
    Shown,
    Exited,
    Signal(i32),
}

impl Guest<'_> {
    /// Runs it to its end.
    pub(crate) fn run(&self) -> Result<Ending, Failure> {
        let begun = Instant::now();
        let (sender, events) = mpsc::channel();
        let to = sender.clone();
        signals::watch(move |signal| to.send(Event::Signal(signal)).is_ok()).map_err(Failure::Supervision)?;
        let mut child = Command::new(self.program)
            .args(&self.arguments)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| Failure::NoQemu { program: self.program.display().to_string(), error })?;
        let console = child.stdout.take();
        let (sink, until) = (self.console, self.until.map(str::to_owned));
        if let Some(stop) = &self.stop {
            let (file, to) = (stop.at.to_owned(), sender.clone());
            thread::spawn(move || wait_for(&file, &to));
        }
        let reader = thread::spawn(move || show(console, sink, until.as_deref(), &sender));

        let mut paused = None;
        let limit = self.seconds.map(|seconds| Duration::from_secs(seconds.into()));
        let asked = loop {
            let event = match limit.filter(|_| paused.is_none()) {
                Some(limit) => events.recv_timeout(limit.saturating_sub(begun.elapsed())),
                None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            break match event {
                Ok(Event::Breach) => {
                    if let Some(stop) = &self.stop {
                        paused = Some(stop.pause());
                        if paused.as_ref().is_some_and(Result::is_ok) {
                            continue;
                        }
                    }
                    Some(Why::Breach)
                }
                Ok(Event::Exited) | Err(RecvTimeoutError::Disconnected) => None,
                Ok(Event::Shown) => Some(Why::Shown),
                Ok(Event::Signal(number)) => Some(Why::Signal(number)),
                Err(RecvTimeoutError::Timeout) => Some(Why::TimedOut),
            };
        };
        let why = match asked {
            None => ended(&mut child).map_err(Failure::Supervision)?,
            Some(why) => end(&mut child, why).map_err(Failure::Supervision)?,
        };
        // The console's last words.
        let _ = reader.join();
        Ok(Ending { why, time: begun.elapsed(), paused: paused.transpose()? })
    }
}

impl Stop<'_> {
    /// Pauses the machine, and tells the user.
    fn pause(&self) -> Result<Status, Failure> {
        let mut monitor = Monitor::connect(self.monitor).map_err(Failure::Monitor)?;
        monitor.command("stop").map_err(Failure::Monitor)?;
        drop(monitor);
        (self.paused)()
    }
}

/// Tells of a file once it is there.
fn wait_for(file: &Path, events: &Sender<Event>) {
    while !file.exists() {
        thread::sleep(Duration::from_millis(20));
        // The run has ended, and its files are gone.
        if !file.parent().is_some_and(Path::exists) {
            return;
        }
    }
    // Without a receiver the run has ended.
    let _ = events.send(Event::Breach);
}

/// Waits for a QEMU that has closed its console.
fn ended(child: &mut Child) -> io::Result<Why> {
    let closed = Instant::now();
    while closed.elapsed() < GRACE {
        if let Some(status) = child.try_wait()? {
            return Ok(Why::Exited(status));
        }
        thread::sleep(Duration::from_millis(20));
    }
    end(child, Why::Closed)
}

/// Asks QEMU to end, and kills it if it does not.
fn end(child: &mut Child, why: Why) -> io::Result<Why> {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if child.try_wait()?.is_some() {
            return Ok(why);
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill()?;
    child.wait()?;
    Ok(Why::Killed)
}

/// Shows the console, and looks for the text that ends the guest.
fn show(console: Option<ChildStdout>, sink: Option<Sink>, until: Option<&str>, events: &Sender<Event>) {
    let mut printable = Printable::default();
    let mut buffer = vec![0; 16 << 10];
    let mut last = String::new();
    let mut console = console;
    while let Some(length) = console.as_mut().and_then(|c| c.read(&mut buffer).ok()).filter(|n| *n != 0) {
        let text = printable.push(&buffer[..length]).replace('\r', "");
        // A reader that has left does not end the guest: its findings count.
        let _ = sink.map(|sink| sink.show(&text));
        if let Some(until) = until {
            last.push_str(&text);
            if last.contains(until) {
                let _ = events.send(Event::Shown);
            }
            let excess = last.len().saturating_sub(until.len() + 4);
            let start = (excess..).find(|at| last.is_char_boundary(*at));
            last.drain(..start.unwrap_or_default());
        }
    }
    let _ = events.send(Event::Exited);
}
