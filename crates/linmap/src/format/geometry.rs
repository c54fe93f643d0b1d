//! Geometry: the sizes and indices of a translation regime, as a value.
//!
//! A level is a number, never a type, so the same code works at any level of any geometry. Section references are to
//! the Arm ARM (DDI 0487): D8.2 for the lookup levels of each granule, D8.3.1 for the addresses in descriptors, D8.7.1
//! for contiguous runs.
//!
//! A build supports every granule, chosen at run time. With the feature `fixed-4k`, `fixed-16k` or `fixed-64k` it
//! supports that granule alone; the source is the same, and sizes are constants.
//!
//! | granule | bits a level | page | run | L2 block | run | L1 block | run |
//! |---|---|---|---|---|---|---|---|
//! | 4K  | 9  | 4K  | 16 = 64K | 2M   | 16 = 32M | 1G (and 512G at L0 with LPA2) | 16 = 16G |
//! | 16K | 11 | 16K | 128 = 2M | 32M  | 32 = 1G  | 64G, only with LPA2 | none |
//! | 64K | 13 | 64K | 32 = 2M  | 512M | 32 = 16G | 4T, only with a 52-bit OA | none |

use core::fmt;
use core::hash::{Hash, Hasher};

#[cfg(any(
    all(feature = "fixed-4k", feature = "fixed-16k"),
    all(feature = "fixed-4k", feature = "fixed-64k"),
    all(feature = "fixed-16k", feature = "fixed-64k"),
))]
compile_error!("fixed-4k, fixed-16k and fixed-64k exclude each other; without them a build has all sizes");

/// The granule that a feature has fixed.
const FIXED: Option<Granule> = if cfg!(feature = "fixed-4k") {
    Some(Granule::K4)
} else if cfg!(feature = "fixed-16k") {
    Some(Granule::K16)
} else if cfg!(feature = "fixed-64k") {
    Some(Granule::K64)
} else {
    None
};

/// The translation granule: the size of a page and of a whole table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Granule {
    /// 4 KiB pages, 512 entries a table.
    K4,
    /// 16 KiB pages, 2048 entries a table.
    K16,
    /// 64 KiB pages, 8192 entries a table.
    K64,
}

impl Granule {
    /// All granules, smallest first.
    pub const ALL: [Self; 3] = [Self::K4, Self::K16, Self::K64];

    /// The granules of this build, smallest first: all of them, or the one that a feature fixes.
    pub const BUILT: &'static [Self] = match &FIXED {
        Some(fixed) => core::slice::from_ref(fixed),
        None => &Self::ALL,
    };

    /// Returns log2 of the page size in bytes.
    #[inline]
    pub const fn page_shift(self) -> u32 {
        match self {
            Self::K4 => 12,
            Self::K16 => 14,
            Self::K64 => 16,
        }
    }

    /// Returns the page size in bytes.
    pub const fn page_size(self) -> u64 {
        1 << self.page_shift()
    }

    /// Returns log2 of the number of descriptors in a contiguous run at each level from 0 on, four bits each, lowest first:
    /// 0 where there are no runs (D8.7.1, table D8-104).
    const fn runs(self) -> u16 {
        match self {
            Self::K4 => 0x4440,
            Self::K16 => 0x7500,
            Self::K64 => 0x5500,
        }
    }
}

impl fmt::Display for Granule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K4 => "4K",
            Self::K16 => "16K",
            Self::K64 => "64K",
        })
    }
}

/// Where a descriptor keeps the bits of an output address (D8.3.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OaFormat {
    /// 48 bits: bits 47 and below are in place. Every CPU supports this format.
    Bits48,
    /// 52 bits with the 64K granule (FEAT_LPA): OA bits 51:48 are in descriptor bits 15:12.
    Lpa,
    /// 52 bits with the 4K and 16K granules (FEAT_LPA2, TCR.DS = 1): OA bits 51:50 are in descriptor bits 9:8. These
    /// held the shareability, which then comes from TCR.
    Lpa2,
}

/// A lookup level, from -1 (only with LPA2) to 3, the level of pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Level(i8);

impl Level {
    /// The level of pages.
    pub const PAGE: Self = Self(3);
    /// The number of levels from -1 to 3. [`Level::ordinal`] is below it.
    pub const COUNT: usize = 5;

