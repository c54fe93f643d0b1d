//! The connection to a stub: packets in both directions, none of them after the time limit of the halt.
//!
//! A read waits only for a moment and then checks the limit again. So neither a silent stub nor one that answers byte
//! by byte delays the end, and a signal ends the wait at once.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::super::memory::Unreadable;
use super::super::pause::Limit;
use super::error::StubError;
use super::packet::{Arrived, MAX_PACKET, frame, printed, take};

/// The time that a read or a write waits before it checks the limit again.
const MOMENT: Duration = Duration::from_millis(20);
/// The time in which a stub has to accept a question.
const WRITING: Duration = Duration::from_secs(5);
/// As many questions are sent together as are answered in this time.
const FAST: Duration = Duration::from_millis(100);

/// Sockets of both kinds.
pub(super) trait Socket: Read + Write {
    fn wait_no_longer_than(&self, time: Duration) -> io::Result<()>;
}

impl Socket for TcpStream {
    fn wait_no_longer_than(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

impl Socket for UnixStream {
    fn wait_no_longer_than(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time)).and_then(|()| self.set_write_timeout(Some(time)))
    }
}

/// A connection and the bytes that have arrived on it.
pub(super) struct Wire {
    socket: Box<dyn Socket>,
    arrived: Vec<u8>,
    /// The number of these bytes that have been decoded.
    taken: usize,
    limit: Limit,
    /// Questions that are not answered yet.
    unanswered: usize,
    /// The number of questions that were sent together last, and the time when that was done.
    ahead: usize,
    asked: Instant,
    /// True if the target has reported that it stopped.
    pub(super) has_stopped: bool,
    /// Acknowledgements that are not sent yet: they are sent together, before this side waits.
    owed: usize,
    /// True while packets are acknowledged. QEMU stops a running target for any byte that it does not expect, so
    /// packets after the goodbye are not acknowledged.
    acknowledges: bool,
    /// The failure after which nothing is asked any more, except to let the target run.
    failed: Option<Unreadable>,
}

impl Wire {
    pub(super) fn new(socket: impl Socket + 'static, limit: Limit) -> Self {
        Self {
            socket: Box::new(socket),
            arrived: Vec::new(),
            taken: 0,
            limit,
            unanswered: 0,
            ahead: 1,
            asked: Instant::now(),
            has_stopped: false,
            owed: 0,
            acknowledges: true,
            failed: None,
        }
    }

    /// Returns the time limit of the halt.
    pub(super) const fn limit(&self) -> Limit {
        self.limit
    }

