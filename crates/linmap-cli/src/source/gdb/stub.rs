//! A connection to a stub: questions and answers, all within the time limit of one halt.
//!
//! After any failure the connection is kept for the goodbye, which lets the target run.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Debug};
use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use linmap::Pa;

use super::super::memory::{Each, Physical, Unreadable};
use super::super::pause::{Limit, Pause};
use super::description::{Description, Part, Register, parts};
use super::error::StubError;
use super::packet::printed;
use super::packet::unhex;
use super::wire::Wire;

/// The time limit of a connection.
const CONNECTING: Duration = Duration::from_secs(5);
/// The most questions that are sent before the first answer, to a stub that answers fast.
const AHEAD: usize = 32;
/// The most documents of a description, and the most bytes of one.
const MAX_DOCUMENTS: usize = 64;
const MAX_DOCUMENT: usize = 4 << 20;
/// The pieces of a document that are asked for together.
const PIECES: usize = 16;
/// The most bytes that a monitor answers to one command.
const MAX_OUTPUT: usize = 4 << 20;
/// The most CPUs that are looked at.
const MAX_THREADS: usize = 4096;

/// A stub. While there is a connection, the target is halted.
pub(crate) struct Stub {
    wire: RefCell<Wire>,
    /// The most bytes of memory that one packet holds.
    most: usize,
    /// True once it has answered as a gdbstub does.
    greeted: bool,
    /// True if memory is physical memory now.
    physical: bool,
}

/// Resolves `HOST:PORT`, before anything is halted, as a name can take time.
pub(in crate::source) fn resolve(address: &str) -> Result<Vec<SocketAddr>, StubError> {
    address.to_socket_addrs().map(Iterator::collect).map_err(StubError::Connect)
}

impl Debug for Stub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stub").field("most", &self.most).finish_non_exhaustive()
    }
}

impl Stub {
    /// Connects to the first of these that answers; from then on the target is halted.
    pub(super) fn connect_tcp(addresses: &[SocketAddr], pause: Pause) -> Result<Self, StubError> {
        let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
        for address in addresses {
            // The time that other addresses took does not count for the target.
            let limit = pause.limit();
            match TcpStream::connect_timeout(address, CONNECTING) {
                Ok(socket) => {
                    // Without it, questions wait for the acknowledgement of earlier ones.
                    let _ = socket.set_nodelay(true);
                    return Ok(Self::of(Wire::new(socket, limit)));
                }
                Err(error) => last = error,
            }
        }
        Err(StubError::Connect(last))
    }

    /// Connects to a socket in the file system.
    pub(super) fn connect_unix(path: &Path, pause: Pause) -> Result<Self, StubError> {
        let limit = pause.limit();
        let socket = crate::source::socket::connect(path).map_err(StubError::Connect)?;
        Ok(Self::of(Wire::new(socket, limit)))
    }

    fn of(wire: Wire) -> Self {
        Self { wire: RefCell::new(wire), most: 64, greeted: false, physical: false }
    }

    /// Returns the time limit of the halt that the connection began.
    pub(super) fn limit(&self) -> Limit {
        self.wire.borrow().limit()
    }