    /// Returns the level with this number. Numbers outside -1..=3 are clamped.
    pub const fn new(number: i8) -> Self {
        Self(if number < -1 {
            -1
        } else if number > 3 {
            3
        } else {
            number
        })
    }

    /// Returns the architecture's number of this level, -1 to 3.
    pub const fn number(self) -> i8 {
        self.0
    }

    /// Returns a number from 0 (level -1) to 4 (level 3), for use as an array index.
    pub const fn ordinal(self) -> usize {
        (self.0 + 1) as usize
    }

    /// The number of levels that may have leaves: those from 0 on.
    pub(crate) const WITH_LEAVES: usize = 4;

    /// Returns the index of a level that may have leaves, from 0 on.
    #[inline(always)]
    pub(crate) const fn leaf_ordinal(self) -> usize {
        self.0 as usize
    }

    /// Returns the level of the tables that this level's table descriptors point to. For pages, returns the level of
    /// pages.
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }

    /// Returns the level `steps` further down, which must exist.
    #[inline]
    pub(crate) const fn down(self, levels: i8) -> Self {
        Self(self.0 + levels)
    }
}

/// Returns 2 to the power of `shift`, or `u64::MAX` if that is too large.
const fn power(shift: u32) -> u64 {
    match 1u64.checked_shl(shift) {
        Some(power) => power,
        None => u64::MAX,
    }
}

/// One size that a leaf can have: a page, a block, or a contiguous run of either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafSize {
    /// The level of its descriptors.
    pub level: Level,
    /// True for a contiguous run of descriptors.
    pub contiguous: bool,
    /// log2 of the bytes that it maps.
    pub shift: u32,
    /// log2 of the bytes that each of its descriptors maps: less than `shift` in a run.
    pub entry_shift: u32,
}

impl LeafSize {
    /// Returns the number of bytes that it maps, saturating.
    pub const fn bytes(self) -> u64 {
        power(self.shift)
    }

    /// Returns the number of its descriptors: 1 unless it is a contiguous run.
    pub const fn descriptors(self) -> u64 {
        power(self.shift.saturating_sub(self.entry_shift))
    }

    /// Returns the number of bytes that it maps, for a size of a real geometry, which cannot overflow.
    #[inline(always)]
    pub(crate) const fn bytes_of_known(self) -> u64 {
        1 << self.shift
    }
}

/// Every size that a leaf of one geometry can have, largest first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeafSizes {
    sizes: [LeafSize; 8],
    count: usize,
}

impl core::ops::Deref for LeafSizes {
    type Target = [LeafSize];

    #[inline]
    fn deref(&self) -> &[LeafSize] {
        self.sizes.get(..self.count).unwrap_or(&[])
    }
}

/// One of the two address ranges: that of TTBR0 or that of TTBR1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// From address 0 up (TTBR0).
    Lower,
    /// From the top address down (TTBR1).
    Upper,
}

/// Granule, VA size and output-address format. All sizes and indices follow from these.
///
/// ```
/// use linmap::arch::Level;
/// use linmap::{Geometry, Granule, OaFormat};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// assert_eq!((g.levels(), g.root().number()), (4, 0));
/// assert_eq!(g.level_size(Level::new(2)), 2 << 20);
/// assert_eq!(g.contiguous_entries(Level::PAGE), 16);
/// # Ok::<(), linmap::error::GeometryError>(())
/// ```
#[derive(Clone, Copy, Debug)]
// It is one word, in the order of `word`: five bytes would be two loads wherever it is passed through memory.
#[repr(C, align(8))]
pub struct Geometry {
    /// log2 of the page size in bytes, which stands for the granule, so that it is not looked up.
    page_shift: u8,
    va_bits: u8,
    oa: OaFormat,
    /// The root level, computed once, so that hot paths need no division.
    root: Level,
    /// The first level whose descriptors may be leaves.
    first_leaf: Level,
    /// log2 of the bytes of the largest leaf that is made.
    largest: u8,
    /// The contiguous runs of the granule, as [`Granule::runs`] has them.
    runs: u16,
}

