//! Texts that a test compares with a file of the repository.

use std::fs;
use std::path::Path;

/// Compares a text with the stored one, line by line. With `LINMAP_UPDATE` set it is stored first.
///
/// # Panics
///
/// They differ, or the file cannot be read or written.
#[track_caller]
pub fn is_as_stored(path: impl AsRef<Path>, now: &str) {
    let path = path.as_ref();
    if std::env::var_os("LINMAP_UPDATE").is_some() {
        fs::write(path, now).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let stored = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (now, stored) in now.lines().zip(stored.lines()) {
        assert_eq!(now, stored, "{}: LINMAP_UPDATE=1 stores the text of now", path.display());
    }
    assert!(
        now == stored,
        "{}: {} lines, and now {}",
        path.display(),
        stored.lines().count(),
        now.lines().count()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");

    #[test]
    fn a_stored_text_is_equal() {
        is_as_stored(HERE, include_str!("../Cargo.toml"));
    }

    #[test]
    fn other_texts_differ() {
        let stored = include_str!("../Cargo.toml");
        let texts = [
            String::new(),
            stored.replace("[package]", "[other]"),
            format!("{stored}more\n"),
            stored.trim_end().into(),
        ];
        for text in texts {
            assert!(std::panic::catch_unwind(|| is_as_stored(HERE, &text)).is_err(), "{text}");
        }
    }
}