    /// Uses the connection, unless it failed before.
    pub(super) fn act<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, StubError>,
    ) -> Result<T, StubError> {
        match &self.failed {
            Some(Unreadable::NotInTime(most)) => return Err(self.late("anything more", *most)),
            Some(_) => return Err(StubError::Gone),
            None => {}
        }
        let result = act(self);
        if let Err(error) = &result {
            self.failed = Some(match error {
                StubError::NotInTime { most, .. } => Unreadable::NotInTime(*most),
                _ => Unreadable::Gone("the gdbstub"),
            });
        }
        result
    }

    /// Returns the reason that nothing more can be read, if there is one.
    pub(super) fn ended(&self) -> Option<Unreadable> {
        self.failed.clone().or_else(|| self.limit.unreadable())
    }

    /// Returns how many questions to send next: as many as are answered in a short time, by the time that the last ones took.
    pub(super) fn ahead(&mut self, most: usize) -> usize {
        self.ahead = answered_in(FAST, self.ahead, self.asked.elapsed()).clamp(1, most);
        self.asked = Instant::now();
        self.ahead
    }

    pub(super) fn send<'q>(&mut self, questions: impl IntoIterator<Item = &'q str>) -> Result<(), StubError> {
        let mut bytes = self.owed();
        for question in questions {
            bytes.extend(frame(question));
            self.unanswered += 1;
        }
        let limit = self.limit;
        self.write(&bytes, || limit.is_over())
    }

    /// Returns the next packet that is an answer.
    pub(super) fn answer(&mut self, question: &str) -> Result<Vec<u8>, StubError> {
        let answer = self.packet(question)?;
        self.answered();
        Ok(answer)
    }

    /// Records that a question is answered.
    pub(super) fn answered(&mut self) {
        self.unanswered = self.unanswered.saturating_sub(1);
    }

    /// Returns the next packet.
    pub(super) fn packet(&mut self, question: &str) -> Result<Vec<u8>, StubError> {
        let limit = self.limit;
        loop {
            if limit.is_over() {
                return Err(self.late(question, limit.most()));
            }
            match self.next(question)? {
                Some(packet) => return Ok(packet),
                None => self.receive(question)?,
            }
        }
    }

    fn late(&self, question: &str, most: Duration) -> StubError {
        StubError::NotInTime { question: question.to_owned(), most }
    }

    /// Returns the next packet that has arrived. Stop reports of the target are skipped.
    fn next(&mut self, question: &str) -> Result<Option<Vec<u8>>, StubError> {
        loop {
            match take(&self.arrived[self.taken..]) {
                Arrived::Packet(packet, bytes) => {
                    self.taken += bytes;
                    self.owed += usize::from(self.acknowledges);
                    if !matches!(packet.first(), Some(b'T' | b'S' | b'W' | b'X')) {
                        return Ok(Some(packet));
                    }
                    self.has_stopped = true;
                }
                Arrived::Damaged => return Err(StubError::Damaged(question.to_owned())),
                Arrived::Nothing => return Ok(None),
            }
        }
    }

    /// Takes the acknowledgements that are to be sent.
    fn owed(&mut self) -> Vec<u8> {
        vec![b'+'; std::mem::take(&mut self.owed)]
    }

    /// Waits a moment for bytes to arrive.
    fn receive(&mut self, question: &str) -> Result<(), StubError> {
        let owed = self.owed();
        self.write(&owed, || false)?;
        self.arrived.drain(..self.taken);
        self.taken = 0;
        if self.arrived.len() > 2 * MAX_PACKET {
            return Err(StubError::Damaged(question.to_owned()));
        }
        let mut buffer = [0; 1 << 16];
        let read = self.socket.wait_no_longer_than(MOMENT).and_then(|()| self.socket.read(&mut buffer));
        match read {
            Ok(0) => Err(StubError::Gone),
            Ok(bytes) => {
                self.arrived.extend_from_slice(&buffer[..bytes]);
                Ok(())
            }
            Err(error) if is_a_moment(&error) => Ok(()),
            Err(error) => Err(lost(error)),
        }
    }

    /// Writes all bytes, unless `is_over` says so first.
    fn write(&mut self, mut bytes: &[u8], is_over: impl Fn() -> bool) -> Result<(), StubError> {
        self.socket.wait_no_longer_than(MOMENT).map_err(lost)?;
        let patience = Instant::now() + WRITING;
        while !bytes.is_empty() {
            match self.socket.write(bytes) {
                Ok(0) => return Err(StubError::Gone),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if is_a_moment(&error) && is_over() => {
                    return Err(self.late("anything more", self.limit.most()));
                }
                Err(error) if is_a_moment(&error) && Instant::now() < patience => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(())
    }

    /// Sends the last packets and waits until everything is answered, or each of them with `OK`, as a stub may owe
    /// other answers. Returns the answer to the last one.
    pub(super) fn goodbye(&mut self, packets: &[String], patience: Duration) -> Result<Vec<u8>, StubError> {
        let mut bytes = self.owed();
        bytes.extend(packets.iter().flat_map(|packet| frame(packet)));
        self.unanswered += packets.len();
        self.acknowledges = false;
        self.write(&bytes, || false)?;
        let until = Instant::now() + patience;
        let (mut last, mut agreed) = (Vec::new(), 0);
        while self.unanswered > 0 && agreed < packets.len() {
            match self.next("D")? {
                // The output of a monitor is not an answer.
                Some(packet) if printed(&packet).is_some() => {}
                Some(packet) => {
                    self.answered();
                    agreed += usize::from(packet == b"OK");
                    last = packet;
                }
                None if Instant::now() >= until => return Err(StubError::Silent(patience)),
                None => self.receive("D")?,
            }
        }
        self.failed = Some(Unreadable::Gone("the gdbstub"));
        Ok(last)
    }
}

/// Returns how many questions are answered in a time, if so many took as long as they did.
fn answered_in(time: Duration, questions: usize, took: Duration) -> usize {
    let each = took.as_nanos().max(1) / questions.max(1) as u128;
    usize::try_from(time.as_nanos() / each.max(1)).unwrap_or(usize::MAX)
}

/// Returns true if nothing failed, but time passed or a signal came.
fn is_a_moment(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted)
}

fn lost(error: io::Error) -> StubError {
    match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::UnexpectedEof => {
            StubError::Gone
        }
        _ => StubError::Io(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_stub_is_asked_one_by_one() {
        let in_100_ms = |questions, took| answered_in(FAST, questions, Duration::from_micros(took));
        assert_eq!(in_100_ms(1, 100_000), 1);
        assert_eq!(in_100_ms(1, 250_000), 0);
        assert_eq!(in_100_ms(8, 8_000), 100);
        assert_eq!((in_100_ms(1, 0), in_100_ms(0, 100_000)), (100_000_000, 1));
    }
}
