//! Quotes untrusted text in error messages: short, on one line, without control characters.

/// Returns at most `limit` characters of `text`, without the space around it; `…` stands for the rest.
pub(crate) fn quoted(text: &str, limit: usize) -> String {
    let mut characters = text.trim().chars();
    let mut short: String = characters.by_ref().take(limit).map(visible).collect();
    if characters.next().is_some() {
        short.push('…');
    }
    short
}

/// A space for a tab or a line break, U+FFFD for any other control character.
fn visible(character: char) -> char {
    match character {
        '\n' | '\t' => ' ',
        character if character.is_control() => char::REPLACEMENT_CHARACTER,
        character => character,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_are_one_short_line() {
        assert_eq!(quoted(" one\ntwo\x1b ", 20), "one two\u{fffd}");
        assert_eq!(quoted("123456", 5), "12345…");
    }
}
