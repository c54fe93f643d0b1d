//! A stub at the other end of a socket: questions and answers, each in bounded time.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use linmap::Pa;

use super::super::memory::{Each, Physical, Unreadable};
use super::description::{Description, Part, Register, parts};
use super::packet::{Arrived, frame, take, unhex};

/// How long an answer may take. A stub answers in less than a millisecond.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a whole connection may take; 1 TiB of RAM in 4K pages has tables for twenty seconds.
const SESSION: Duration = Duration::from_secs(180);
/// As many questions are asked before the first is answered.
const AHEAD: usize = 32;
/// A description has fewer documents, none of them longer.
const MOST_DOCUMENTS: usize = 64;
const LONGEST_DOCUMENT: usize = 4 << 20;
/// More CPUs are not looked at.
const MOST_THREADS: usize = 4096;

/// Why a stub can not be talked to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StubError {
    #[error("no gdbstub there: {0}; QEMU starts one with `-gdb tcp::1234`")]
    Connect(io::Error),
    #[error("the gdbstub has gone away")]
    Gone,
    #[error("the gdbstub did not answer `{0}` within {seconds} s; is it one?", seconds = PATIENCE.as_secs())]
    Silent(String),
    #[error("the connection failed: {0}")]
    Io(io::Error),
    #[error("what answers is no gdbstub: its answer to `{0}` is no packet, or a damaged one")]
    Damaged(String),
    #[error("the gdbstub's answer to `{question}` makes no sense: `{answer}`")]
    Senseless { question: String, answer: String },
}

/// Both kinds of sockets.
trait Socket: Read + Write {
    fn patience(&self, patience: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience)).and_then(|()| self.set_write_timeout(Some(patience)))
    }
}

impl Socket for UnixStream {
    fn patience(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience)).and_then(|()| self.set_write_timeout(Some(patience)))
    }
}

/// A connection and what has arrived on it.
struct Wire {
    socket: Box<dyn Socket>,
    arrived: Vec<u8>,
    /// How much of that has been taken.
    taken: usize,
    /// When it has taken too long.
    end: Instant,
}

/// A stub. While there is a connection the target stands still.
pub(crate) struct Stub {
    wire: RefCell<Option<Wire>>,
    /// The most bytes of memory that one packet brings.
    most: usize,
    /// The process of the first thread, where the stub has processes.
    process: Option<String>,
}

