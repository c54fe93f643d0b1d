//! Writes a file so that a reader finds the old one or the whole new one, never a part.
//!
//! The new file is written beside the old one and renamed. That would put a file in the place of a device, and leave a pipe without its
//! reader, so only files are replaced. A link stays, and the file that it names is replaced.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Replaces a file, or makes it.
pub(crate) fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Ok(path) if !fs::metadata(&path)?.is_file() => {
            return Err(io::Error::other("there is something else than a file, which would be lost"));
        }
        Ok(path) => path,
        Err(_) => path.to_owned(),
    };
    let beside = beside(&path);
    let written = File::create(&beside).and_then(|mut file| write(&mut file));
    let written = written.and_then(|()| fs::rename(&beside, &path));
    if written.is_err() {
        // It may not exist.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// Returns a name in the same directory that is hidden, and that no collector of metrics takes for its own.
fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", std::process::id()));
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    fn names(directory: &Path) -> usize {
        fs::read_dir(directory).unwrap().count()
    }

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        symlink("file", &link).unwrap();
        for (path, text) in [(&file, "one"), (&file, "other"), (&link, "third")] {
            replace(path, |file| file.write_all(text.as_bytes())).unwrap();
            assert_eq!(fs::read(&file).unwrap(), text.as_bytes());
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let failed = replace(&file, |file| file.write_all(b"half").and(Err(io::Error::other("full"))));
        assert_eq!(failed.unwrap_err().to_string(), "full");
        assert_eq!((fs::read(&file).unwrap(), names(directory.path())), (b"third".to_vec(), 2));
    }

    /// Of what is no file, a socket and a directory can be made by everybody.
    #[test]
    fn only_files_are_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("socket");
        let _listener = UnixListener::bind(&socket).unwrap();
        for path in [&*socket, directory.path()] {
            let refused = replace(path, |_| panic!("nothing is written")).unwrap_err();
            assert!(refused.to_string().contains("something else than a file"), "{refused}");
        }
        assert_eq!(names(directory.path()), 1);
    }

    #[test]
    fn the_file_beside_is_hidden_and_no_prom_file() {
        let name = beside(Path::new("/var/lib/x/linmap.prom"));
        assert_eq!(name.parent(), Some(Path::new("/var/lib/x")));
        let name = name.to_string_lossy().into_owned();
        assert!(name.starts_with("/var/lib/x/.linmap.prom.") && !name.ends_with(".prom"), "{name}");
    }
}