/// The reason why a geometry is not possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum GeometryError {
    /// The VA size is outside what this granule and format can translate.
    #[error("{va_bits} VA bits: the {granule} granule translates {} to {max}", Geometry::MIN_VA_BITS)]
    VaBits {
        /// The VA size that was asked for.
        va_bits: u32,
        /// The granule.
        granule: Granule,
        /// The largest VA size for that granule and format.
        max: u32,
    },
    /// The output-address format belongs to another granule.
    #[error("{oa:?} is not a format of the {granule} granule: Lpa goes with 64K, Lpa2 with 4K and 16K")]
    Format {
        /// The format that was asked for.
        oa: OaFormat,
        /// The granule.
        granule: Granule,
    },
    /// The granule is not in this build.
    #[error("the {granule} granule: this build has {fixed} pages only")]
    Fixed {
        /// The granule that was asked for.
        granule: Granule,
        /// The granule that a feature fixes.
        fixed: Granule,
    },
}

/// Compared as the one word that it is.
impl PartialEq for Geometry {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.word() == other.word()
    }
}

impl Eq for Geometry {}

impl Hash for Geometry {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.word().hash(state);
    }
}

impl Geometry {
    /// Returns all of it as a number.
    #[inline]
    const fn word(self) -> u64 {
        let [low, high] = self.runs.to_ne_bytes();
        let (oa, root, first_leaf) = (self.oa as u8, self.root.0 as u8, self.first_leaf.0 as u8);
        u64::from_ne_bytes([self.page_shift, self.va_bits, oa, root, first_leaf, self.largest, low, high])
    }

    /// All zero, for a value whose geometry is not known yet.
    pub(crate) const NONE: Self = Self {
        page_shift: 0,
        va_bits: 0,
        oa: OaFormat::Bits48,
        root: Level(0),
        first_leaf: Level(0),
        largest: 0,
        runs: 0,
    };

    /// The smallest VA size in bits.
    pub const MIN_VA_BITS: u32 = 36;

    /// Returns a geometry from its three parts. `va_bits` is 36 to 48, or up to 52 with the 64K granule or LPA2.
    ///
    /// # Errors
    ///
    /// A VA size outside that range, a format of another granule, or a granule that is not in this build.
    #[inline(never)]
    pub const fn new(granule: Granule, va_bits: u32, oa: OaFormat) -> Result<Self, GeometryError> {
        if let Some(fixed) = FIXED
            && granule.page_shift() != fixed.page_shift()
        {
            return Err(GeometryError::Fixed { granule, fixed });
        }
        match (granule, oa) {
            (_, OaFormat::Bits48) | (Granule::K64, OaFormat::Lpa) => {}
            (Granule::K4 | Granule::K16, OaFormat::Lpa2) => {}
            _ => return Err(GeometryError::Format { oa, granule }),
        }
        let large = matches!(granule, Granule::K64) || matches!(oa, OaFormat::Lpa2);
        let max = if large { 52 } else { 48 };
        if va_bits < Self::MIN_VA_BITS || va_bits > max {
            return Err(GeometryError::VaBits { va_bits, granule, max });
        }
        let levels = (va_bits - granule.page_shift()).div_ceil(granule.page_shift() - 3);
        let (root, first_leaf) = (Level(4 - levels as i8), Self::first_level_with_leaves(granule, oa));
        let first_leaf = if first_leaf.0 > root.0 { first_leaf } else { root };
        let (page_shift, va_bits, largest) = (granule.page_shift() as u8, va_bits as u8, u8::MAX);
        Ok(Self { page_shift, va_bits, oa, root, first_leaf, largest, runs: granule.runs() })
    }

    /// Returns the first level whose descriptors may be leaves, wherever the root is (D8.3). Levels 0 and 1 depend on the
    /// 52-bit formats.
    const fn first_level_with_leaves(granule: Granule, oa: OaFormat) -> Level {
        match (granule, oa) {
            (Granule::K4, OaFormat::Lpa2) => Level(0),
            (Granule::K4, _) | (Granule::K16, OaFormat::Lpa2) | (Granule::K64, OaFormat::Lpa) => Level(1),
            _ => Level(2),
        }
    }

