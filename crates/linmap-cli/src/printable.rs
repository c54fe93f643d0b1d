//! Makes untrusted bytes safe for a terminal: invalid UTF-8 is replaced, and control characters other than newline
//! and tab are shown as `^X`.

/// Converts a stream of bytes to text. Characters can be split between its parts.
#[derive(Default)]
pub(crate) struct Printable {
    /// The beginning of an incomplete character.
    cut: Vec<u8>,
}

impl Printable {
    /// Returns the text of all complete characters.
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

/// Returns any text, such as the name of a file, on one line.
pub(crate) fn line(text: &str) -> String {
    text.chars().map(unbroken).flat_map(shown).collect()
}

/// Returns text of several lines without styles.
pub(crate) fn text_lines(text: &str) -> String {
    text.chars().flat_map(shown).collect()
}

/// Returns text with styles (`ESC [ 1 ; 31 m`) and without other control characters: untrusted text can at worst
/// change a colour.
pub(crate) fn harmless(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let length = style(rest).unwrap_or(0);
        if length > 0 {
            safe.push_str(&rest[..length]);
            rest = &rest[length..];
        } else {
            safe.extend(shown(character));
            rest = &rest[character.len_utf8()..];
        }
    }
    safe
}

/// Returns the length of the style at the start of a text.
fn style(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let end = rest.find(|character: char| !character.is_ascii_digit() && character != ';')?;
    rest[end..].starts_with('m').then_some(2 + end + 1)
}

/// Returns untrusted text on one line of at most `limit` characters.
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

/// Returns true if these bytes can begin a character.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Returns the characters that stand for one.
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
    use test_support::prelude::*;

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
    fn styles_pass_and_nothing_else() {
        assert_eq!(harmless("\x1b[1;31mé\x1b[0m\n"), "\x1b[1;31mé\x1b[0m\n");
        assert_eq!(harmless("\x1b[2J\x1b]0;x\x07\x1b[\x1b"), "^[[2J^[]0;x^G^[[^[");
        assert_eq!(text_lines("a\x1b[1mb\nc"), "a^[[1mb\nc");
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