    /// Asks the stub what it supports; no other question comes first.
    pub(super) fn greet(&mut self) -> Result<(), StubError> {
        let features = self.ask("qSupported:qXfer:features:read+;xmlRegisters=aarch64")?;
        self.greeted = true;
        let size = features.split(';').find_map(|feature| feature.strip_prefix("PacketSize="));
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok()).unwrap_or(128);
        self.most = (size / 2).clamp(8, 1 << 16u32);
        Ok(())
    }

    /// Returns true if the target has reported that it stopped, as QEMU up to 7.2 does on connection.
    pub(super) fn has_stopped(&self) -> bool {
        self.wire.borrow().has_stopped
    }

    /// Asks a question whose answer is text.
    pub(super) fn ask(&self, question: &str) -> Result<String, StubError> {
        let answer = self.wire.borrow_mut().act(|wire| {
            wire.send([question])?;
            wire.answer(question)
        })?;
        text(question, answer)
    }

    /// Executes a command of the monitor and returns its output, with lines ended by `\n`, or `None` if there is no
    /// monitor.
    pub(super) fn monitor(&self, command: &str) -> Result<Option<String>, StubError> {
        let mut wire = self.wire.borrow_mut();
        wire.act(|wire| {
            wire.send([monitor_packet(command).as_str()])?;
            let mut output = Vec::new();
            loop {
                let packet = wire.packet(command)?;
                let Some(printed) = printed(&packet) else {
                    wire.answered();
                    let text = String::from_utf8_lossy(&output).replace('\r', "");
                    return Ok((packet == b"OK").then_some(text));
                };
                output.extend(printed);
                if output.len() > MAX_OUTPUT {
                    return Err(StubError::Damaged(command.to_owned()));
                }
            }
        })
    }

    /// Returns all that the stub says about its registers.
    pub(super) fn description(&self) -> Result<Option<Description>, StubError> {
        let Some(target) = self.document("target.xml")? else { return Ok(None) };
        let mut description = Description::default();
        let mut left: VecDeque<Part> = parts(&target).into();
        let mut documents = 1;
        while let Some(part) = left.pop_front() {
            if let Part::Include(name) = &part
                && documents < MAX_DOCUMENTS
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

    /// Returns registers of a thread on a connection that has not asked for the description: QEMU shows registers of the system
    /// only on one that has.
    pub(super) fn registers_again(
        &self,
        thread: &str,
        registers: &[Option<Register>],
    ) -> Result<Vec<Option<u64>>, StubError> {
        let description = "qXfer:features:read:target.xml:0,8".to_owned();
        let questions = [vec![description], of_registers(thread, registers)].concat();
        values_of(registers, thread, self.ask_all(&questions)?.split_off(1))
    }

    /// Returns a document. Its first piece shows how long pieces are; the others are asked for together.
    fn document(&self, name: &str) -> Result<Option<String>, StubError> {
        let question = |at: usize| format!("qXfer:features:read:{name}:{at:x},ff0");
        let mut document = String::new();
        let mut pieces = 1;
        let mut step = 0;
        while document.len() < MAX_DOCUMENT {
            let start = document.len();
            let questions: Vec<_> = (0..pieces).map(|n| question(start + n * step)).collect();
            for (n, answer) in self.ask_all(&questions)?.iter().enumerate() {
                if document.len() != start + n * step {
                    break;
                }
                match answer.split_at_checked(1) {
                    Some(("m", part)) if !part.is_empty() => document.push_str(part),
                    Some(("l", part)) => return Ok(Some(document + part)),
                    Some(("E", _)) | None => return Ok(None),
                    Some(_) => return Err(senseless(&questions[n], answer)),
                }
            }
            step = if step == 0 { document.len() } else { step };
            pieces = PIECES;
        }
        Err(senseless(name, "a document that goes on and on"))
    }

    /// Returns all threads: QEMU's CPUs.
    pub(super) fn threads(&self) -> Result<Vec<String>, StubError> {
        let mut threads = self.first_threads()?;
        while !threads.is_empty() && threads.len() < MAX_THREADS {
            match self.more_threads("qsThreadInfo")? {
                more if more.is_empty() => break,
                more => threads.extend(more),
            }
        }
        Ok(threads)
    }

    /// Returns the first thread, or a few.
    pub(super) fn first_threads(&self) -> Result<Vec<String>, StubError> {
        self.more_threads("qfThreadInfo")
    }

    fn more_threads(&self, question: &str) -> Result<Vec<String>, StubError> {
        let answer = self.ask(question)?;
        Ok(answer
            .strip_prefix('m')
            .map(|list| list.split(',').map(str::to_owned).collect())
            .unwrap_or_default())
    }

    /// Returns registers of a thread, of up to 64 bits each, or `None` for those of which the stub does not have the value.
    pub(super) fn registers(
        &self,
        thread: &str,
        registers: &[Option<Register>],
    ) -> Result<Vec<Option<u64>>, StubError> {
        values_of(registers, thread, self.ask_all(&of_registers(thread, registers))?)
    }

    /// Makes memory physical memory from now on. Returns false if the stub cannot do that.
    pub(super) fn be_physical(&mut self) -> Result<bool, StubError> {
        self.physical = true;
        Ok(self.ask("Qqemu.PhyMemMode:1")? == "OK")
    }

    /// Ends the connection, which lets the target run if `goes_on` says so; the monitor executes `last` before. This
    /// is done after errors as well. The stub may take `patience` to confirm it.
    pub(super) fn leave(
        &self,
        resume: bool,
        last: Option<&str>,
        patience: Duration,
    ) -> Result<(), StubError> {
        // The memory mode belongs to the stub, not to the connection: reset it for the next debugger.
        let virtually = self.physical.then(|| "Qqemu.PhyMemMode:0".to_owned());
        let detach = resume.then(|| "D".to_owned());
        let packets: Vec<String> =
            virtually.into_iter().chain(last.map(monitor_packet)).chain(detach).collect();
        if packets.is_empty() {
            return Ok(());
        }
        let mut wire = self.wire.borrow_mut();
        // All at once, so that a slow stub does not keep the target halted for each answer.
        let mut said = wire.goodbye(&packets, patience);
        if resume && said.as_ref().is_ok_and(|answer| answer != b"OK") {
            // QEMU expects the number of a process if an earlier debugger used it.
            said = wire.goodbye(&["D;1".to_owned()], patience);
        }
        match said {
            Ok(answer) if resume && answer != b"OK" => Err(senseless("D", &String::from_utf8_lossy(&answer))),
            // Something that never answered as a gdbstub has halted nothing, as far as is known.
            Err(_) if !self.greeted => Ok(()),
            said => said.map(drop),
        }
    }

    /// Asks several questions at once; their answers are text.
    pub(super) fn ask_all(&self, questions: &[String]) -> Result<Vec<String>, StubError> {
        let mut answers = Vec::with_capacity(questions.len());
        self.each_answer(questions, &mut |index, answer| {
            answers.push(text(&questions[index], answer)?);
            Ok(())
        })?;
        Ok(answers)
    }

    /// Asks questions, many of them ahead, but not of a slow stub, since it answers all of them before the goodbye. Each answer
    /// comes with the number of its question.
    fn each_answer(
        &self,
        questions: &[String],
        each: &mut dyn FnMut(usize, Vec<u8>) -> Result<(), StubError>,
    ) -> Result<(), StubError> {
        self.wire.borrow_mut().act(|wire| {
            let mut asked = 0;
            for (index, question) in questions.iter().enumerate() {
                if asked == index {
                    asked = questions.len().min(index + wire.ahead(AHEAD));
                    wire.send(questions[index..asked].iter().map(String::as_str))?;
                }
                let answer = wire.answer(question)?;
                each(index, answer)?;
            }
            Ok(())
        })
    }

    /// Reads pieces of memory, none larger than a packet holds.
    fn read_pieces(&self, pieces: &[(Pa, usize)], each: &mut Each<'_>) -> Result<(), StubError> {
        let questions: Vec<_> = pieces.iter().map(|(pa, bytes)| format!("m{:x},{bytes:x}", pa.0)).collect();
        let mut buffer = vec![0; self.most];
        self.each_answer(&questions, &mut |index, answer| {
            let (pa, bytes) = pieces[index];
            let buffer = &mut buffer[..bytes];
            match unhex(&answer, buffer) {
                Some(()) => each(index, Ok(buffer)),
                None => {
                    let answer = String::from_utf8_lossy(&answer[..answer.len().min(8)]);
                    each(index, Err(Unreadable::Failed { pa, why: format!("the gdbstub says `{answer}`") }));
                }
            }
            Ok(())
        })
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
                each(index, Err(unreadable(*pa, &error)));
            }
        }
    }

    fn ended(&self) -> Option<Unreadable> {
        self.wire.borrow().ended()
    }
}

