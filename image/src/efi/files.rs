//! Files on the volume that the image is from.

use core::ptr::{self, NonNull};

use uefi_raw::Status;
use uefi_raw::protocol::file_system::{FileAttribute, FileMode, FileProtocolV1};

use super::variables::success;

/// A directory of a volume, or none that can be opened.
pub(super) struct Directory {
    root: Option<NonNull<FileProtocolV1>>,
    /// The path of the directory, which is made when a file is written; empty for the root.
    path: &'static str,
}

/// An open file.
struct File(NonNull<FileProtocolV1>);

/// The most characters of a path.
const MOST: usize = 63;

impl Directory {
    /// Returns a directory of a volume whose root directory is open.
    pub(super) const fn new(root: Option<NonNull<FileProtocolV1>>, path: &'static str) -> Self {
        Self { root, path }
    }

    /// Opens a file by a path from the root, in ASCII.
    fn open(&self, path: &str, mode: FileMode, attributes: FileAttribute) -> Result<File, u64> {
        let root = self.root.ok_or(Status::NO_MEDIA.0 as u64)?.as_ptr();
        let (mut name, mut file) = ([0; MOST + 1], ptr::null_mut());
        name.iter_mut().zip(path.bytes().take(MOST)).for_each(|(unit, byte)| *unit = byte.into());
        // SAFETY: an open directory, a path with a NUL, and a place of this function.
        success(unsafe { ((*root).open)(root, &raw mut file, name.as_ptr(), mode, attributes) })?;
        NonNull::new(file).map(File).ok_or(Status::DEVICE_ERROR.0 as u64)
    }

    /// Reads a file into `room`. Returns none if there is none, or if it has more bytes than there is room for.
    pub(super) fn read<'a>(&self, path: &str, room: &'a mut [u8]) -> Option<&'a [u8]> {
        let file = self.open(path, FileMode::READ, FileAttribute::empty()).ok()?;
        let mut bytes = room.len();
        // SAFETY: an open file, and as much room as it says.
        let status =
            unsafe { ((*file.0.as_ptr()).read)(file.0.as_ptr(), &raw mut bytes, room.as_mut_ptr().cast()) };
        // A file that fills the room may go on behind it.
        (status == Status::SUCCESS && bytes < room.len()).then(|| &room[..bytes])
    }

    /// Writes a file that is not there yet. Returns false if one is there.
    ///
    /// # Errors
    ///
    /// The firmware does not write it; no part of it stays.
    pub(super) fn write_new(&self, path: &str, bytes: &[u8]) -> Result<bool, u64> {
        match self.open(path, FileMode::READ, FileAttribute::empty()) {
            Ok(_) => return Ok(false),
            Err(status) if status == Status::NOT_FOUND.0 as u64 => {}
            Err(status) => return Err(status),
        }
        let new = FileMode::READ | FileMode::WRITE | FileMode::CREATE;
        self.open(self.path, new, FileAttribute::DIRECTORY)?;
        let file = self.open(path, new, FileAttribute::empty())?;
        match file.write(bytes) {
            Ok(()) => Ok(true),
            Err(status) => {
                file.delete();
                Err(status)
            }
        }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        if let Some(root) = self.root.take() {
            drop(File(root));
        }
    }
}

impl File {
    /// Writes all bytes, to the medium.
    fn write(&self, bytes: &[u8]) -> Result<(), u64> {
        let (file, mut written) = (self.0.as_ptr(), bytes.len());
        // SAFETY: an open file, and as many bytes as it says.
        success(unsafe { ((*file).write)(file, &raw mut written, bytes.as_ptr().cast()) })?;
        // SAFETY: an open file.
        success(unsafe { ((*file).flush)(file) })?;
        if written == bytes.len() { Ok(()) } else { success(Status::VOLUME_FULL) }
    }

    /// Closes and deletes it.
    fn delete(self) {
        // SAFETY: an open file, which is not closed a second time.
        _ = unsafe { ((*self.0.as_ptr()).delete)(self.0.as_ptr()) };
        core::mem::forget(self);
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: an open file or directory, which nothing uses any more.
        _ = unsafe { ((*self.0.as_ptr()).close)(self.0.as_ptr()) };
    }
}
