//! The command line of an EFI application: the words of a file, then those of its load options.

use core::fmt::Write;

use arrayvec::ArrayString;

/// The most bytes of a command line: what the kernel keeps of one.
pub const MOST: usize = 2048;

/// A command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandLine(ArrayString<MOST>);

/// A text is no command line: it has bytes other than printable ASCII and white space, or there is no room for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotText {
    /// A character at this offset is none of a command line.
    Character(usize),
    /// It is longer than [`MOST`] bytes with what comes before.
    TooLong,
}

impl CommandLine {
    /// Returns it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Adds the words of a file, in ASCII.
    ///
    /// # Errors
    ///
    /// It is no text or too long; nothing is added.
    pub fn add_file(&mut self, bytes: &[u8]) -> Result<(), NotText> {
        self.add(bytes.iter().map(|byte| u16::from(*byte)))
    }

    /// Adds the words of load options, in UTF-16, little endian, up to the first NUL. A shell passes the name of the
    /// application as the first word: one that ends in `.efi` is left out. Boot managers may pass data that is no text.
    ///
    /// # Errors
    ///
    /// They are no text or too long; nothing is added.
    pub fn add_load_options(&mut self, bytes: &[u8]) -> Result<(), NotText> {
        let units = bytes.chunks_exact(2).map(|unit| u16::from_le_bytes([unit[0], unit[1]]));
        let units = units.take_while(|unit| *unit != 0);
        let mut all = Self::default();
        all.add(units)?;
        let line = all.as_str();
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let is_name = first.len() >= 4 && first.as_bytes()[first.len() - 4..].eq_ignore_ascii_case(b".efi");
        let words = if is_name { rest } else { line };
        self.add(words.bytes().map(u16::from))
    }

    fn add(&mut self, characters: impl Iterator<Item = u16> + Clone) -> Result<(), NotText> {
        let is_text =
            |unit: u16| u8::try_from(unit).is_ok_and(|b| b.is_ascii_graphic() || b.is_ascii_whitespace());
        if let Some(at) = characters.clone().position(|unit| !is_text(unit)) {
            return Err(NotText::Character(at));
        }
        let before = self.0;
        let mut gap = !before.is_empty();
        for unit in characters {
            let character = char::from(unit as u8);
            if character.is_ascii_whitespace() {
                gap |= !self.0.is_empty();
                continue;
            }
            let space = if core::mem::take(&mut gap) { " " } else { "" };
            if write!(self.0, "{space}{character}").is_err() {
                self.0 = before;
                return Err(NotText::TooLong);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;
    use test_support::prelude::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn the_words_of_both_in_order() {
        let mut line = CommandLine::default();
        line.add_file(b" run=dump\r\n pagesize=64k\n").unwrap();
        assert_eq!(line.as_str(), "run=dump pagesize=64k");
        line.add_load_options(&utf16("run=bench\0rubbish\u{ffff}")).unwrap();
        assert_eq!(line.as_str(), "run=dump pagesize=64k run=bench");
    }

    #[test]
    fn the_name_of_the_application_is_no_word() {
        for (options, words) in [
            ("BOOTAA64.EFI run=dump", "run=dump"),
            ("FS0:\\linmap.efi", ""),
            (".efi a", "a"),
            ("run=x.efi2 b", "run=x.efi2 b"),
            ("efi", "efi"),
            ("", ""),
        ] {
            let mut line = CommandLine::default();
            line.add_load_options(&utf16(options)).unwrap();
            assert_eq!(line.as_str(), words, "{options}");
        }
    }

    #[test]
    fn data_is_refused_whole() {
        let mut line = CommandLine::default();
        line.add_file(b"a").unwrap();
        assert_eq!(line.add_load_options(&utf16("run=\u{e9}")), Err(NotText::Character(4)));
        assert_eq!(line.add_file(b"b\x1b"), Err(NotText::Character(1)));
        assert_eq!(line.add_file(&[b'x'; MOST - 1]), Err(NotText::TooLong));
        assert_eq!(line.as_str(), "a");
        line.add_file(&[b'x'; MOST - 2]).unwrap();
        assert_eq!(line.as_str().len(), MOST);
    }

    proptest! {
        /// Noise never panics, and is text or refused.
        #[test]
        fn noise(file in prop::collection::vec(any::<u8>(), 0..30), options in prop::collection::vec(any::<u8>(), 0..30)) {
            let mut line = CommandLine::default();
            _ = line.add_file(&file);
            _ = line.add_load_options(&options);
            prop_assert!(line.as_str().bytes().all(|b| b.is_ascii_graphic() || b == b' '));
        }
    }
}
