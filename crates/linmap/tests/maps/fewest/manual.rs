//! Sizes as the Arm ARM has them, typed out: levels and block sizes from D8.2, runs from table D8-104.
//!
//! Deliberately tables and no formulas: the library computes, so the tests do not.

use linmap::{Geometry, Granule, OaFormat};

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
const T: u64 = 1 << 40;

/// A size that a leaf can have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) level: i8,
    /// Descriptors: one, or as many as a contiguous run has.
    pub(crate) members: u64,
    pub(crate) bytes: u64,
}

/// The sizes of one geometry.
#[derive(Clone, Debug)]
pub(crate) struct Manual {
    /// The level of the root table.
    pub(crate) root: i8,
    pub(crate) va_bits: u32,
    pub(crate) oa_bits: u32,
    /// All leaf sizes that this root leaves, smallest first.
    pub(crate) sizes: Vec<Size>,
    /// The bytes that one entry spans, from level 3 up.
    spans: &'static [u64],
}

impl Manual {
    pub(crate) fn of(g: Geometry) -> Self {
        let root = root(g.granule(), g.va_bits());
        let size = |&(level, members, bytes)| Size { level, members, bytes };
        let sizes = leaves(g.granule(), g.oa_format()).iter().map(size).filter(|s| s.level >= root).collect();
        let oa_bits = if g.oa_format() == OaFormat::Bits48 { 48 } else { 52 };
        Self { root, va_bits: g.va_bits(), oa_bits, sizes, spans: spans(g.granule()) }
    }

    pub(crate) fn page(&self) -> u64 {
        self.spans[0]
    }

    /// The bytes that one entry at `level` spans.
    pub(crate) fn span(&self, level: i8) -> u64 {
        self.spans[(3 - level) as usize]
    }

    /// The bytes of the linear half.
    pub(crate) fn half(&self) -> u64 {
        1 << (self.va_bits - 1)
    }

    /// Returns the number of entries of a table at `level` that lie in the linear half.
    pub(crate) fn entries(&self, level: i8) -> u64 {
        if level == self.root { self.half() / self.span(level) } else { self.page() / 8 }
    }

    /// The bytes of a leaf of `members` descriptors at `level`, if there are such leaves.
    pub(crate) fn leaf(&self, level: i8, members: u64) -> Option<u64> {
        self.sizes.iter().find(|s| (s.level, s.members) == (level, members)).map(|s| s.bytes)
    }

    /// The length of a contiguous run at `level`, or 1.
    pub(crate) fn run(&self, level: i8) -> u64 {
        self.sizes.iter().filter(|s| s.level == level).map(|s| s.members).max().unwrap_or(1)
    }
}

/// Level, descriptors and bytes of every leaf.
fn leaves(granule: Granule, oa: OaFormat) -> &'static [(i8, u64, u64)] {
    const K4: [(i8, u64, u64); 7] = [
        (3, 1, 4 * K),
        (3, 16, 64 * K),
        (2, 1, 2 * M),
        (2, 16, 32 * M),
        (1, 1, G),
        (1, 16, 16 * G),
        (0, 1, 512 * G),
    ];
    const K16: [(i8, u64, u64); 5] =
        [(3, 1, 16 * K), (3, 128, 2 * M), (2, 1, 32 * M), (2, 32, G), (1, 1, 64 * G)];
    const K64: [(i8, u64, u64); 5] =
        [(3, 1, 64 * K), (3, 32, 2 * M), (2, 1, 512 * M), (2, 32, 16 * G), (1, 1, 4 * T)];
    // The last of each wants a 52-bit output address.
    match (granule, oa) {
        (Granule::K4, OaFormat::Bits48) => &K4[..6],
        (Granule::K4, _) => &K4,
        (Granule::K16, OaFormat::Bits48) => &K16[..4],
        (Granule::K16, _) => &K16,
        (Granule::K64, OaFormat::Bits48) => &K64[..4],
        (Granule::K64, _) => &K64,
    }
}

fn spans(granule: Granule) -> &'static [u64] {
    match granule {
        Granule::K4 => &[4 * K, 2 * M, G, 512 * G, 256 * T],
        Granule::K16 => &[16 * K, 32 * M, 64 * G, 128 * T],
        Granule::K64 => &[64 * K, 512 * M, 4 * T],
    }
}

fn root(granule: Granule, va_bits: u32) -> i8 {
    match (granule, va_bits) {
        (Granule::K4, ..=39) => 1,
        (Granule::K4, ..=48) => 0,
        (Granule::K4, _) => -1,
        (Granule::K16, ..=36) => 2,
        (Granule::K16, ..=47) => 1,
        (Granule::K16, _) => 0,
        (Granule::K64, ..=42) => 2,
        (Granule::K64, _) => 1,
    }
}
