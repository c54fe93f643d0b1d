//! The output of a run so far, in bounded memory.

use super::console::Piece;
use super::document::Document;
use crate::printable::excerpt;

/// The most bytes of all documents of one run together.
const MAX_BYTES: usize = 16 << 20;
/// The characters of a line that an error quotes.
const QUOTED: usize = 120;

/// The output of a console.
#[derive(Default)]
pub(crate) struct Transcript {
    /// The documents, merged.
    pub(crate) document: Document,
    received: usize,
    malformed: usize,
    first_malformed: String,
    line: String,
    last_line: String,
}

impl Transcript {
    /// Takes the next piece.
    pub(crate) fn take(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.take_text(&text),
            Piece::Document(line) => self.take_document(&line),
            Piece::TooLong => self.malformed("a line longer than 64K, passed on as text".to_owned()),
        }
    }

    /// Returns how many lines for programs were malformed, and the error of the first one.
    pub(crate) fn malformed_lines(&self) -> Option<(usize, &str)> {
        (self.malformed > 0).then_some((self.malformed, &self.first_malformed))
    }

    /// Returns the last line with text on it, shortened; empty if there was none.
    pub(crate) fn last_line(&self) -> String {
        let line = if self.line.trim().is_empty() { &self.last_line } else { &self.line };
        excerpt(line, QUOTED)
    }

    fn take_document(&mut self, line: &[u8]) {
        self.received = self.received.saturating_add(line.len());
        let merged = if self.received > MAX_BYTES {
            Err(format!("more than {MAX_BYTES} bytes of documents"))
        } else {
            self.document.merge_line(line)
        };
        if let Err(reason) = merged {
            let start = &line[..line.len().min(4 * QUOTED)];
            self.malformed(format!("`{}`: {reason}", excerpt(&String::from_utf8_lossy(start), QUOTED)));
        }
    }

    fn malformed(&mut self, what: String) {
        self.malformed += 1;
        if self.malformed == 1 {
            self.first_malformed = what;
        }
    }

    fn take_text(&mut self, text: &str) {
        for part in text.split_inclusive('\n') {
            // Enough to quote, however long the line is.
            if self.line.len() < 4 * QUOTED {
                self.line.push_str(part.trim_end_matches('\n'));
            }
            if part.ends_with('\n') {
                let line = std::mem::take(&mut self.line);
                if !line.trim().is_empty() {
                    self.last_line = line;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(pieces: impl IntoIterator<Item = Piece>) -> Transcript {
        let mut transcript = Transcript::default();
        pieces.into_iter().for_each(|piece| transcript.take(piece));
        transcript
    }

    #[test]
    fn the_last_line_is_the_last_with_text() {
        let lines = |text: &str| after([Piece::Text(text.to_owned())]).last_line();
        assert_eq!(lines(""), "");
        assert_eq!(lines("one\ntwo\n\n \n"), "two");
        assert_eq!(lines("one\ntw"), "tw");
        assert_eq!(after(["o", "ne\nt", "wo\n"].map(|text| Piece::Text(text.to_owned()))).last_line(), "two");
    }

    #[test]
    fn malformed_lines_are_counted_and_the_first_is_quoted() {
        let lines = ["{\"a\":1}", "[]", "{"];
        let transcript = after(lines.map(|line| Piece::Document(line.as_bytes().to_vec())));
        assert_eq!(transcript.malformed_lines(), Some((2, "`[]`: not a JSON object")));
        assert_eq!(transcript.document.number("/a"), Some(1));
    }

    #[test]
    fn endless_documents_are_refused() {
        let line = format!("{{\"a\":\"{}\"}}", "x".repeat(60_000)).into_bytes();
        let transcript = after((0..300).map(|_| Piece::Document(line.clone())));
        let (count, first) = transcript.malformed_lines().expect("a limit");
        assert!(count > 1 && first.contains("`: more than"), "{count} {first}");
    }
}
