//! One run of QEMU from start to end. The first of these events ends it: QEMU ends, time is up, QEMU uses no CPU time
//! any more, a signal comes, or the reader of the console has left. After each of them no QEMU is left.
//!
//! Threads read and wait, and send events; all decisions are made here, in one place. A slow reader can delay the
//! thread that shows the console, but never this one.

use std::ffi::{OsStr, OsString};
use std::io::{self, ErrorKind, Read};
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::child::{self, Qemu};
use super::command_line;
use super::console::{Piece, Sink, Splitter};
use super::failure::Failure;
use super::pulse::Pulse;
use super::signals;
use super::transcript::Transcript;
use crate::printable::Printable;

/// The wait for the last output of a killed QEMU.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The bytes of QEMU's messages that are kept: the last ones, which have the reason.
const COMPLAINTS: usize = 8 << 10;

/// A run to be made.
pub(crate) struct Job<'a> {
    pub(crate) program: &'a OsStr,
    pub(crate) arguments: &'a [OsString],
    pub(crate) timeout: Duration,
    /// The run ends if QEMU uses no CPU time for so long.
    pub(crate) idle: Duration,
    pub(crate) console: Sink,
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) ending: Ending,
    pub(crate) transcript: Transcript,
    /// The messages of QEMU on stderr.
    pub(crate) complaints: String,
    /// The command that started QEMU.
    pub(crate) command: String,
}

/// The end of a run.
pub(crate) enum Ending {
    /// QEMU ended by itself.
    Exited(ExitStatus),
    TimedOut(Duration),
    /// It used no CPU time for so long.
    Idle(Duration),
    /// By this signal.
    Interrupted(i32),
    /// The reader of the console has left.
    ReaderLeft,
    /// The console could not be shown.
    NotShown(io::Error),
}

/// Something that happened during a run.
pub(crate) enum Event {
    Console(Piece),
    ConsoleEnded,
    NotShown(io::Error),
    Complaint(String),
    ComplaintsEnded,
    Exited,
    Signal(i32),
}

/// Runs QEMU until it has ended, by itself or not.
pub(crate) fn run(job: Job) -> Result<Run, Failure> {
    let started = Instant::now();
    let (sender, events) = mpsc::channel();
    let signals = sender.clone();
    signals::watch(move |signal| signals.send(Event::Signal(signal)).is_ok())
        .map_err(Failure::Supervision)?;
    let mut qemu = Qemu::start(job.program, job.arguments)
        .map_err(|error| Failure::NoQemu { program: job.program.to_string_lossy().into_owned(), error })?;
    listen(&mut qemu, job.console, &sender).map_err(Failure::Supervision)?;

    let mut watch = Watch::new(events);
    let cut_short = watch.until_over(&qemu, started, &job);
    let exit = qemu.end().map_err(Failure::Supervision)?;
    watch.last_words();
    Ok(Run {
        ending: cut_short.unwrap_or(Ending::Exited(exit)),
        transcript: watch.transcript,
        complaints: watch.complaints,
        command: command_line::shown(job.program, job.arguments),
    })
}

