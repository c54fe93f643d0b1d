//! Files on the volume that the image is from.

use core::ptr::{self, NonNull};

use uefi_raw::Status;
use uefi_raw::protocol::file_system::{FileAttribute, FileMode, FileProtocolV1};

/// The most characters of a path.
const MOST: usize = 63;

/// An open file or directory.
pub(super) struct File(NonNull<FileProtocolV1>);

impl File {
    /// Returns a file or directory that is open, and is closed with the value.
    ///
    /// # Safety
    ///
    /// The firmware has opened it, and nothing else uses it. Boot services are not left while the value lives.
    pub(super) const unsafe fn new(open: NonNull<FileProtocolV1>) -> Self {
        Self(open)
    }

    /// Opens a file to read it, by a path from the root in ASCII. This one is a directory.
    pub(super) fn open(&self, path: &str) -> Option<Self> {
        let (mut name, mut file) = ([0; MOST + 1], ptr::null_mut());
        name.iter_mut().zip(path.bytes().take(MOST)).for_each(|(unit, byte)| *unit = byte.into());
        let directory = self.0.as_ptr();
        // SAFETY: an open directory, a path with a NUL, and a place of this function.
        let status = unsafe {
            ((*directory).open)(
                directory,
                &raw mut file,
                name.as_ptr(),
                FileMode::READ,
                FileAttribute::empty(),
            )
        };
        (status == Status::SUCCESS).then_some(())?;
        NonNull::new(file).map(Self)
    }

    /// Reads all of it into `room`. Returns none if it has more bytes than there is room for.
    pub(super) fn read<'a>(&self, room: &'a mut [u8]) -> Option<&'a [u8]> {
        let (file, mut bytes) = (self.0.as_ptr(), room.len());
        // SAFETY: an open file, and as much room as it says.
        let status = unsafe { ((*file).read)(file, &raw mut bytes, room.as_mut_ptr().cast()) };
        // A file that fills the room may go on behind it.
        (status == Status::SUCCESS && bytes < room.len()).then(|| &room[..bytes])
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: an open file or directory, which nothing uses any more.
        _ = unsafe { ((*self.0.as_ptr()).close)(self.0.as_ptr()) };
    }
}