    /// Returns this geometry with a limit for leaves: none of more bytes is made,
    /// contiguous runs included. Pages always are. Larger leaves that are in tables already are understood; if one is
    /// split, its parts are entries of the next level, whatever their size.
    ///
    /// ```
    /// use linmap::{Geometry, Granule, OaFormat};
    ///
    /// // Linux knows no contiguous runs of 1G blocks.
    /// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?.with_largest_leaf(1 << 30);
    /// assert_eq!(g.new_leaf_sizes()[0].bytes(), 1 << 30);
    /// assert_eq!(g.leaf_sizes()[0].bytes(), 16 << 30);
    /// # Ok::<(), linmap::error::GeometryError>(())
    /// ```
    #[must_use]
    pub const fn with_largest_leaf(self, bytes: u64) -> Self {
        let page = self.page_size();
        let bytes = if bytes < page { page } else { bytes };
        Self { largest: bytes.ilog2() as u8, ..self }
    }

    /// Returns the translation granule.
    #[inline]
    pub const fn granule(self) -> Granule {
        match self.page_shift() {
            12 => Granule::K4,
            14 => Granule::K16,
            _ => Granule::K64,
        }
    }

    /// Returns the number of VA bits that are translated: 64 less TCR.T0SZ or T1SZ.
    pub const fn va_bits(self) -> u32 {
        self.va_bits as u32
    }

    /// Returns the format of output addresses in descriptors.
    #[inline]
    pub const fn oa_format(self) -> OaFormat {
        self.oa
    }

    /// Returns the number of output-address bits that descriptors can express.
    pub const fn oa_bits(self) -> u32 {
        match self.oa {
            OaFormat::Bits48 => 48,
            OaFormat::Lpa | OaFormat::Lpa2 => 52,
        }
    }

    /// Returns log2 of the page size in bytes.
    #[inline]
    pub const fn page_shift(self) -> u32 {
        match FIXED {
            Some(fixed) => fixed.page_shift(),
            None => self.page_shift as u32,
        }
    }

    /// Returns the size in bytes of a page, which is also that of a table.
    pub const fn page_size(self) -> u64 {
        1 << self.page_shift()
    }

    /// Returns the number of VA bits that one full table resolves. A descriptor has 8 bytes.
    #[inline]
    pub const fn index_bits(self) -> u32 {
        self.page_shift() - 3
    }

    /// Returns the number of lookup levels.
    pub const fn levels(self) -> u32 {
        (4 - self.root.0) as u32
    }

    /// Returns the level of the root table.
    pub const fn root(self) -> Level {
        self.root
    }

    /// Returns log2 of the bytes that one entry at `level` spans. `level` may be above the root, and the result may
    /// exceed the bits of an address: 68 at level -1 of 64K pages.
    #[inline]
    pub const fn level_shift(self, level: Level) -> u32 {
        self.page_shift() + (3 - level.0) as u32 * self.index_bits()
    }

    /// Returns the bytes that one entry at `level` spans, saturating.
    pub const fn level_size(self, level: Level) -> u64 {
        power(self.level_shift(level))
    }

    /// Returns the mask of the address bits that select an entry at `level`. There must be leaves at `level`.
    #[inline(always)]
    pub(crate) const fn level_mask(self, level: Level) -> u64 {
        // At levels above, the shift wraps, and the result is meaningless.
        u64::MAX.wrapping_shl(self.level_shift(level))
    }

    /// Returns the number of entries in a table at `level`. The root may be shorter than other tables.
    #[inline]
    pub const fn entries(self, level: Level) -> usize {
        if level.0 == self.root.0 {
            1 << (self.va_bits() - self.level_shift(level))
        } else {
            1 << self.index_bits()
        }
    }

    /// Returns the index in a table at `level` of the entry that translates `va`.
    #[inline]
    pub const fn index(self, va: u64, level: Level) -> usize {
        match va.checked_shr(self.level_shift(level)) {
            Some(entry) => entry as usize & (self.entries(level) - 1),
            None => 0,
        }
    }

    /// Returns the first level whose descriptors may be leaves (D8.3).
    #[inline]
    pub const fn first_leaf_level(self) -> Level {
        self.first_leaf
    }

