//! One page of a kdump-compressed core: its descriptor, and its contents by the method that the descriptor names. Pure.

use super::super::memory::Unreadable;
use linmap::Pa;

/// The bytes of a page descriptor.
pub(super) const DESCRIPTOR: u64 = 24;

const ZLIB: u32 = 1;
const LZO: u32 = 2;
const SNAPPY: u32 = 4;
const ZSTANDARD: u32 = 0x20;

/// A page descriptor: where the contents are in the file, their size there, and the method.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) offset: u64,
    pub(super) size: u32,
    flags: u32,
}

impl Stored {
    pub(super) fn parse(bytes: &[u8; DESCRIPTOR as usize]) -> Self {
        let half = |at: usize| bytes[at..].first_chunk().map_or(0, |half| u32::from_le_bytes(*half));
        let offset = bytes.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Self { offset, size: half(8), flags: half(12) }
    }

    /// Fills a page with its contents. Returns false if they are none.
    fn unpack(self, packed: &[u8], page: &mut [u8]) -> bool {
        let length = page.len();
        let unpacked = match self.flags & (ZLIB | LZO | SNAPPY | ZSTANDARD) {
            0 if packed.len() == length => {
                page.copy_from_slice(packed);
                Some(length)
            }
            ZLIB => inflate(packed, page),
            LZO => lzokay::decompress::decompress(packed, page).ok(),
            SNAPPY => snap::raw::Decoder::new().decompress(packed, page).ok(),
            ZSTANDARD => ruzstd::decoding::FrameDecoder::new().decode_all(packed, page).ok(),
            _ => None,
        };
        unpacked == Some(length)
    }

    /// Fills a page with its contents.
    pub(super) fn contents(self, pa: Pa, packed: &[u8], page: &mut [u8]) -> Result<(), Unreadable> {
        if self.unpack(packed, page) {
            return Ok(());
        }
        let method = match self.flags {
            0 => "nothing",
            ZLIB => "zlib",
            LZO => "LZO",
            SNAPPY => "Snappy",
            ZSTANDARD => "Zstandard",
            _ => "an unknown method",
        };
        let why = format!("its page is damaged: {} bytes, compressed by {method}", self.size);
        Err(Unreadable::Failed { pa, why })
    }
}

fn inflate(packed: &[u8], page: &mut [u8]) -> Option<usize> {
    let mut inflater = flate2::Decompress::new(true);
    let status = inflater.decompress(packed, page, flate2::FlushDecompress::Finish).ok()?;
    (status == flate2::Status::StreamEnd).then(|| inflater.total_out() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use test_support::prelude::*;

    fn packed(flags: u32, page: &[u8]) -> Vec<u8> {
        match flags {
            ZLIB => {
                let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                to.write_all(page).and_then(|()| to.finish()).expect("room")
            }
            LZO => lzokay::compress::compress(page).expect("room"),
            SNAPPY => snap::raw::Encoder::new().compress_vec(page).expect("room"),
            ZSTANDARD => ruzstd::encoding::compress_to_vec(page, ruzstd::encoding::CompressionLevel::Fastest),
            _ => page.to_vec(),
        }
    }

    proptest! {
        #[test]
        fn a_page_is_what_was_packed(words in prop::collection::vec((any::<u64>(), 1usize..200), 1..9), cut in 1usize..9) {
            let mut page: Vec<u8> = words.iter().flat_map(|(word, times)| word.to_le_bytes().repeat(*times)).collect();
            page.resize(4096, 0);
            for flags in [0, ZLIB, LZO, SNAPPY, ZSTANDARD] {
                let packed = packed(flags, &page);
                let stored = Stored { offset: 0, size: packed.len() as u32, flags };
                let mut read = vec![0xff; 4096];
                prop_assert_eq!(stored.contents(Pa(0), &packed, &mut read), Ok(()));
                prop_assert!(read == page, "{flags}");
                // Neither a part of it nor a page of another size.
                prop_assert!(stored.contents(Pa(0), &packed[..packed.len() - cut], &mut read).is_err(), "{flags}");
                prop_assert!(stored.contents(Pa(0), &packed, &mut read[..4000]).is_err(), "{flags}");
                prop_assert!(stored.contents(Pa(0), &packed, &mut vec![0; 4097]).is_err(), "{flags}");
            }
        }

        #[test]
        fn no_bytes_panic(packed: Vec<u8>, flags in 0u32..0x80) {
            let stored = Stored { offset: 0, size: packed.len() as u32, flags };
            let _ = stored.contents(Pa(0), &packed, &mut [0; 4096]);
        }
    }
}
