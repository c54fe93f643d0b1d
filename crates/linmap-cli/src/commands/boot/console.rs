//! The guest's console: untrusted bytes become text for people and, from lines that start with `linmap: `, documents
//! for programs.
//!
//! Text is passed on as it arrives, incomplete lines included; a line that can still become a document is held back.
//! Carriage returns are dropped everywhere.

use std::io::{self, Write};

use crate::printable::Printable;

/// The beginning of a line for programs.
pub(crate) const MARK: &[u8] = b"linmap: ";

/// The longest line that can be a document.
const MAX_LINE: usize = 64 << 10;

/// A part of the console's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// Text that is safe to show.
    Text(String),
    /// The rest of a line after the mark.
    Document(Vec<u8>),
    /// A line with the mark was too long, and is passed on as text.
    TooLong,
}

/// Splits a console into pieces. The result does not depend on how the bytes are cut into reads, except for the
/// lengths of texts.
#[derive(Default)]
pub(crate) struct Splitter {
    /// The line so far, while it can be a document.
    held: Vec<u8>,
    /// True if the line is text, and shown so far.
    in_text: bool,
    /// Text since the last piece.
    text: Vec<u8>,
    printable: Printable,
    pieces: Vec<Piece>,
}

impl Splitter {
    /// Takes the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Vec<Piece> {
        for byte in bytes.iter().copied().filter(|byte| *byte != b'\r') {
            self.take(byte);
        }
        self.end_text();
        std::mem::take(&mut self.pieces)
    }

    /// Ends the console, and its last line.
    pub(crate) fn finish(&mut self) -> Vec<Piece> {
        if self.in_text || !(self.held.is_empty() || self.end_held()) {
            self.text.push(b'\n');
        }
        self.end_text();
        std::mem::take(&mut self.pieces)
    }

    fn take(&mut self, byte: u8) {
        match (self.in_text, byte) {
            (true, _) => {
                self.text.push(byte);
                self.in_text = byte != b'\n';
            }
            (false, b'\n') => {
                if !self.end_held() {
                    self.text.push(b'\n');
                }
            }
            (false, _) => self.hold(byte),
        }
    }

    /// Holds one more byte of the line, or releases the line as text.
    fn hold(&mut self, byte: u8) {
        self.held.push(byte);
        let marked = self.held.starts_with(MARK);
        let too_long = marked && self.held.len() > MARK.len() + MAX_LINE;
        if too_long {
            self.end_text();
            self.pieces.push(Piece::TooLong);
        }
        if too_long || !(marked || MARK.starts_with(&self.held)) {
            self.text.append(&mut self.held);
            self.in_text = true;
        }
    }

    /// Ends the held line. Returns true if it was a document.
    fn end_held(&mut self) -> bool {
        let line = std::mem::take(&mut self.held);
        let Some(document) = line.strip_prefix(MARK) else {
            self.text.extend(line);
            return false;
        };
        self.end_text();
        self.pieces.push(Piece::Document(document.to_vec()));
        true
    }

    fn end_text(&mut self) {
        let text = self.printable.push(&std::mem::take(&mut self.text));
        if !text.is_empty() {
            self.pieces.push(Piece::Text(text));
        }
    }
}

/// The stream that shows the console.
#[derive(Clone, Copy)]
pub(crate) enum Sink {
    /// The console is the data.
    Stdout,
    /// The console is progress, and the data is a document. Losing it does not end the run.
    Stderr,
}

impl Sink {
    /// Shows the text at once.
    pub(crate) fn show(self, text: &str) -> io::Result<()> {
        match self {
            Self::Stdout => {
                let mut out = io::stdout();
                out.write_all(text.as_bytes()).and_then(|()| out.flush())
            }
            Self::Stderr => {
                let _ = io::stderr().write_all(text.as_bytes());
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn text(text: &str) -> Piece {
        Piece::Text(text.to_owned())
    }

    fn document(json: &str) -> Piece {
        Piece::Document(json.as_bytes().to_vec())
    }

    /// Joins adjacent texts: the part of the result that does not depend on cuts.
    fn joined(pieces: Vec<Piece>) -> Vec<Piece> {
        let mut all: Vec<Piece> = Vec::new();
        for piece in pieces {
            match (all.last_mut(), piece) {
                (Some(Piece::Text(before)), Piece::Text(text)) => before.push_str(&text),
                (_, piece) => all.push(piece),
            }
        }
        all
    }

    fn split<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<Piece> {
        let mut splitter = Splitter::default();
        let mut pieces: Vec<Piece> = chunks.into_iter().flat_map(|chunk| splitter.push(chunk)).collect();
        pieces.extend(splitter.finish());
        joined(pieces)
    }

    #[test]
    fn marked_lines_are_documents_and_all_else_is_text() {
        let console = b"one\r\nlinmap: {\"a\":1}\r\n\nlinmap two\n linmap: no\nlinmap: last";
        let expected =
            [text("one\n"), document("{\"a\":1}"), text("\nlinmap two\n linmap: no\n"), document("last")];
        assert_eq!(split([&console[..]]), expected);
    }

    #[test]
    fn text_is_not_held_back() {
        let mut splitter = Splitter::default();
        assert_eq!(splitter.push(b"prob"), [text("prob")]);
        assert_eq!(splitter.push(b"ing\nlin"), [text("ing\n")]);
        assert_eq!(splitter.push(b"ear"), [text("linear")]);
        assert_eq!(splitter.finish(), [text("\n")]);
    }

    #[test]
    fn the_longest_document_and_one_byte_more() {
        let mut line = MARK.to_vec();
        line.resize(MARK.len() + MAX_LINE, b'x');
        assert!(matches!(split([&line[..], b"\n"])[..], [Piece::Document(_)]));
        let pieces = split([b"a\n", &line[..], b"x\nb"]);
        let Some([Piece::Text(_), Piece::TooLong, Piece::Text(shown)]) = pieces.first_chunk() else {
            panic!("{} pieces", pieces.len())
        };
        assert_eq!(shown.len(), line.len() + "x\nb\n".len());
    }

    /// Bytes with likely marks, line ends and cut characters.
    fn console() -> impl Strategy<Value = Vec<u8>> {
        let part = prop_oneof![
            Just(MARK.to_vec()),
            Just(b"linmap: {}\n".to_vec()),
            Just(b"lin".to_vec()),
            Just(b"\r\n".to_vec()),
            Just("é".as_bytes().to_vec()),
            any::<Vec<u8>>(),
        ];
        proptest::collection::vec(part, 0..8).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(console in console(), size in 1_usize..20) {
            prop_assert_eq!(split(console.chunks(size)), split([&console[..]]));
        }

        #[test]
        fn text_is_fit_to_be_shown(console in console()) {
            for piece in split([&console[..]]) {
                if let Piece::Text(text) = piece {
                    prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
                }
            }
        }
    }
}