    /// Returns true if a descriptor at `level` may be a leaf.
    #[inline]
    pub const fn may_be_leaf(self, level: Level) -> bool {
        level.0 >= self.first_leaf_level().0
    }

    /// Returns the number of descriptors in a contiguous run at `level`, or 1 where there are no runs (D8.7.1, table
    /// D8-104). No root is too short for a run.
    #[inline(always)]
    pub const fn contiguous_entries(self, level: Level) -> usize {
        1 << self.run_shift(level)
    }

    /// Returns log2 of that number.
    #[inline(always)]
    const fn run_shift(self, level: Level) -> u32 {
        let runs = match FIXED {
            Some(fixed) => fixed.runs(),
            None => self.runs,
        };
        // The shift of level -1 wraps to the highest bits, which are 0.
        (runs as u32).wrapping_shr((4 * level.0) as u32) & 0xf
    }

    /// Returns true if leaves are made at `level`, of one descriptor each.
    #[inline]
    pub(crate) const fn makes_leaf(self, level: Level) -> bool {
        self.may_be_leaf(level) && self.level_shift(level) <= self.largest as u32
    }

    /// Returns the first level at which leaves are made.
    #[inline]
    pub(crate) const fn first_level_to_make(self) -> Level {
        let mut level = self.first_leaf_level();
        let mut shift = self.level_shift(level);
        // Pages always are.
        while shift > self.largest as u32 {
            level = level.down(1);
            shift -= self.index_bits();
        }
        level
    }

    /// Returns the number of descriptors in the contiguous runs that are made at `level`, or 1 where none are.
    #[inline(always)]
    pub(crate) const fn run_to_make(self, level: Level) -> usize {
        self.run_to_make_of(level, self.level_shift(level))
    }

    /// Returns the same for a level whose entries span 2^`shift` bytes.
    #[inline(always)]
    pub(crate) const fn run_to_make_of(self, level: Level, shift: u32) -> usize {
        let run = self.run_shift(level);
        if shift + run > self.largest as u32 { 1 } else { 1 << run }
    }

    /// Returns the sizes of the leaves that are made, largest first: those up to
    /// [the limit](Self::with_largest_leaf).
    pub const fn new_leaf_sizes(self) -> LeafSizes {
        self.leaf_sizes_up_to(self.largest as u32)
    }

    /// Returns every size that a leaf can have, largest first.
    pub const fn leaf_sizes(self) -> LeafSizes {
        self.leaf_sizes_up_to(u32::MAX)
    }

    /// Returns the sizes of leaves up to one of 2^`largest` bytes.
    const fn leaf_sizes_up_to(self, largest: u32) -> LeafSizes {
        let page_shift = self.page_shift();
        let page =
            LeafSize { level: Level::PAGE, contiguous: false, shift: page_shift, entry_shift: page_shift };
        let mut found = LeafSizes { sizes: [page; 8], count: 0 };
        let mut level = self.first_leaf_level();
        let mut entry_shift = self.level_shift(level);
        loop {
            let run_shift = self.run_shift(level);
            let shift = entry_shift + run_shift;
            if run_shift != 0 && shift <= largest {
                found.sizes[found.count] = LeafSize { level, contiguous: true, shift, entry_shift };
                found.count += 1;
            }
            if entry_shift <= largest {
                found.sizes[found.count] =
                    LeafSize { level, contiguous: false, shift: entry_shift, entry_shift };
                found.count += 1;
            }
            if level.0 == Level::PAGE.0 {
                return found;
            }
            level = level.next();
            entry_shift -= self.index_bits();
        }
    }

