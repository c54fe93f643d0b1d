//! makedumpfile's flattened form of a file, for writers that cannot seek: pieces, each after its offset and length.
//!
//! A header of 4096 bytes begins with `makedumpfile`. Offsets and lengths are big-endian, and an offset of -1 ends the
//! file. Where pieces overlap, the later one has the bytes, as if they had been written one after the other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// The first bytes of a flattened file.
pub(super) const MAGIC: &[u8] = b"makedumpfile\0";
const HEADER: u64 = 4096;
const PIECE_HEADER: u64 = 16;
/// The type and the version of the form, after 16 bytes of name: the only ones that there are.
const KIND: [u64; 2] = [1, 1];
/// The offset in the header of the last piece.
const END: u64 = u64::MAX;
/// The most pieces: of 16K each, those of 64 GiB.
const MAX_PIECES: usize = 1 << 22;

/// Why a flattened file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FlattenedError {
    #[error("it cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error(
        "it is in makedumpfile's flattened form, of type {kind} and version {version}; only type 1, version 1 is known"
    )]
    Kind { kind: u64, version: u64 },
    #[error("it is a flattened file that is not whole: it ends at byte {at}, before its last piece does")]
    Truncated { at: u64 },
    #[error("it is a flattened file, and damaged: the piece at byte {at} has an impossible offset or length")]
    Damaged { at: u64 },
    #[error(
        "it is a flattened file of more than {MAX_PIECES} pieces; `makedumpfile -R CORE < FILE` makes a core of it"
    )]
    TooMany,
}

/// Where the bytes of the original file are in the flattened one.
#[derive(Debug, Default)]
pub(super) struct Flattened {
    /// By offset in the original file: the length of a piece, and its offset in the flattened file.
    pieces: BTreeMap<u64, (u64, u64)>,
}

impl Flattened {
    /// Reads the headers of all pieces of a file of so many bytes.
    pub(super) fn read(file: &File, bytes: u64) -> Result<Self, FlattenedError> {
        let [kind, version] = read_words(file, 16, bytes)?;
        if [kind, version] != KIND {
            return Err(FlattenedError::Kind { kind, version });
        }
        let (mut flattened, mut at) = (Self::default(), HEADER);
        loop {
            let [offset, length] = read_words(file, at, bytes)?;
            if offset == END {
                return Ok(flattened);
            }
            let start = at + PIECE_HEADER;
            let damaged = || FlattenedError::Damaged { at };
            offset.checked_add(length).filter(|end| *end < 1 << 62u32).ok_or_else(damaged)?;
            let next = start.checked_add(length).ok_or_else(damaged)?;
            if next > bytes {
                return Err(FlattenedError::Truncated { at: bytes });
            }
            flattened.write(offset, length, start);
            if flattened.pieces.len() > MAX_PIECES {
                return Err(FlattenedError::TooMany);
            }
            at = next;
        }
    }

    /// Returns the length of the original file.
    pub(super) fn length(&self) -> u64 {
        self.pieces.last_key_value().map_or(0, |(offset, (length, _))| offset + length)
    }

    /// Fills `into` from the bytes at `offset` of the original file; those that were never written are zeros.
    pub(super) fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(into.len() as u64).filter(|end| *end <= self.length());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        into.fill(0);
        let before = self.pieces.range(..=offset).next_back();
        let after = self.pieces.range(offset..end).filter(|(start, _)| **start != offset);
        for (start, (length, at)) in before.into_iter().chain(after) {
            let (first, last) = (offset.max(*start), end.min(start + length));
            if first < last {
                let part = &mut into[(first - offset) as usize..(last - offset) as usize];
                file.read_exact_at(part, at + (first - start))?;
            }
        }
        Ok(())
    }

    /// Records that these bytes were written, over older ones.
    fn write(&mut self, offset: u64, length: u64, at: u64) {
        if length == 0 {
            return;
        }
        let end = offset + length;
        if let Some((start, (old, from))) = self.pieces.range(..offset).next_back().map(|(s, p)| (*s, *p))
            && start + old > offset
        {
            self.pieces.insert(start, (offset - start, from));
            if start + old > end {
                self.pieces.insert(end, (start + old - end, from + (end - start)));
            }
        }
        while let Some((start, (old, from))) = self.pieces.range(offset..end).next().map(|(s, p)| (*s, *p)) {
            self.pieces.remove(&start);
            if start + old > end {
                self.pieces.insert(end, (start + old - end, from + (end - start)));
            }
        }
        self.pieces.insert(offset, (length, at));
    }
}

