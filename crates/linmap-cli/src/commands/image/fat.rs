//! A FAT32 file system in memory with the files of a medium, the same bytes each time.

use std::io::{self, Cursor, Write};

use fatfs::{FatType, FileSystem, FormatVolumeOptions, FsOptions};

use super::files::Files;

/// The bytes of a sector.
pub(crate) const SECTOR: u64 = 512;

/// Returns a file system of so many bytes, with the files.
pub(crate) fn with(files: &Files<'_>, bytes: u64) -> io::Result<Vec<u8>> {
    let mut volume = Cursor::new(vec![0; bytes as usize]);
    let id = files.iter().fold(0, |crc, (_, content)| crc ^ crc32fast::hash(content));
    let options =
        FormatVolumeOptions::new().fat_type(FatType::Fat32).volume_id(id).volume_label(*b"LINMAP     ");
    fatfs::format_volume(&mut volume, options)?;
    let system = FileSystem::new(&mut volume, FsOptions::new())?;
    for (path, content) in files.iter() {
        let (directories, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut directory = system.root_dir();
        for part in directories.split('/') {
            directory = directory.create_dir(part)?;
        }
        directory.create_file(name)?.write_all(content)?;
    }
    system.unmount()?;
    Ok(volume.into_inner())
}

#[cfg(test)]
mod tests {
    use super::super::files::tests::application;
    use super::*;
    use std::io::Read;

    #[test]
    fn the_files_are_in_it_and_the_bytes_repeat() {
        let image = application();
        let files = Files::new(&image, "run=selftest").unwrap().unwrap();
        let volume = with(&files, 38 << 20).unwrap();
        assert_eq!(volume, with(&files, 38 << 20).unwrap());
        assert_eq!(&volume[82..90], b"FAT32   ");
        let system = FileSystem::new(Cursor::new(volume), FsOptions::new()).unwrap();
        for (path, content) in files.iter() {
            let mut read = Vec::new();
            system.root_dir().open_file(path).unwrap().read_to_end(&mut read).unwrap();
            assert_eq!(read, content, "{path}");
        }
        assert_eq!(system.root_dir().iter().count(), 2, "two directories");
    }

    #[test]
    fn files_that_have_no_room_are_an_error() {
        let mut image = application();
        image.resize(40 << 20, 0);
        let files = Files::new(&image, "").unwrap().unwrap();
        assert!(with(&files, 38 << 20).is_err());
    }
}