    /// Returns the first address of a half.
    pub const fn base(self, half: Half) -> u64 {
        match half {
            Half::Lower => 0,
            Half::Upper => u64::MAX << self.va_bits(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::vec::Vec;

    fn g(granule: Granule, va_bits: u32, oa: OaFormat) -> Geometry {
        Geometry::new(granule, va_bits, oa).unwrap()
    }

    #[test]
    fn levels_and_roots_are_those_of_the_manual() {
        use {Granule::*, OaFormat::*};
        let rows = [
            (g(K4, 48, Bits48), 4, 0, 512),
            (g(K4, 52, Lpa2), 5, -1, 16),
            (g(K4, 39, Bits48), 3, 1, 512),
            (g(K4, 36, Bits48), 3, 1, 64),
            (g(K16, 47, Bits48), 3, 1, 2048),
            (g(K16, 48, Bits48), 4, 0, 2),
            (g(K16, 36, Bits48), 2, 2, 2048),
            (g(K64, 48, Bits48), 3, 1, 64),
            (g(K64, 52, Lpa), 3, 1, 1024),
            (g(K64, 42, Bits48), 2, 2, 8192),
        ];
        for (g, levels, root, entries) in rows {
            assert_eq!(
                (g.levels(), g.root().number(), g.entries(g.root())),
                (levels, root, entries),
                "{g:?}"
            );
        }
    }

    #[test]
    fn leaf_sizes_are_those_of_the_manual() {
        let sizes = |g: Geometry| g.leaf_sizes().iter().map(|s| s.bytes()).collect::<Vec<_>>();
        const K: u64 = 1 << 10;
        const M: u64 = 1 << 20;
        const G: u64 = 1 << 30;
        use {Granule::*, OaFormat::*};
        assert_eq!(sizes(g(K4, 48, Bits48)), [16 * G, G, 32 * M, 2 * M, 64 * K, 4 * K]);
        assert_eq!(sizes(g(K4, 52, Lpa2)), [512 * G, 16 * G, G, 32 * M, 2 * M, 64 * K, 4 * K]);
        assert_eq!(sizes(g(K16, 48, Bits48)), [G, 32 * M, 2 * M, 16 * K]);
        assert_eq!(sizes(g(K16, 48, Lpa2)), [64 * G, G, 32 * M, 2 * M, 16 * K]);
        assert_eq!(sizes(g(K64, 48, Bits48)), [16 * G, 512 * M, 2 * M, 64 * K]);
        assert_eq!(sizes(g(K64, 52, Lpa)), [4096 * G, 16 * G, 512 * M, 2 * M, 64 * K]);
    }

    #[test]
    fn runs_are_made_up_to_the_largest_leaf() {
        for all in [g(Granule::K4, 48, OaFormat::Bits48), g(Granule::K16, 47, OaFormat::Bits48)] {
            for size in all.leaf_sizes().iter() {
                let g = all.with_largest_leaf(size.bytes());
                for level in (2..=3).map(Level::new) {
                    let members = g.run_to_make(level);
                    let sizes = g.leaf_sizes();
                    let run = sizes.iter().find(|s| s.level == level && s.contiguous).unwrap();
                    assert_eq!(members > 1, run.bytes() <= size.bytes(), "{g:?} {level:?}");
                }
            }
        }
    }

    #[test]
    fn what_can_not_be_is_refused_with_the_reason() {
        let e = Geometry::new(Granule::K4, 52, OaFormat::Bits48).unwrap_err();
        assert_eq!(std::format!("{e}"), "52 VA bits: the 4K granule translates 36 to 48");
        assert!(Geometry::new(Granule::K4, 35, OaFormat::Bits48).is_err());
        assert!(Geometry::new(Granule::K64, 48, OaFormat::Lpa2).is_err());
        assert!(Geometry::new(Granule::K16, 48, OaFormat::Lpa).is_err());
    }

    #[test]
    fn a_granule_is_refused_if_the_build_has_it_not() {
        for granule in Granule::ALL {
            let made = Geometry::new(granule, 48, OaFormat::Bits48);
            assert_eq!(made.is_ok(), Granule::BUILT.contains(&granule), "{made:?}");
        }
    }

    #[test]
    fn every_geometry_covers_its_va_space_exactly() {
        for granule in Granule::ALL {
            for oa in [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2] {
                for va_bits in 36..=52 {
                    let Ok(g) = Geometry::new(granule, va_bits, oa) else { continue };
                    let root = g.root();
                    assert_eq!(g.entries(root) as u64 * g.level_size(root), 1 << va_bits);
                    assert_eq!(g.index(u64::MAX, root), g.entries(root) - 1);
                    assert_eq!(g.index(g.base(Half::Upper), root), 0);
                    assert!(g.leaf_sizes().windows(2).all(|w| w[0].shift > w[1].shift));
                }
            }
        }
    }
}
