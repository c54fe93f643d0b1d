//! The purpose of present-invalid pages in a linear map: present for Linux, but no access translates.
//!
//! Linux takes pages out of its linear map (`set_memory_valid`, `set_direct_map_invalid_noflush`) for
//!
//! - KFENCE: the guards of its pool, at least every second page, and free objects;
//! - the image's data and bss, from 7.3 on: they are used at the image's own addresses;
//! - a loaded crash kernel, up to 6.3: each of its segments, of which kernel and initrd are the largest;
//! - `debug_pagealloc`: all free memory;
//! - `memfd_secret`, and other users of private pages.

use std::ops::Range;

use linmap::Pa;

use super::certainty::Certainty;
use super::release::{CRASH_KERNEL_UNMAPPED, Version};

/// The most pieces that are listed; the others are only counted.
const MAX_PIECES: usize = 1 << 16;
/// The fewest valid pages of a pool. Each is an object between two guards; that the pages between so many of those that
/// another user took are an odd number by chance is less likely than one in 2^16.
const MIN_OBJECTS: u64 = 16;
/// The size of the smallest crash kernel.
const MIN_CRASH_KERNEL: u64 = 16 << 20;
/// The largest distance from it to its other segments.
const CRASH_KERNEL_REACH: u64 = 512 << 20;

/// A range of the linear map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pool {
    pub(crate) va: u64,
    pub(crate) pa: u64,
    pub(crate) bytes: u64,
}

/// Neighbouring invalid pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) va: u64,
    pub(crate) pa: u64,
    pub(crate) bytes: u64,
}

/// All of them, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pieces {
    list: Vec<Piece>,
    /// The bytes of all that was added, listed or not.
    bytes: u64,
    places: u64,
    /// The end of the last one.
    end: Option<(u64, u64)>,
}

/// The purpose of such pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Kfence,
    ImageData,
    CrashKernel,
    DebugPagealloc,
    Taken,
}

impl Purpose {
    /// All of them, in the order in which they are shown.
    const ALL: [Self; 5] =
        [Self::Kfence, Self::ImageData, Self::CrashKernel, Self::DebugPagealloc, Self::Taken];

    /// Returns its name in documents.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Kfence => "kfence",
            Self::ImageData => "image_data",
            Self::CrashKernel => "crash_kernel",
            Self::DebugPagealloc => "debug_pagealloc",
            Self::Taken => "taken",
        }
    }

    /// Returns its name for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Kfence => "KFENCE's pool: guards, and objects that are free",
            Self::ImageData => "the kernel's data and bss, which are used at the image's own addresses",
            Self::CrashKernel => "a crash kernel that is loaded, protected by kdump",
            Self::DebugPagealloc => "debug_pagealloc: pages that are free",
            Self::Taken => "memfd_secret, or another user that takes its pages out of the linear map",
        }
    }

    /// Returns how it is known: only pages at the place of the image's data are certain.
    pub(crate) const fn certainty(self) -> Certainty {
        match self {
            Self::ImageData => Certainty::Known,
            _ => Certainty::Inferred,
        }
    }
}

/// All pages of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) what: Purpose,
    pub(crate) bytes: u64,
    /// The number of pieces.
    pub(crate) places: u64,
    /// The first address.
    pub(crate) va: u64,
}

/// Facts that tell such pages apart.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// The size of a page.
    pub(crate) page: u64,
    /// The bytes that valid leaves of the linear map cover.
    pub(crate) covered: u64,
    /// The memory of the image's writable segments.
    pub(crate) data: Vec<Range<Pa>>,
    /// The kernel's version.
    pub(crate) version: Option<Version>,
}

impl Pieces {
    /// Adds an invalid leaf; leaves are added in order of address.
    pub(crate) fn add(&mut self, va: u64, pa: u64, bytes: u64) {
        self.bytes += bytes;
        let goes_on = self.end == Some((va, pa));
        self.end = Some((va.wrapping_add(bytes), pa.wrapping_add(bytes)));
        if goes_on {
            // The list has this piece, unless it was full when the piece began.
            if let Some(last) = self.list.last_mut()
                && last.va.wrapping_add(last.bytes) == va
            {
                last.bytes += bytes;
            }
            return;
        }
        self.places += 1;
        if self.list.len() < MAX_PIECES {
            self.list.push(Piece { va, pa, bytes });
        }
    }

