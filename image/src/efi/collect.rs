//! The document of an earlier run, from variables to a file beside the image: `\\linmap\\measure-1.json`, or the next number.

use core::fmt::Write;

use arrayvec::ArrayString;
use kernel_plan::efi::handover::Span;
use kernel_plan::efi::stored::{Outcome, Volume, WORK, collect};

use super::files::Directory;
use super::firmware::Firmware;

/// The directory of the files.
const DIRECTORY: &str = "\\linmap";

/// The files of a directory.
struct Files(Directory);

/// Returns the path of a file.
fn path(number: u32) -> ArrayString<40> {
    let mut path = ArrayString::new();
    // There is room for any number.
    _ = write!(path, "{DIRECTORY}\\measure-{number}.json");
    path
}

impl Volume for Files {
    fn write_new(&mut self, number: u32, bytes: &[u8]) -> Result<bool, u64> {
        self.0.write_new(&path(number), bytes)
    }
}

/// Writes the document of an earlier run to a file, if there is one. `room` is memory of the stub's. Returns true if a file has been
/// written.
pub(super) fn document(firmware: &mut Firmware, room: Span) -> bool {
    let Some(mut services) = firmware.variables() else { return false };
    let work: *mut u8 = core::ptr::with_exposed_provenance_mut(room.address as usize);
    // SAFETY: the stub's own memory, as much as that, which nothing else uses yet; any bytes of it are bytes.
    let work = unsafe {
        work.write_bytes(0, WORK);
        core::slice::from_raw_parts_mut(work, WORK)
    };
    let mut files = Files(firmware.directory(DIRECTORY));
    let result = collect(&mut services, &mut files, work);
    // Without a console there is nobody to tell.
    _ = match result {
        Ok(Outcome::Nothing) => Ok(()),
        Ok(Outcome::Written(number)) => {
            writeln!(firmware, "the document of the last run is in {}", path(number))
        }
        Ok(Outcome::Removed(torn)) => {
            writeln!(firmware, "warning: the document of the last run is not whole and removed: {torn}")
        }
        Err(why) => writeln!(firmware, "warning: the document of the last run: {why}"),
    };
    matches!(result, Ok(Outcome::Written(_)))
}
