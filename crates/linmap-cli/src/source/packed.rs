//! Files that a general program compressed, `gzip` or `zstd`, and pipes: both become a temporary file, which can be read
//! anywhere.
//!
//! The file has no name, so that it disappears with the command, and no room is taken for blocks of zeros.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::Step;

/// The number of bytes that are written or left out at once.
const BLOCK: usize = 64 << 10;
/// More bytes than any core has.
const MAX_BYTES: u64 = 1 << 46;

/// A form that is unpacked here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Packing {
    /// RFC 1952.
    Gzip,
    /// RFC 8878.
    Zstandard,
    /// As it is: the contents of a pipe.
    None,
}

/// Why a temporary file could not be made.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackedError {
    #[error("it is compressed by {}, and damaged or not whole: {why}", .packing.program())]
    Damaged { packing: Packing, why: io::Error },
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    #[error(
        "it cannot be read anywhere, so its contents are put into a temporary file in {}, and that fails: {why}; TMPDIR names \
         another directory", .directory.display()
    )]
    Room { directory: PathBuf, why: io::Error },
    #[error("it does not end: there are more than {MAX_BYTES} bytes in it")]
    Endless,
}

impl Packing {
    /// Returns the form of a file by its first bytes, if it is one of these.
    pub(super) fn of(beginning: &[u8]) -> Option<Self> {
        match beginning {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Self::Zstandard),
            _ => None,
        }
    }

    const fn program(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstandard => "zstd",
            Self::None => "nothing",
        }
    }
}

/// Unpacks everything into a temporary file, and returns it with its length.
pub(super) fn unpacked(
    packing: Packing,
    from: impl Read,
    progress: &dyn Fn(Step),
) -> Result<(File, u64), PackedError> {
    let from = BufReader::with_capacity(BLOCK, from);
    match packing {
        Packing::Gzip => copied(packing, MultiGzDecoder::new(from), progress),
        Packing::Zstandard => {
            copied(packing, Frames { from, decoder: FrameDecoder::new(), open: false }, progress)
        }
        Packing::None => copied(packing, from, progress),
    }
}

fn copied(
    packing: Packing,
    mut from: impl Read,
    progress: &dyn Fn(Step),
) -> Result<(File, u64), PackedError> {
    let directory = std::env::var_os("TMPDIR").map_or_else(|| "/var/tmp".into(), PathBuf::from);
    let room = |why| PackedError::Room { directory: directory.clone(), why };
    let mut file = tempfile::tempfile_in(&directory).map_err(room)?;
    let (mut block, mut length) = (Vec::with_capacity(BLOCK), 0);
    loop {
        block.clear();
        let read = from.by_ref().take(BLOCK as u64).read_to_end(&mut block);
        read.map_err(|why| match packing {
            Packing::None => PackedError::Read(why),
            _ => PackedError::Damaged { packing, why },
        })?;
        if block.is_empty() {
            file.set_len(length).map_err(room)?;
            return Ok((file, length));
        }
        if block.iter().all(|byte| *byte == 0) {
            file.seek(SeekFrom::Current(block.len() as i64)).map_err(room)?;
        } else {
            file.write_all(&block).map_err(room)?;
        }
        length += block.len() as u64;
        if length > MAX_BYTES {
            return Err(PackedError::Endless);
        }
        progress(Step { what: "unpacking, in MiB", done: length >> 20, total: None });
    }
}

/// The contents of all frames of Zstandard, one after the other.
struct Frames<R> {
    from: R,
    decoder: FrameDecoder,
    /// True while a frame has more contents.
    open: bool,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = if self.open { self.decoder.read(into)? } else { 0 };
            if read != 0 || into.is_empty() {
                return Ok(read);
            }
            if self.open && !self.decoder.is_finished() {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.from, some).map_err(damaged)?;
            } else if self.from.fill_buf()?.is_empty() {
                return Ok(0);
            } else {
                self.open = self.next()?;
            }
        }
    }
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame; returns false for one that has no contents, which is skipped.
    fn next(&mut self) -> io::Result<bool> {
        match self.decoder.init(&mut self.from) {
            Ok(()) => Ok(true),
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length, ..
            })) => {
                io::copy(&mut self.from.by_ref().take(length.into()), &mut io::sink())?;
                Ok(false)
            }
            Err(why) => Err(damaged(why)),
        }
    }
}

fn damaged(why: FrameDecoderError) -> io::Error {
    io::Error::other(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};
    use std::io::Write;
    use test_support::prelude::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(bytes).and_then(|()| packed.finish()).expect("room")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        compress_to_vec(bytes, CompressionLevel::Fastest)
    }

    fn contents(bytes: &[u8]) -> Result<Vec<u8>, PackedError> {
        let (mut file, length) = unpacked(Packing::of(bytes).unwrap_or(Packing::None), bytes, &|_| ())?;
        let mut contents = Vec::new();
        file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut contents)).expect("a file");
        assert_eq!(contents.len() as u64, length);
        Ok(contents)
    }

    proptest! {
        /// Several parts, as `cat` and parallel programs make them, and zeros between and after them.
        #[test]
        fn what_was_packed_is_unpacked(parts in prop::collection::vec((prop::collection::vec(1u8.., 1..300), 0usize..200_000), 1..4)) {
            let parts: Vec<Vec<u8>> = parts.iter().map(|(part, zeros)| [&part[..], &vec![0; *zeros]].concat()).collect();
            let whole = parts.concat();
            let gzip = parts.iter().flat_map(|part| gzip(part)).collect::<Vec<u8>>();
            prop_assert!(contents(&gzip).is_ok_and(|contents| contents == whole));
            // A frame without contents before the others.
            let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
            let mut zstd: Vec<Vec<u8>> = parts.iter().map(|part| zstd(part)).collect();
            zstd.insert(1, skipped.to_vec());
            prop_assert!(contents(&zstd.concat()).is_ok_and(|contents| contents == whole));
            prop_assert!(contents(&whole).is_ok_and(|contents| contents == whole));
        }

        #[test]
        fn what_is_cut_is_refused(bytes in prop::collection::vec(any::<u8>(), 1..5000), cut in 1usize..12) {
            for (packed, program) in [(gzip(&bytes), "gzip"), (zstd(&bytes), "zstd")] {
                let why = contents(&packed[..packed.len() - cut.min(packed.len() - 4)]).expect_err("it is not whole").to_string();
                prop_assert!(why.starts_with(&format!("it is compressed by {program}, and damaged")), "{why}");
            }
        }
    }
}
