//! The document of a run, as it goes by on the console: each line for programs becomes one element of a JSON array.

/// The beginning of a line for programs.
const MARK: &[u8] = b"linmap: ";

/// The bytes that are kept before there is room for more.
const EARLY: usize = 4096;

/// A part of the console's text so far.
enum Line {
    /// So many bytes of the line are those of the mark.
    Mark(usize),
    /// It is for programs.
    Document,
    /// It is for people.
    Text,
}

/// A document that is being recorded.
pub struct Record {
    early: [u8; EARLY],
    /// Memory that was given, which takes the place of `early`.
    given: Option<&'static mut [u8]>,
    /// The bytes in use.
    used: usize,
    line: Line,
    /// The bytes up to the last whole line.
    whole: usize,
    /// The bytes that there was no room for.
    lost: usize,
}

/// The memory for a document is too small by so many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lost(pub usize);

impl Default for Record {
    fn default() -> Self {
        Self::new()
    }
}

impl Record {
    /// Returns an empty record, at the start of a line.
    pub const fn new() -> Self {
        Self { early: [0; EARLY], given: None, used: 0, line: Line::Mark(0), whole: 0, lost: 0 }
    }

    /// Goes on in this memory, once.
    pub fn go_on_in(&mut self, room: &'static mut [u8]) {
        if self.given.is_some() {
            return;
        }
        let kept = self.used.min(room.len());
        room[..kept].copy_from_slice(&self.early[..kept]);
        self.lost += self.used - kept;
        (self.used, self.given) = (kept, Some(room));
    }

    /// Takes the next byte of the console.
    pub fn put(&mut self, byte: u8) {
        match &mut self.line {
            _ if byte == b'\n' => {
                self.line = Line::Mark(0);
                self.whole = self.used;
            }
            Line::Document => self.keep(byte),
            Line::Mark(matched) if MARK[*matched] == byte => {
                *matched += 1;
                if *matched == MARK.len() {
                    self.line = Line::Document;
                    self.keep(if self.used == 0 { b'[' } else { b',' });
                    self.keep(b'\n');
                }
            }
            Line::Mark(_) | Line::Text => self.line = Line::Text,
        }
    }

    /// Ends the record. A line that is not whole is left out. Returns the array in the memory that was given.
    ///
    /// # Errors
    ///
    /// There was too little memory, or none was given.
    pub fn end(mut self) -> Result<&'static [u8], Lost> {
        self.used = self.whole.min(self.used);
        b"\n]\n".iter().for_each(|byte| self.keep(*byte));
        match self.given {
            Some(bytes) if self.lost == 0 => Ok(&bytes[..self.used]),
            Some(_) => Err(Lost(self.lost)),
            None => Err(Lost(self.used)),
        }
    }

    fn keep(&mut self, byte: u8) {
        let room = self.given.as_deref_mut().unwrap_or(&mut self.early);
        match room.get_mut(self.used) {
            Some(place) => (*place, self.used) = (byte, self.used + 1),
            None => self.lost += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::ToOwned;
    use std::boxed::Box;
    use std::string::String;
    use std::vec;
    use test_support::prelude::*;

    fn room(bytes: usize) -> &'static mut [u8] {
        Box::leak(vec![0; bytes].into_boxed_slice())
    }

    /// Records a text. Its first `early` bytes come before there is room.
    fn recorded(text: &str, early: usize, bytes: usize) -> Result<String, Lost> {
        let mut record = Record::new();
        let early = early.min(text.len());
        text.bytes().take(early).for_each(|byte| record.put(byte));
        record.go_on_in(room(bytes));
        text.bytes().skip(early).for_each(|byte| record.put(byte));
        record.end().map(|bytes| String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }

    const LINES: &str =
        "\nlinmap: {\"a\":1}\nlinmap cannot\nlinmap: {\"b\":2}\n linmap: {\"no\":3}\nlin\nlinmap: {\"c\":4";

    #[test]
    fn lines_for_programs_become_an_array_wherever_it_begins() {
        for early in 0..LINES.len() {
            assert_eq!(recorded(LINES, early, 100).as_deref(), Ok("[\n{\"a\":1},\n{\"b\":2}\n]\n"));
        }
        assert_eq!(recorded(&(LINES.to_owned() + "}\n"), 5, 100).expect("room").lines().count(), 5);
    }

    #[test]
    fn without_room_there_is_none() {
        let whole = recorded(LINES, 0, 100).expect("room").len();
        assert!(recorded(LINES, 0, whole + 9).is_ok());
        for bytes in 0..whole {
            assert!(recorded(LINES, 20, bytes).is_err(), "{bytes}");
        }
        let long = "linmap: {}\n".repeat(2000);
        assert_eq!(recorded(&long, 0, 10_000), Ok("[\n{},\n".to_owned() + &"{},\n".repeat(1998) + "{}\n]\n"));
        assert!(recorded(&long, long.len(), 10_000).is_err(), "too much before there is room");
        assert!(Record::new().end().is_err(), "no room was given");
    }

    proptest! {
        /// The array has the objects of all whole lines for programs, and nothing else.
        #[test]
        fn any_lines(lines in prop::collection::vec((any::<bool>(), "[a-z: ]{0,12}"), 0..20), early in 0..200usize) {
            let text: String = lines.iter().flat_map(|(document, line)| {
                [if *document { "linmap: " } else { "#" }, line, "\n"]
            }).collect();
            let wanted: vec::Vec<&str> = lines.iter().filter(|l| l.0).map(|l| &*l.1).collect();
            let array = recorded(&text, early, 1000).expect("room");
            let expected = if wanted.is_empty() { "\n]\n".to_owned() } else { std::format!("[\n{}\n]\n", wanted.join(",\n")) };
            prop_assert_eq!(array, expected);
        }
    }
}
