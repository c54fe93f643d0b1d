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
    is_equal(path, now, &stored);
}

#[track_caller]
fn is_equal(path: &Path, now: &str, stored: &str) {
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

    const STORED: &str = "one line\nand [another]\n";

    /// Returns true if a text counts as equal.
    fn holds(now: &str) -> bool {
        std::panic::catch_unwind(|| is_equal(Path::new("stored.txt"), now, STORED)).is_ok()
    }

    #[test]
    fn a_stored_text_is_equal() {
        assert!(holds(STORED));
    }

    #[test]
    fn other_texts_differ() {
        for text in
            ["", "one line\nand [other]\n", "one line\nand [another]\nmore\n", "one line\nand [another]"]
        {
            assert!(!holds(text), "{text}");
        }
    }
}
