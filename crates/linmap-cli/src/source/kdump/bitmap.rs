//! A bitmap of pages in a file, and how many bits are set before each: little memory, whatever its length.
//!
//! Only the number of bits before each chunk of 4096 bytes is kept; a question reads its chunk again.

use std::ops::Range;

use super::super::bytes::Bytes;
use super::error::KdumpError;

/// The bytes of a chunk, and its pages.
const CHUNK: u64 = 4096;
const PAGES: u64 = CHUNK * 8;
/// The most ranges of memory that are told apart.
const MAX_RANGES: usize = 1 << 16;

/// A bitmap in a file.
#[derive(Debug)]
pub(super) struct Bitmap {
    offset: u64,
    /// The number of pages that it has bits for.
    pages: u64,
    /// The number of bits that are set before each chunk, and in all.
    before: Vec<u64>,
    /// The pages whose bits are set, as ranges; empty if there are too many.
    ranges: Vec<Range<u64>>,
}

impl Bitmap {
    /// Counts the bits of the bitmap at an offset.
    pub(super) fn read(bytes: &Bytes, offset: u64, pages: u64) -> Result<Self, KdumpError> {
        bytes.has("a bitmap", offset, pages.div_ceil(8))?;
        let mut bitmap = Self { offset, pages, before: vec![0], ranges: Vec::new() };
        let (mut count, mut set, mut is_whole) = (0, None, true);
        for start in (0..pages).step_by(PAGES as usize) {
            let words = bitmap.chunk(bytes, start)?;
            for (index, word) in words.iter().enumerate() {
                count += u64::from(word.count_ones());
                is_whole &= bitmap.ranges.len() < MAX_RANGES;
                if is_whole {
                    bitmap.note(&mut set, start + index as u64 * 64, *word);
                }
            }
            bitmap.before.push(count);
        }
        bitmap.ranges.extend(set.map(|first| first..pages));
        if !is_whole {
            bitmap.ranges.clear();
        }
        Ok(bitmap)
    }

    /// Returns the pages whose bits are set, as ranges; none if there are too many.
    pub(super) fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// Returns the number of bits before a page's, and whether its own is set. Beyond the end no bit is.
    pub(super) fn rank(&self, bytes: &Bytes, page: u64) -> Result<(u64, bool), KdumpError> {
        let total = self.before.last().copied().unwrap_or(0);
        if page >= self.pages {
            return Ok((total, false));
        }
        let words = self.chunk(bytes, page - page % PAGES)?;
        let (index, bit) = ((page % PAGES / 64) as usize, page % 64);
        let below = words[..index].iter().map(|word| u64::from(word.count_ones())).sum::<u64>();
        let own = words[index];
        let before = self.before.get((page / PAGES) as usize).copied().unwrap_or(0);
        Ok((before + below + u64::from((own & ((1 << bit) - 1)).count_ones()), own >> bit & 1 == 1))
    }

    /// Adds the ranges of 64 pages to those before them. `set` is the first page of an open range.
    fn note(&mut self, set: &mut Option<u64>, start: u64, word: u64) {
        let mut at = 0;
        while at < 64 {
            let rest = if set.is_some() { !(word >> at) } else { word >> at };
            let next = at + rest.trailing_zeros();
            if next >= 64 {
                return;
            }
            match set.take() {
                Some(first) => self.ranges.push(first..start + u64::from(next)),
                None => *set = Some(start + u64::from(next)),
            }
            at = next;
        }
    }

    /// Returns the words of the chunk that begins with a page; bits beyond the last page are clear.
    fn chunk(&self, bytes: &Bytes, start: u64) -> Result<[u64; (CHUNK / 8) as usize], KdumpError> {
        let mut words = [[0; 8]; (CHUNK / 8) as usize];
        let left = self.pages - start;
        let length = left.div_ceil(8).min(CHUNK) as usize;
        bytes.read_at(&mut words.as_flattened_mut()[..length], self.offset + start / 8)?;
        let mut words = words.map(u64::from_le_bytes);
        if left < PAGES {
            words[(left / 64) as usize] &= (1 << (left % 64)) - 1;
            words[(left / 64) as usize + 1..].fill(0);
        }
        Ok(words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use test_support::prelude::*;

    proptest! {
        #[test]
        fn bits_are_counted(runs in prop::collection::vec((0u64..40_000, any::<bool>()), 1..8), offset in 0u64..9, more: u8) {
            let bits: Vec<bool> = runs.iter().flat_map(|(count, set)| std::iter::repeat_n(*set, *count as usize)).collect();
            let mut bytes = vec![0xff; offset as usize];
            bytes.extend(bits.chunks(8).map(|bits| {
                bits.iter().enumerate().fold(more << bits.len().min(7), |byte, (bit, set)| byte & !(1 << bit) | u8::from(*set) << bit)
            }));
            let mut file = tempfile::tempfile().expect("a temporary file");
            file.write_all(&bytes).expect("room for it");
            let bytes = Bytes::of(file, bytes.len() as u64);
            let bitmap = Bitmap::read(&bytes, offset, bits.len() as u64).expect("a bitmap");
            let (mut count, mut ranges): (u64, Vec<Range<u64>>) = (0, Vec::new());
            for (page, set) in bits.iter().enumerate() {
                let page = page as u64;
                if page.is_multiple_of(997) || page + 1 == bits.len() as u64 {
                    prop_assert_eq!(bitmap.rank(&bytes, page).expect("a page"), (count, *set));
                }
                count += u64::from(*set);
                match ranges.last_mut() {
                    Some(last) if *set && last.end == page => last.end += 1,
                    _ if *set => ranges.push(page..page + 1),
                    _ => {}
                }
            }
            prop_assert_eq!(bitmap.ranges(), &ranges);
            prop_assert_eq!(bitmap.rank(&bytes, bits.len() as u64).expect("a page"), (count, false));
        }
    }
}