    /// Returns the longest row of pages of which only every second one may be valid: KFENCE's pool is one, as each of
    /// its objects has a page between two guards.
    pub(crate) fn pool(&self, page: u64) -> Option<Pool> {
        let is_odd = |piece: &Piece| (piece.bytes / page) % 2 == 1;
        let follows =
            |a: &Piece, b: &Piece| a.va.wrapping_add(a.bytes).wrapping_add(page) == b.va && is_odd(b);
        let rows = self.list.chunk_by(follows).filter_map(|row| {
            let (first, last) = (row.first()?, row.last()?);
            let bytes = (last.va - first.va).wrapping_add(last.bytes);
            let (all, valid) = (bytes / page, row.len() as u64 - 1);
            // If all free pages are invalid, valid ones are rare, or neighbours.
            let is_pool = valid >= MIN_OBJECTS && valid * 16 >= all;
            is_pool.then_some(Pool { va: first.va, pa: first.pa, bytes })
        });
        // Of equal ones, the first.
        rows.reduce(|best, next| if next.bytes > best.bytes { next } else { best })
    }

    /// Returns the largest segment of a crash kernel, if the release takes it out of the linear map.
    fn crash_kernel(&self, context: &Context) -> Option<Piece> {
        if context.version.is_some_and(|version| version >= CRASH_KERNEL_UNMAPPED) {
            return None;
        }
        let largest = self.list.iter().max_by_key(|piece| piece.bytes).copied();
        largest.filter(|piece| piece.bytes >= MIN_CRASH_KERNEL)
    }

    /// Returns all pages by purpose; a purpose without pages is left out.
    pub(crate) fn kinds(&self, context: &Context) -> Vec<Invalid> {
        let pool = self.pool(context.page);
        let crash = self.crash_kernel(context);
        let mut kinds = Purpose::ALL.map(|what| Invalid { what, bytes: 0, places: 0, va: 0 });
        let mut add = |what: Purpose, bytes, places, va| {
            let kind = &mut kinds[what as usize];
            kind.va = if kind.places == 0 { va } else { kind.va };
            kind.bytes += bytes;
            kind.places += places;
        };
        let (mut bytes, mut places, mut first) = (self.bytes, self.places, None);
        for piece in &self.list {
            match told(piece, pool, crash, context) {
                Some(what) => {
                    add(what, piece.bytes, 1, piece.va);
                    bytes -= piece.bytes;
                    places -= 1;
                }
                None => first = first.or(Some(piece.va)),
            }
        }
        if places > 0 {
            // Free memory is much, and everywhere.
            let all = self.bytes.saturating_add(context.covered);
            let is_free = places > 1000 && bytes > all / 32;
            let what = if is_free { Purpose::DebugPagealloc } else { Purpose::Taken };
            add(what, bytes, places, first.unwrap_or(0));
        }
        kinds.into_iter().filter(|kind| kind.places > 0).collect()
    }
}

