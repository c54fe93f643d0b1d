//! The files that firmware and the image look for on a medium.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use kernel_plan::efi::command_line::CommandLine;

use super::failure::Failure;
use crate::whole_file::replace;

/// The application that firmware starts from removable media (UEFI specification, section 3.5.1.1).
pub(crate) const APPLICATION: &str = "EFI/BOOT/BOOTAA64.EFI";
/// The boot arguments, which the image reads.
pub(crate) const ARGUMENTS: &str = "linmap/cmdline.txt";

/// The files of a medium.
pub(crate) struct Files<'a> {
    application: &'a [u8],
    arguments: String,
}

impl<'a> Files<'a> {
    /// Returns the files for an image with boot arguments; none if the image is no EFI application.
    pub(crate) fn new(image: &'a [u8], arguments: &str) -> Option<Result<Self, Failure>> {
        let pe = image.get(0x3c..)?.first_chunk().map(|at| u32::from_le_bytes(*at) as usize)?;
        if !image.starts_with(b"MZ") || image.get(pe..pe.checked_add(6)?)? != b"PE\0\0\x64\xaa" {
            return None;
        }
        let checked = CommandLine::default().add_file(arguments.as_bytes()).map_err(Failure::Arguments);
        Some(checked.map(|()| Self { application: image, arguments: format!("{arguments}\n") }))
    }

    /// Iterates over the paths, with `/` between their parts, and the contents.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        [(APPLICATION, self.application), (ARGUMENTS, self.arguments.as_bytes())].into_iter()
    }

    /// Writes them below a directory, which must exist: a mistyped one is no medium. An error has the path of its file.
    pub(crate) fn write_into(&self, directory: &Path) -> Result<(), (PathBuf, io::Error)> {
        fs::read_dir(directory).map_err(|error| (directory.to_owned(), error))?;
        for (path, content) in self.iter() {
            let path = below(directory, path);
            let written = path.parent().map_or(Ok(()), fs::create_dir_all);
            let written = written
                .and_then(|()| replace(&path, |file| file.write_all(content).and_then(|()| file.sync_all())));
            written.map_err(|error| (path, error))?;
        }
        Ok(())
    }
}

/// Returns a path of a medium below a directory.
fn below(directory: &Path, path: &str) -> PathBuf {
    path.split('/').fold(directory.to_owned(), |at, part| at.join(part))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The beginning of an EFI application.
    pub(crate) fn application() -> Vec<u8> {
        let mut image = vec![0; 0x1000];
        image[..2].copy_from_slice(b"MZ");
        image[0x3c] = 0x40;
        image[0x40..0x46].copy_from_slice(b"PE\0\0\x64\xaa");
        image
    }

    #[test]
    fn only_an_application_for_arm64_will_do() {
        let good = application();
        assert!(matches!(Files::new(&good, "run=dump"), Some(Ok(_))));
        assert!(matches!(Files::new(&good, "a\u{e9}"), Some(Err(Failure::Arguments(_)))));
        for at in [0, 0x3c, 0x3f, 0x40, 0x44] {
            let mut bad = good.clone();
            bad[at] ^= 0xff;
            assert!(Files::new(&bad, "").is_none(), "byte {at:#x}");
        }
        assert!(Files::new(b"MZ", "").is_none());
    }

    #[test]
    fn files_are_replaced_and_nothing_is_left_beside_them() {
        let directory = tempfile::tempdir().unwrap();
        for arguments in ["run=dump", "run=bench"] {
            let image = application();
            Files::new(&image, arguments).unwrap().unwrap().write_into(directory.path()).unwrap();
            let read = |path| fs::read(directory.path().join(path)).unwrap();
            assert_eq!(read(APPLICATION), image);
            assert_eq!(read(ARGUMENTS), format!("{arguments}\n").as_bytes());
        }
        assert_eq!(fs::read_dir(directory.path().join("linmap")).unwrap().count(), 1);
        let image = application();
        let mistyped = directory.path().join("mistyped");
        let refused = Files::new(&image, "").unwrap().unwrap().write_into(&mistyped);
        assert_eq!(
            refused.map_err(|(path, error)| (path, error.kind())),
            Err((mistyped, io::ErrorKind::NotFound))
        );
    }
}
