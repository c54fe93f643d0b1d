//! A file that a command writes is none that it reads, and no two are one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::printable::line;

/// A file is named twice.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Collision {
    #[error("`{}` is read, and would be lost; write to another file", line(&.0.display().to_string()))]
    Read(PathBuf),
    #[error("`{}` is to have two contents; name two files", line(&.0.display().to_string()))]
    Written(PathBuf),
}

/// Checks that each of the files written is one of its own. A device or a pipe may be named as often as one likes.
///
/// # Errors
///
/// One is also read, or written with something else.
pub(crate) fn distinct(written: &[Option<&Path>], read: &[&Path]) -> Result<(), Collision> {
    let written: Vec<&Path> = written.iter().copied().flatten().collect();
    for (i, path) in written.iter().enumerate() {
        if read.iter().any(|other| are_one(path, other)) {
            return Err(Collision::Read(path.into()));
        }
        if written[..i].iter().any(|other| are_one(path, other)) {
            return Err(Collision::Written(path.into()));
        }
    }
    Ok(())
}

/// Tells whether both names lead to one file, which need not exist yet.
fn are_one(a: &Path, b: &Path) -> bool {
    match (fs::metadata(a), fs::metadata(b)) {
        (Ok(a), Ok(b)) => a.is_file() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (Err(_), Err(_)) => a == b,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn names_of_one_file_collide() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (core, link, new) = (at("core"), at("link"), at("new"));
        fs::write(&core, "core").unwrap();
        symlink(&core, &link).unwrap();
        assert_eq!(distinct(&[Some(&link)], &[&core]), Err(Collision::Read(link.clone())));
        assert_eq!(distinct(&[Some(&core), Some(&link)], &[]), Err(Collision::Written(link)));
        assert_eq!(distinct(&[Some(&new), None, Some(&new)], &[]), Err(Collision::Written(new.clone())));
        assert_eq!(distinct(&[Some(&new), None], &[&core]), Ok(()));
        let null = Path::new("/dev/null");
        assert_eq!(distinct(&[Some(null), Some(null)], &[null]), Ok(()));
    }
}
