//! The memory behind both supplies: pages that are zero, and that the host commits when they are first written.

extern crate std;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::format::{Geometry, Pa};

/// Memory that was allocated is aligned to so many bytes without further effort. Where more is asked for, the standard
/// library writes the zeros itself, and so commits all pages at once.
const ALIGNED: usize = 16;

/// The addresses that a memory of this process has or had: the start of each range with its end. They are never used
/// again, since a frame can outlive its memory.
static TAKEN: Mutex<BTreeMap<u64, u64>> = Mutex::new(BTreeMap::new());

/// The alignment of invented address ranges: the largest page size.
const UNIT: u64 = 1 << 16;

/// Reserves `bytes` bytes of invented physical addresses that no other memory of this process has or will have. They
/// start at `wanted` or at the next free address, and end below `end`. Returns `None` if there is no such range.
///
/// Memories with disjoint addresses can refuse each other's pages, as [`Memory`](crate::Memory) requires.
pub fn unshared_addresses(wanted: u64, bytes: u64, end: u64) -> Option<u64> {
    let bytes = bytes.checked_next_multiple_of(UNIT)?;
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first = wanted;
    loop {
        let last = first.checked_add(bytes).filter(|&last| last <= end)?;
        match taken.range(..last).next_back() {
            Some((_, &until)) if until > first => first = until.checked_next_multiple_of(UNIT)?,
            _ => break,
        }
    }
    // Adjacent ranges are joined, so that there are few.
    let last = taken.remove(&(first + bytes)).unwrap_or(first + bytes);
    match taken.range_mut(..first).next_back() {
        Some((_, until)) if *until == first => *until = last,
        _ => _ = taken.insert(first, last),
    }
    Some(first)
}

/// A number of pages in a row, with physical addresses that are invented.
#[derive(Debug)]
pub(super) struct Pages {
    allocated: *mut u8,
    layout: Layout,
    first: *mut u64,
    /// The address of the first page.
    base: u64,
    bytes: u64,
    page_shift: u32,
}

impl Pages {
    /// Returns `limit` pages, at least one, of the geometry's page size.
    ///
    /// # Panics
    ///
    /// The pages are more than an address space holds.
    pub(super) fn new(geometry: Geometry, limit: usize) -> Self {
        let page = geometry.page_size() as usize;
        let bytes = page.saturating_mul(limit.max(1));
        // One page more, so that the first can be aligned.
        let Ok(layout) = Layout::from_size_align(bytes.saturating_add(page), ALIGNED) else {
            panic!("{limit} table pages are more than an address space holds")
        };
        let Some(base) = unshared_addresses(1 << 32, bytes as u64, u64::MAX) else {
            panic!("there are no addresses left for {limit} table pages")
        };
        // SAFETY: the layout's size is not zero: there are two pages at least.
        let allocated = unsafe { alloc_zeroed(layout) };
        if allocated.is_null() {
            handle_alloc_error(layout);
        }
        // SAFETY: the next boundary of a page lies within the first page, and there is one more than asked for.
        let first = unsafe { allocated.add(allocated.addr().next_multiple_of(page) - allocated.addr()) };
        let page_shift = geometry.page_shift();
        Self { allocated, layout, first: first.cast(), base, bytes: bytes as u64, page_shift }
    }

    pub(super) const fn page_size(&self) -> u64 {
        1 << self.page_shift
    }

    /// Returns the address of a page by its number, or `None` after the last.
    pub(super) fn address(&self, number: usize) -> Option<Pa> {
        let offset = (number as u64) << self.page_shift;
        (offset < self.bytes).then(|| Pa(self.base + offset))
    }

    /// Returns the host address of the first word of a page.
    ///
    /// # Panics
    ///
    /// The page is not one of these.
    #[inline]
    pub(super) fn words(&self, page: Pa) -> *mut u64 {
        let offset = page.0.wrapping_sub(self.base);
        assert!(offset < self.bytes, "{page} is not in this memory");
        // SAFETY: it lies within the allocation, as just checked.
        unsafe { self.first.byte_add(offset as usize) }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and freed only here.
        unsafe { dealloc(self.allocated, self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    #[test]
    fn no_two_memories_share_an_address() {
        let mut had = Vec::<(u64, u64)>::new();
        for n in 0..200u64 {
            // Away from the addresses of other tests.
            let (wanted, bytes) = ((1 << 50) + n * 7 % 64 * UNIT, (n * 5 % 9 + 1) * 4096 * (n % 5 + 1));
            let first = unshared_addresses(wanted, bytes, u64::MAX).expect("addresses");
            assert!(first >= wanted, "{first:#x}");
            assert!(
                had.iter().all(|had| first >= had.0 + had.1 || had.0 >= first + bytes),
                "{first:#x} twice"
            );
            had.push((first, bytes));
        }
        let near = |range: &&u64| (1 << 50..1 << 51).contains(*range);
        assert!(TAKEN.lock().unwrap().keys().filter(near).count() < 40, "ranges that meet are one");
        assert_eq!(unshared_addresses(1 << 50, 1, (1 << 50) + UNIT), None);
        assert_eq!(unshared_addresses(0, u64::MAX, u64::MAX), None);
    }
}

// Miri has no mincore.
#[cfg(all(test, target_arch = "x86_64", target_os = "linux", not(miri)))]
mod committed {
    use super::*;
    use crate::format::{Granule, OaFormat};

    fn is_committed(words: *mut u64) -> bool {
        let mut resident = 0_u8;
        // SAFETY: the address is that of a page, and one byte is written.
        let done = unsafe { libc::mincore(words.cast(), 1, &raw mut resident) };
        assert_eq!(done, 0);
        resident & 1 != 0
    }

    #[test]
    fn a_page_is_committed_when_it_is_written() {
        let g = Geometry::new(Granule::K64, 48, OaFormat::Bits48).expect("a geometry");
        let pages = Pages::new(g, 4096);
        let words = pages.words(pages.address(3000).expect("a page"));
        assert_eq!(words.addr() % 0x1_0000, 0);
        assert!(!is_committed(words));
        // SAFETY: it is a word of this memory, which nothing else uses.
        let (before, after) = unsafe {
            let before = words.read();
            words.write(1);
            (before, words.read())
        };
        assert_eq!((before, after, is_committed(words)), (0, 1, true));
        assert_eq!((pages.address(4095).is_some(), pages.address(4096)), (true, None));
    }
}