/// Starts the threads that turn a running QEMU into events.
fn listen(qemu: &mut Qemu, sink: Sink, sender: &Sender<Event>) -> io::Result<()> {
    let pid = qemu.pid();
    if let Some((console, complaints)) = qemu.take_output() {
        let events = sender.clone();
        spawn("console", move || show_console(console, sink, &events))?;
        let events = sender.clone();
        spawn("complaints", move || hear_complaints(complaints, &events))?;
    }
    let events = sender.clone();
    spawn("exit", move || {
        child::until_ended(pid);
        // In all these threads, an event without a receiver can be lost.
        let _ = events.send(Event::Exited);
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

fn show_console(console: impl Read, sink: Sink, events: &Sender<Event>) {
    let mut splitter = Splitter::default();
    let shown = for_each_read(console, |bytes| show(splitter.push(bytes), sink, events))
        .and_then(|()| show(splitter.finish(), sink, events));
    let _ = events.send(shown.map_or_else(Event::NotShown, |()| Event::ConsoleEnded));
}

fn show(pieces: Vec<Piece>, sink: Sink, events: &Sender<Event>) -> io::Result<()> {
    for piece in pieces {
        // Sent before it is shown, as a slow reader delays that.
        let _ = events.send(Event::Console(piece.clone()));
        if let Piece::Text(text) = piece {
            sink.show(&text)?;
        }
    }
    Ok(())
}

fn hear_complaints(complaints: impl Read, events: &Sender<Event>) {
    let mut printable = Printable::default();
    let _ = for_each_read(complaints, |bytes| {
        let _ = events.send(Event::Complaint(printable.push(bytes)));
        Ok(())
    });
    let _ = events.send(Event::ComplaintsEnded);
}

/// Calls `take` with all bytes that arrive, until the end of the stream or an error of `take`.
fn for_each_read(mut source: impl Read, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut buffer = vec![0; 16 << 10];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => take(&buffer[..length])?,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            // A stream that cannot be read has ended.
            Err(_) => return Ok(()),
        }
    }
}

/// The state of a run.
struct Watch {
    events: Receiver<Event>,
    transcript: Transcript,
    complaints: String,
    exited: bool,
    console_ended: bool,
    complaints_ended: bool,
}

impl Watch {
    fn new(events: Receiver<Event>) -> Self {
        Self {
            events,
            transcript: Transcript::default(),
            complaints: String::new(),
            exited: false,
            console_ended: false,
            complaints_ended: false,
        }
    }

    /// Waits for the end; `None` means that QEMU ended by itself.
    fn until_over(&mut self, qemu: &Qemu, started: Instant, job: &Job) -> Option<Ending> {
        let mut pulse = Pulse::new(qemu.pid(), job.idle);
        while !(self.exited && self.silent()) {
            let left = job.timeout.saturating_sub(started.elapsed());
            // The clock also counts while events arrive.
            let event =
                if left.is_zero() { None } else { self.events.recv_timeout(left.min(pulse.period)).ok() };
            match event {
                None if !left.is_zero() && !pulse.has_stopped() => {}
                None if self.exited => return None,
                None if left.is_zero() => return Some(Ending::TimedOut(job.timeout)),
                None => return Some(Ending::Idle(job.idle)),
                Some(Event::Signal(signal)) => return Some(Ending::Interrupted(signal)),
                Some(Event::NotShown(error)) if error.kind() == ErrorKind::BrokenPipe => {
                    return Some(Ending::ReaderLeft);
                }
                Some(Event::NotShown(error)) => return Some(Ending::NotShown(error)),
                Some(event) => self.note(event),
            }
            if self.exited {
                // Processes that it left behind would keep its console open.
                qemu.kill();
            }
        }
        None
    }

    /// Records the output up to the end of a killed QEMU.
    fn last_words(&mut self) {
        let killed = Instant::now();
        while !self.silent() {
            let left = LAST_WORDS.saturating_sub(killed.elapsed());
            match self.events.recv_timeout(left) {
                Ok(event) if !left.is_zero() => self.note(event),
                _ => return,
            }
        }
    }

    fn silent(&self) -> bool {
        self.console_ended && self.complaints_ended
    }

    fn note(&mut self, event: Event) {
        match event {
            Event::Console(piece) => self.transcript.take(piece),
            Event::ConsoleEnded | Event::NotShown(_) => self.console_ended = true,
            Event::Complaint(text) => self.complain(&text),
            Event::ComplaintsEnded => self.complaints_ended = true,
            Event::Exited => self.exited = true,
            Event::Signal(_) => {}
        }
    }

    fn complain(&mut self, text: &str) {
        self.complaints.push_str(text);
        let excess = self.complaints.len().saturating_sub(COMPLAINTS);
        let start = (excess..).find(|at| self.complaints.is_char_boundary(*at));
        self.complaints.drain(..start.unwrap_or_default());
    }
}