/// Returns the two numbers at an offset.
fn read_words(file: &File, at: u64, bytes: u64) -> Result<[u64; 2], FlattenedError> {
    let mut words = [[0; 8]; 2];
    if at.checked_add(PIECE_HEADER).is_none_or(|end| end > bytes) {
        return Err(FlattenedError::Truncated { at: bytes });
    }
    file.read_exact_at(words.as_flattened_mut(), at)?;
    Ok(words.map(u64::from_be_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use test_support::prelude::*;

    fn flat(pieces: &[(u64, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(16, 0);
        bytes.extend(KIND.map(u64::to_be_bytes).as_flattened());
        bytes.resize(HEADER as usize, 0);
        for (offset, piece) in pieces {
            bytes.extend(offset.to_be_bytes());
            bytes.extend((piece.len() as u64).to_be_bytes());
            bytes.extend(piece);
        }
        bytes.extend([END, END].map(u64::to_be_bytes).as_flattened());
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Flattened, File), FlattenedError> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("room for it");
        Flattened::read(&file, bytes.len() as u64).map(|flattened| (flattened, file))
    }

    proptest! {
        /// Pieces in any order, over one another, are the file that writing them makes.
        #[test]
        fn pieces_are_written_one_after_the_other(
            pieces in prop::collection::vec((0u64..60, prop::collection::vec(1u8.., 0..20)), 0..12),
            (offset, length) in (0u64..90, 0usize..90),
        ) {
            let mut original = Vec::new();
            for (offset, piece) in pieces.iter().filter(|(_, piece)| !piece.is_empty()) {
                let end = *offset as usize + piece.len();
                original.resize(end.max(original.len()), 0);
                original[*offset as usize..end].copy_from_slice(piece);
            }
            let (flattened, file) = read(&flat(&pieces)).expect("it is whole");
            prop_assert_eq!(flattened.length(), original.len() as u64);
            let mut part = vec![0xff; length];
            let read = flattened.read_at(&file, &mut part, offset).is_ok();
            let expected = original.get(offset as usize..offset as usize + length);
            prop_assert_eq!(read.then_some(&part[..]), expected);
        }

        #[test]
        fn a_damaged_file_is_refused_or_read(noise: Vec<u8>, at in 0usize..8192, end in 0usize..8192) {
            let mut bytes = flat(&[(0, vec![1; 2000]), (5000, vec![2; 1000])]);
            let at = at.min(bytes.len());
            bytes.splice(at..(at + noise.len()).min(bytes.len()), noise.iter().copied());
            bytes.truncate(end);
            if let Ok((flattened, file)) = read(&bytes) {
                let _ = flattened.read_at(&file, &mut [0; 100], 0);
            }
        }
    }

    #[test]
    fn a_file_that_ends_too_early_is_named() {
        let whole = flat(&[(0, vec![1; 20])]);
        for end in [20, 4096, 4100, 4096 + 16 + 19, whole.len() - 1] {
            let why = read(&whole[..end]).expect_err("it is not whole").to_string();
            assert!(why.contains(&format!("it ends at byte {end}")), "{why}");
        }
        let mut other = whole;
        other[23] = 7;
        assert!(read(&other).expect_err("another type").to_string().contains("of type 7"));
    }
}