impl Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Stub {
    /// Connects to `HOST:PORT`; from then on the target stands still.
    pub(super) fn connect_tcp(address: &str) -> Result<Self, StubError> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in address.to_socket_addrs().map_err(StubError::Connect)? {
            match TcpStream::connect_timeout(&address, PATIENCE) {
                Ok(socket) => {
                    // Without it questions wait for one another's acknowledgement.
                    let _ = socket.set_nodelay(true);
                    return Self::greet(Box::new(socket));
                }
                Err(error) => last = error,
            }
        }
        Err(StubError::Connect(last))
    }

    /// The same, with a socket in the file system.
    pub(super) fn connect_unix(path: &Path) -> Result<Self, StubError> {
        Self::greet(Box::new(UnixStream::connect(path).map_err(StubError::Connect)?))
    }

    fn greet(socket: Box<dyn Socket>) -> Result<Self, StubError> {
        let wire = Wire { socket, arrived: Vec::new(), taken: 0, end: Instant::now() + SESSION };
        let mut stub = Self { wire: RefCell::new(Some(wire)), most: 64, process: None };
        let features = stub.ask("qSupported:multiprocess+;qXfer:features:read+;xmlRegisters=aarch64")?;
        let size = features.split(';').find_map(|feature| feature.strip_prefix("PacketSize="));
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).unwrap_or(128);
        stub.most = (size / 2).clamp(8, 1 << 16);
        Ok(stub)
    }

    /// Asks something that is answered by text.
    pub(super) fn ask(&self, question: &str) -> Result<String, StubError> {
        self.with_wire(|wire| {
            wire.send(question)?;
            let answer = wire.answer(question)?;
            String::from_utf8(answer).map_err(|_| StubError::Damaged(question.to_owned()))
        })
    }

    /// Whether the connection has failed.
    pub(super) fn is_lost(&self) -> bool {
        self.wire.borrow().is_none()
    }

    /// Does something with the connection, which ends with the first failure.
    fn with_wire<T>(&self, act: impl FnOnce(&mut Wire) -> Result<T, StubError>) -> Result<T, StubError> {
        let mut wire = self.wire.borrow_mut();
        let result = act(wire.as_mut().ok_or(StubError::Gone)?);
        if result.is_err() {
            wire.take();
        }
        result
    }

    /// Everything that the stub says of its registers.
    pub(super) fn description(&self) -> Result<Option<Description>, StubError> {
        let Some(target) = self.document("target.xml")? else { return Ok(None) };
        let mut description = Description::default();
        let mut left: VecDeque<Part> = parts(&target).into();
        let mut documents = 1;
        while let Some(part) = left.pop_front() {
            if let Part::Include(name) = &part
                && documents < MOST_DOCUMENTS
            {
                documents += 1;
                let included = self.document(name)?.unwrap_or_default();
                for part in parts(&included).into_iter().rev() {
                    left.push_front(part);
                }
            }
            description.add(part);
        }
        Ok(Some(description))
    }

    fn document(&self, name: &str) -> Result<Option<String>, StubError> {
        let mut document = String::new();
        while document.len() < LONGEST_DOCUMENT {
            let question = format!("qXfer:features:read:{name}:{:x},ff0", document.len());
            let answer = self.ask(&question)?;
            match answer.split_at_checked(1) {
                Some(("m", part)) if !part.is_empty() => document.push_str(part),
                Some(("l", part)) => return Ok(Some(document + part)),
                Some(("E", _)) | None => return Ok(None),
                Some(_) => return Err(senseless(&question, &answer)),
            }
        }
        Err(senseless(name, "a document that goes on and on"))
    }

    /// All threads: QEMU's CPUs.
    pub(super) fn threads(&mut self) -> Result<Vec<String>, StubError> {
        let mut threads = Vec::new();
        let mut question = "qfThreadInfo";
        while threads.len() < MOST_THREADS {
            let answer = self.ask(question)?;
            let Some(list) = answer.strip_prefix('m') else { break };
            threads.extend(list.split(',').map(str::to_owned));
            question = "qsThreadInfo";
        }
        let process = threads.first().and_then(|thread| thread.strip_prefix('p')?.split_once('.'));
        self.process = process.map(|(process, _)| process.to_owned());
        Ok(threads)
    }

    /// From now on registers are those of this thread.
    pub(super) fn select(&self, thread: &str) -> Result<(), StubError> {
        let question = format!("Hg{thread}");
        match self.ask(&question)?.as_str() {
            "OK" => Ok(()),
            answer => Err(senseless(&question, answer)),
        }
    }

    /// A register of up to 64 bits; nothing if the stub does not have its value.
    pub(super) fn register(&self, register: Register) -> Result<Option<u64>, StubError> {
        let answer = self.ask(&format!("p{:x}", register.number))?;
        let mut bytes = [0; 8];
        let digits = answer.as_bytes();
        let known = bytes.get_mut(..digits.len() / 2).and_then(|bytes| unhex(digits, bytes));
        Ok(known.filter(|()| !digits.is_empty()).map(|()| u64::from_le_bytes(bytes)))
    }

    /// From now on memory is physical memory. Whether the stub can do that.
    pub(super) fn be_physical(&self) -> Result<bool, StubError> {
        Ok(self.ask("Qqemu.PhyMemMode:1")? == "OK")
    }

    /// Ends the connection, with which the target goes on if it is to.
    pub(super) fn detach(&self, resume: bool) {
        // The memory mode is the stub's, not the connection's: the next debugger is not to find it.
        let _ = self.ask("Qqemu.PhyMemMode:0");
        if resume {
            let process = self.process.as_ref();
            let _ = self.ask(&process.map_or("D".to_owned(), |process| format!("D;{process}")));
        }
        self.wire.borrow_mut().take();
    }

    /// Reads pieces of memory, `AHEAD` questions at a time, each of them no more than a packet brings.
    fn read_pieces(&self, pieces: &[(Pa, usize)], each: &mut Each<'_>) -> Result<(), StubError> {
        self.with_wire(|wire| self.read_pieces_from(wire, pieces, each))
    }

    fn read_pieces_from(
        &self,
        wire: &mut Wire,
        pieces: &[(Pa, usize)],
        each: &mut Each<'_>,
    ) -> Result<(), StubError> {
        let question = |(pa, bytes): (Pa, usize)| format!("m{:x},{bytes:x}", pa.0);
        let mut buffer = vec![0; self.most];
        let mut asked = 0;
        for (index, piece) in pieces.iter().enumerate() {
            if asked == index {
                asked = pieces.len().min(index + AHEAD);
                wire.send_all(pieces[index..asked].iter().map(|piece| question(*piece)))?;
            }
            let answer = wire.answer("m")?;
            let buffer = &mut buffer[..piece.1];
            match unhex(&answer, buffer) {
                Some(()) => each(index, Ok(buffer)),
                None => {
                    let why = format!(
                        "the gdbstub says `{}`",
                        String::from_utf8_lossy(&answer[..answer.len().min(8)])
                    );
                    each(index, Err(Unreadable::Failed { pa: piece.0, why }));
                }
            }
        }
        Ok(())
    }
}

