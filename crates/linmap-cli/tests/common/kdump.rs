//! Writes kdump-compressed cores as makedumpfile and QEMU do: whole, filtered, split, flattened, by every method.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

/// The ways to compress a page, by their flag.
pub(crate) const METHODS: [(u32, &str); 5] =
    [(0, "none"), (1, "zlib"), (2, "LZO"), (4, "Snappy"), (0x20, "Zstandard")];

/// The contents of a core, and its form.
#[derive(Clone)]
pub(crate) struct Dump<'a> {
    /// The size of pages and blocks.
    pub(crate) block: u64,
    /// The pages of RAM, by number.
    pub(crate) ram: Range<u64>,
    /// The pages that are stored, by number.
    pub(crate) pages: &'a BTreeMap<u64, Vec<u8>>,
    /// The text of VMCOREINFO, if the core has it in its place.
    pub(crate) info: Option<&'a str>,
    /// One of [`METHODS`].
    pub(crate) method: u32,
    /// The kinds of pages that are said to be left out.
    pub(crate) level: u32,
    pub(crate) version: u32,
    /// The pages of this part of a split core.
    pub(crate) split: Option<Range<u64>>,
}

impl Dump<'_> {
    /// Returns the file.
    pub(crate) fn file(&self) -> Vec<u8> {
        let block = self.block as usize;
        let split = self.split.clone().unwrap_or(0..u64::MAX);
        let stored: Vec<_> = self.pages.iter().filter(|(page, _)| split.contains(page)).collect();
        let info = self.info.unwrap_or_default();
        let sub_blocks = (104 + info.len()).div_ceil(block);
        let bitmap = (self.ram.end.div_ceil(8) as usize).next_multiple_of(block);
        let mut file = self.header(sub_blocks, 2 * bitmap / block);
        file.extend(self.sub_header());
        file.resize((1 + sub_blocks) * block, 0);
        let mut bits = |is_set: &dyn Fn(u64) -> bool| {
            let mut bitmap = vec![0; bitmap];
            self.ram
                .clone()
                .filter(|page| is_set(*page))
                .for_each(|page| bitmap[(page / 8) as usize] |= 1 << (page % 8));
            file.extend(bitmap);
        };
        bits(&|_| true);
        bits(&|page| self.pages.contains_key(&page));
        let (mut at, mut contents) = (file.len() + 24 * stored.len(), Vec::<u8>::new());
        for (_, page) in stored {
            let packed = packed(self.method, page);
            // As makedumpfile does: a page that does not become smaller is stored as it is.
            let (bytes, flags) = if packed.len() < block { (&packed, self.method) } else { (page, 0) };
            file.extend((at as u64).to_le_bytes());
            file.extend([bytes.len() as u32, flags].map(u32::to_le_bytes).as_flattened());
            file.extend(0u64.to_le_bytes());
            contents.extend(bytes);
            at += bytes.len();
        }
        file.extend(contents);
        file
    }

    fn header(&self, sub_blocks: usize, bitmap_blocks: usize) -> Vec<u8> {
        let mut header = vec![0; self.block as usize];
        header[..8].copy_from_slice(b"KDUMP   ");
        header[272..279].copy_from_slice(b"aarch64");
        let pages = u32::try_from(self.ram.end).unwrap_or(u32::MAX);
        let halves = [self.method, self.block as u32, sub_blocks as u32, bitmap_blocks as u32, pages];
        header[8..12].copy_from_slice(&self.version.to_le_bytes());
        header[424..444].copy_from_slice(halves.map(u32::to_le_bytes).as_flattened());
        header
    }

    /// Returns the sub-header, with VMCOREINFO after it.
    fn sub_header(&self) -> Vec<u8> {
        let info = self.info.unwrap_or_default();
        let split = self.split.clone().unwrap_or(0..0);
        let at = |is_there: bool, at: u64| if is_there { at } else { 0 };
        let of_version = |version, word| at(self.version >= version, word);
        let words = [
            0,
            u64::from(self.level) | u64::from(self.split.is_some()) << 32,
            of_version(2, split.start.min(u32::MAX.into())),
            of_version(2, split.end.min(u32::MAX.into())),
            of_version(3, at(self.info.is_some(), self.block + 104)),
            of_version(3, info.len() as u64),
            0,
            0,
            0,
            0,
            of_version(6, split.start),
            of_version(6, split.end),
            of_version(6, self.ram.end),
        ];
        [words.map(u64::to_le_bytes).as_flattened(), info.as_bytes()].concat()
    }
}

fn packed(method: u32, page: &[u8]) -> Vec<u8> {
    match method {
        1 => {
            let mut to = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
            to.write_all(page).and_then(|()| to.finish()).expect("room")
        }
        2 => lzokay::compress::compress(page).expect("room"),
        4 => snap::raw::Encoder::new().compress_vec(page).expect("room"),
        0x20 => ruzstd::encoding::compress_to_vec(page, ruzstd::encoding::CompressionLevel::Fastest),
        _ => page.to_vec(),
    }
}

/// Returns a file flattened: its header last, as makedumpfile writes it, over a first one of zeros.
pub(crate) fn flattened(file: &[u8], piece: usize) -> Vec<u8> {
    let mut bytes = b"makedumpfile\0\0\0\0".to_vec();
    bytes.extend([1u64, 1].map(u64::to_be_bytes).as_flattened());
    bytes.resize(4096, 0);
    let mut put = |offset: usize, piece: &[u8]| {
        bytes.extend([offset as u64, piece.len() as u64].map(u64::to_be_bytes).as_flattened());
        bytes.extend(piece);
    };
    let first = file.len().min(4096);
    put(0, &vec![0; first]);
    for (index, part) in file[first..].chunks(piece).enumerate() {
        // Blocks of zeros are holes of the file.
        if part.iter().any(|byte| *byte != 0) || first + (index + 1) * piece >= file.len() {
            put(first + index * piece, part);
        }
    }
    put(0, &file[..first]);
    bytes.extend([u64::MAX; 2].map(u64::to_be_bytes).as_flattened());
    bytes
}
