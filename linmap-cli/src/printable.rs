//! Untrusted bytes become text that can not upset a terminal: invalid UTF-8 is replaced, control
//! characters other than newline and tab are shown as `^X`.

/// A stream of bytes on its way to becoming text. Characters may be cut anywhere.
#[derive(Default)]
pub(crate) struct Printable {
    /// The beginning of a character whose end has not arrived.
    cut: Vec<u8>,
}

impl Printable {
    /// The text of all characters that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        let bytes = [std::mem::take(&mut self.cut).as_slice(), bytes].concat();
        let mut text = String::with_capacity(bytes.len());
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.extend(chunk.valid().chars().flat_map(shown));
            let wrong = chunk.invalid();
            if chunks.peek().is_none() && may_continue(wrong) {
                self.cut = wrong.to_vec();
            } else if !wrong.is_empty() {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        text
    }
}

/// Text that may be anything, such as the name of a file, on one line.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(unbroken).flat_map(shown).collect()
}

/// Text from an untrusted document, on one line of at most `limit` characters.
pub(crate) fn excerpt(text: &str, limit: usize) -> String {
    let mut characters = text.trim().chars();
    let mut short: String = characters.by_ref().take(limit).map(unbroken).flat_map(shown).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

fn unbroken(character: char) -> char {
    if matches!(character, '\n' | '\t') { ' ' } else { character }
}

/// Whether more bytes could make a character of these.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// One character as a terminal may see it.
fn shown(character: char) -> impl Iterator<Item = char> {
    let (caret, visible) = match character {
        '\n' | '\t' => (None, character),
        '\0'..='\x1f' | '\x7f' => (Some('^'), char::from(character as u8 ^ 0x40)),
        '\u{80}'..='\u{9f}' => (None, char::REPLACEMENT_CHARACTER),
        _ => (None, character),
    };
    caret.into_iter().chain([visible])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn whole(bytes: &[u8]) -> String {
        let mut stream = Printable::default();
        stream.push(bytes) + &stream.push(b"\n")
    }

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(whole(b"a\tb\x1b[2J\x7f\n"), "a\tb^[[2J^?\n\n");
        assert_eq!(whole("\u{9b}x".as_bytes()), "\u{fffd}x\n");
    }

    #[test]
    fn invalid_bytes_are_replaced_and_cut_characters_wait() {
        assert_eq!(whole(b"a\xffb\xc3"), "a\u{fffd}b\u{fffd}\n");
        let mut stream = Printable::default();
        assert_eq!(stream.push(&"é".as_bytes()[..1]), "");
        assert_eq!(stream.push(&"é".as_bytes()[1..]), "é");
    }

    #[test]
    fn excerpts_are_one_short_line() {
        assert_eq!(excerpt(" one\ntwo\x1b ", 20), "one two^[");
        assert_eq!(excerpt("123456", 5), "12345…");
        assert_eq!(line(" a\x1b[31mb\nc\u{9b}"), " a^[[31mb c\u{fffd}");
    }

    proptest! {
        #[test]
        fn cuts_make_no_difference(bytes: Vec<u8>, cut: usize) {
            let (first, second) = bytes.split_at(cut % (bytes.len() + 1));
            let mut stream = Printable::default();
            let text = stream.push(first) + &stream.push(second) + &stream.push(b"\n");
            prop_assert_eq!(&text, &whole(&bytes));
            prop_assert!(text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t'));
        }
    }
}