/// Returns the questions for registers of a thread.
fn of_registers(thread: &str, registers: &[Option<Register>]) -> Vec<String> {
    let shown = registers.iter().flatten().map(|register| format!("p{:x}", register.number));
    [format!("Hg{thread}")].into_iter().chain(shown).collect()
}

/// Returns the values in the answers to these questions.
fn values_of(
    registers: &[Option<Register>],
    thread: &str,
    answers: Vec<String>,
) -> Result<Vec<Option<u64>>, StubError> {
    let mut answers = answers.into_iter();
    let selected = answers.next().unwrap_or_default();
    if selected != "OK" {
        return Err(senseless(&format!("Hg{thread}"), &selected));
    }
    let value = |register: &Option<Register>| register.and_then(|_| value(&answers.next()?));
    Ok(registers.iter().map(value).collect())
}

/// Parses the value of a register; `None` if there is none, or if it is larger than 64 bits.
fn value(answer: &str) -> Option<u64> {
    let mut bytes = [0; 8];
    let digits = answer.as_bytes();
    let known = bytes.get_mut(..digits.len() / 2).and_then(|bytes| unhex(digits, bytes));
    known.filter(|()| !digits.is_empty()).map(|()| u64::from_le_bytes(bytes))
}

fn text(question: &str, answer: Vec<u8>) -> Result<String, StubError> {
    String::from_utf8(answer).map_err(|_| StubError::Damaged(question.to_owned()))
}

fn monitor_packet(command: &str) -> String {
    let digits: String = command.bytes().map(|byte| format!("{byte:02x}")).collect();
    format!("qRcmd,{digits}")
}

fn unreadable(pa: Pa, error: &StubError) -> Unreadable {
    match error {
        StubError::NotInTime { most, .. } => Unreadable::NotInTime(*most),
        _ => Unreadable::Failed { pa, why: error.to_string() },
    }
}

fn senseless(question: &str, answer: &str) -> StubError {
    let answer = crate::printable::excerpt(answer, 40);
    StubError::Senseless { question: question.to_owned(), answer }
}