impl Physical for Stub {
    fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
        let bytes = into.len();
        let mut result = Ok(());
        self.read_each(&[pa], bytes, &mut |_, read| result = read.map(|bytes| into.copy_from_slice(bytes)));
        result
    }

    fn read_each(&self, at: &[Pa], bytes: usize, each: &mut Each<'_>) {
        let count = bytes.div_ceil(self.most);
        let piece = |pa: &Pa, n: usize| {
            (Pa(pa.0.wrapping_add((n * self.most) as u64)), self.most.min(bytes - n * self.most))
        };
        let pieces: Vec<_> = at.iter().flat_map(|pa| (0..count).map(move |n| piece(pa, n))).collect();
        let mut whole = Vec::with_capacity(bytes);
        let (mut failed, mut done) = (None, 0);
        let read = self.read_pieces(&pieces, &mut |index, read| {
            match read {
                Ok(bytes) => whole.extend_from_slice(bytes),
                Err(error) => failed = Some(error),
            }
            if (index + 1).is_multiple_of(count) {
                each(done, failed.take().map_or(Ok(&whole), Err));
                whole.clear();
                done += 1;
            }
        });
        if let Err(error) = read {
            for (index, pa) in at.iter().enumerate().skip(done) {
                each(index, Err(Unreadable::Failed { pa: *pa, why: error.to_string() }));
            }
        }
    }
}

impl Wire {
    fn send(&mut self, question: &str) -> Result<(), StubError> {
        self.send_all([question.to_owned()])
    }

    fn send_all(&mut self, questions: impl IntoIterator<Item = String>) -> Result<(), StubError> {
        let bytes: Vec<u8> = questions.into_iter().flat_map(|question| frame(&question)).collect();
        let sent = self.socket.patience(PATIENCE).and_then(|()| self.socket.write_all(&bytes));
        sent.map_err(|error| lost(error, "a question"))
    }

    /// The next packet that is an answer. What a target says by itself when it stops is none, wherever it
    /// comes; QEMU says it on being connected to.
    fn answer(&mut self, question: &str) -> Result<Vec<u8>, StubError> {
        let until = self.end.min(Instant::now() + PATIENCE);
        loop {
            match take(&self.arrived[self.taken..]) {
                Arrived::Packet(packet, bytes) => {
                    self.taken += bytes;
                    self.socket.write_all(b"+").map_err(|error| lost(error, question))?;
                    if !matches!(packet.first(), Some(b'T' | b'S' | b'W' | b'X')) {
                        return Ok(packet);
                    }
                }
                Arrived::Damaged => return Err(StubError::Damaged(question.to_owned())),
                Arrived::Nothing => self.receive(question, until)?,
            }
        }
    }

    fn receive(&mut self, question: &str, until: Instant) -> Result<(), StubError> {
        self.arrived.drain(..self.taken);
        self.taken = 0;
        let patience = until.saturating_duration_since(Instant::now());
        let damaged = self.arrived.len() > 2 * super::packet::LONGEST;
        if patience.is_zero() || damaged {
            return Err(StubError::Silent(question.to_owned()));
        }
        let mut buffer = [0; 1 << 16];
        let read = self.socket.patience(patience).and_then(|()| self.socket.read(&mut buffer));
        match read.map_err(|error| lost(error, question))? {
            0 => Err(StubError::Gone),
            bytes => {
                self.arrived.extend_from_slice(&buffer[..bytes]);
                Ok(())
            }
        }
    }
}

fn lost(error: io::Error, question: &str) -> StubError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => StubError::Silent(question.to_owned()),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            StubError::Gone
        }
        _ => StubError::Io(error),
    }
}

fn senseless(question: &str, answer: &str) -> StubError {
    let answer = crate::printable::excerpt(answer, 40);
    StubError::Senseless { question: question.to_owned(), answer }
}