/// Returns the purpose of one piece by its place.
fn told(piece: &Piece, pool: Option<Pool>, crash: Option<Piece>, context: &Context) -> Option<Purpose> {
    let is_pool = |pool: Pool| piece.va >= pool.va && piece.va - pool.va < pool.bytes;
    let end = piece.pa.saturating_add(piece.bytes);
    let is_data = |data: &Range<Pa>| piece.pa < data.end.0 && data.start.0 < end;
    if pool.is_some_and(is_pool) {
        Some(Purpose::Kfence)
    } else if context.data.iter().any(is_data) {
        Some(Purpose::ImageData)
    } else if crash.is_some_and(|crash| crash.pa.abs_diff(piece.pa) < CRASH_KERNEL_REACH) {
        Some(Purpose::CrashKernel)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 4096;
    const MIB: u64 = 1 << 20;
    const BASE: u64 = 0xffff_0000_0000_0000;

    /// Returns pieces from page numbers; the linear map starts at RAM's first gigabyte.
    fn pieces(pages: impl IntoIterator<Item = u64>) -> Pieces {
        let mut pieces = Pieces::default();
        for page in pages {
            pieces.add(BASE + page * PAGE, (1 << 30) + page * PAGE, PAGE);
        }
        pieces
    }

    fn kinds(pieces: &Pieces, version: Version, data: &[Range<Pa>]) -> Vec<(Purpose, u64, u64)> {
        let (version, data) = (Some(version), data.to_vec());
        let context = Context { page: PAGE, covered: 4 << 30, data, version };
        pieces.kinds(&context).iter().map(|k| (k.what, k.bytes / PAGE, k.places)).collect()
    }

    #[test]
    fn a_pool_is_told_from_pages_that_are_merely_not_valid() {
        // Two guards, then one after each usable page; some objects are free.
        let pool: Vec<_> = (64..104).filter(|page| *page < 66 || page % 2 == 1 || *page == 70).collect();
        let found = pieces(pool.clone()).pool(PAGE).expect("a pool");
        assert_eq!((found.va, found.pa, found.bytes), (BASE + 64 * PAGE, (1 << 30) + 64 * PAGE, 40 * PAGE));
        let all = pieces(pool.into_iter().chain([300, 301, 500]));
        assert_eq!(kinds(&all, Version(7, 2), &[]), [(Purpose::Kfence, 22, 19), (Purpose::Taken, 3, 2)]);
        assert_eq!(pieces(64..164).pool(PAGE), None);
        assert_eq!(pieces([]).pool(PAGE), None);
    }

    /// Pages that one user took, a few at a time, between those of others.
    #[test]
    fn single_valid_pages_between_others_are_no_pool() {
        let few = (64..84).filter(|page| ![70, 76].contains(page));
        assert_eq!(pieces(few).pool(PAGE), None);
        // Every third page is valid.
        assert_eq!(pieces((64..264).filter(|page| page % 3 != 0)).pool(PAGE), None);
    }

    #[test]
    fn the_images_data_is_known_by_its_place() {
        let data = Pa((1 << 30) + 512 * PAGE)..Pa((1 << 30) + 5120 * PAGE);
        let found = pieces((512..5120).chain([9000]));
        assert_eq!(
            kinds(&found, Version(7, 3), std::slice::from_ref(&data)),
            [(Purpose::ImageData, 4608, 1), (Purpose::Taken, 1, 1)]
        );
    }

    #[test]
    fn a_crash_kernel_is_one_large_piece_of_an_older_kernel() {
        let (kernel, device_tree) = (4096..4096 + 32 * MIB / PAGE, 30_000..30_016);
        let found = pieces(kernel.chain(device_tree).chain([500_000]));
        assert_eq!(
            kinds(&found, Version(6, 1), &[]),
            [(Purpose::CrashKernel, 8208, 2), (Purpose::Taken, 1, 1)]
        );
        assert_eq!(kinds(&found, Version(6, 12), &[]), [(Purpose::Taken, 8209, 3)]);
    }

    #[test]
    fn what_is_free_is_much_and_everywhere() {
        let free = (0..500_000).filter(|page| page % 250 < 230);
        assert_eq!(kinds(&pieces(free), Version(6, 12), &[]), [(Purpose::DebugPagealloc, 460_000, 2000)]);
        // Thousands of secret pages are not a pool.
        let secret = (0..9000).filter(|page| page % 3 == 0);
        assert_eq!(kinds(&pieces(secret), Version(6, 12), &[]), [(Purpose::Taken, 3000, 3000)]);
    }

    #[test]
    fn what_is_beyond_the_list_is_counted() {
        let many = (0..300_000).filter(|page| page % 4 < 2);
        assert_eq!(kinds(&pieces(many), Version(6, 12), &[]), [(Purpose::DebugPagealloc, 150_000, 75_000)]);
    }
}
