//! A list without an allocator: a few records inline, the others in table pages, with an index to find them.

use crate::format::Pa;
use crate::platform::{Frame, Memory};

/// A record of three words.
pub(crate) type Record = [u64; 3];

/// A record in a page, with the address of the next record of the same hash, or 0. The first record of each page has
/// the address of the next page instead.
type Stored = [u64; 4];

/// The number of records that need no page.
const FEW: usize = 8;

/// Records, in the order of insertion.
pub(crate) struct Records<'m, M: Memory> {
    memory: &'m M,
    few: [Record; FEW],
    used: usize,
    /// A page with the address of the last record for each hash. It exists once there are records in pages.
    index: Option<Pa>,
    /// The first and the last page. The first record of each has the address of the next page.
    pages: Option<(Pa, Pa)>,
    /// The number of records for which the last page has room.
    room: usize,
}

impl<'m, M: Memory> Records<'m, M> {
    /// Returns an empty list.
    pub(crate) const fn new(memory: &'m M) -> Self {
        Self { memory, few: [[0; 3]; FEW], used: 0, index: None, pages: None, room: 0 }
    }

    /// Adds a record with a key. Returns `None` if that needs a page and there is none.
    pub(crate) fn push(&mut self, key: u64, record: Record) -> Option<()> {
        if let Some(place) = self.few.get_mut(self.used) {
            *place = record;
        } else {
            self.push_to_page(key, record)?;
        }
        self.used += 1;
        Some(())
    }

    #[cold]
    fn push_to_page(&mut self, key: u64, [a, b, c]: Record) -> Option<()> {
        let index = match self.index {
            Some(index) => index,
            None => self.add_index()?,
        };
        let last = match self.pages {
            Some((_, last)) if self.room != 0 => last,
            _ => self.add_page()?,
        };
        let (room, size) = (self.room, size_of::<Stored>());
        let place = self.with_page(last, |records| records.len()) - room;
        let before =
            self.with_head(index, key, |head| core::mem::replace(head, last.0 + (place * size) as u64));
        self.with_page(last, |records| records[place] = [a, b, c, before]);
        self.room -= 1;
        Some(())
    }

    /// Takes a page for the index, without records.
    fn add_index(&mut self) -> Option<Pa> {
        let page = self.memory.take()?.into_pa();
        self.with_page(page, |words| words.fill([0; 4]));
        self.index = Some(page);
        Some(page)
    }

    /// Calls `work` with the index entry for the hash of a key: the address of the last record with that hash.
    fn with_head<R>(&self, index: Pa, key: u64, work: impl FnOnce(&mut u64) -> R) -> R {
        self.with_page(index, |words| {
            let words = words.as_flattened_mut();
            // Multiplication by the golden ratio: the upper bits of the product depend on all bits of the key.
            let hash = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            work(&mut words[hash as usize % words.len()])
        })
    }

    /// Returns all records with a key, and possibly others.
    pub(crate) fn find(&self, key: u64) -> impl Iterator<Item = Record> {
        let mut next = self.index.map_or(0, |index| self.with_head(index, key, |head| *head));
        let in_pages = core::iter::from_fn(move || {
            let (page, offset) =
                (next & !(self.memory.page_size() - 1), next & (self.memory.page_size() - 1));
            let [a, b, c, before] = (next != 0).then(|| {
                self.with_page(Pa(page), |records| records[offset as usize / size_of::<Stored>()])
            })?;
            next = before;
            Some([a, b, c])
        });
        self.few.iter().take(self.used).copied().chain(in_pages)
    }

    /// Adds a page. Returns its address.
    fn add_page(&mut self) -> Option<Pa> {
        let page = self.memory.take()?.into_pa();
        self.room = self.with_page(page, |records| records.len() - 1);
        let first = self.pages.map_or(page, |(first, last)| {
            self.with_page(last, |records| records[0][0] = page.0);
            first
        });
        self.pages = Some((first, page));
        Some(page)
    }

    fn with_page<R>(&self, page: Pa, work: impl FnOnce(&mut [Stored]) -> R) -> R {
        // SAFETY: the list took the page, and holds only its address.
        let mut frame = unsafe { Frame::from_pa(page) };
        let result = work(self.memory.slots(&mut frame).as_chunks_mut().0);
        // The page belongs to the list again.
        frame.into_pa();
        result
    }

    /// Returns all records, in the order of insertion.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Record> + Clone {
        let few = self.few.iter().take(self.used).copied();
        few.chain(self.in_pages())
    }

    fn in_pages(&self) -> impl Iterator<Item = Record> + Clone {
        let mut left = self.used.saturating_sub(FEW);
        let mut place = self.pages.map(|(first, _)| (first, 1));
        core::iter::from_fn(move || {
            let (page, index) = place.filter(|_| left != 0)?;
            left -= 1;
            Some(self.with_page(page, |records| {
                let goes_on = index + 1 < records.len();
                place = Some(if goes_on { (page, index + 1) } else { (Pa(records[0][0]), 1) });
                let [a, b, c, _] = records[index];
                [a, b, c]
            }))
        })
    }
}

/// Gives back its pages.
impl<M: Memory> Drop for Records<'_, M> {
    fn drop(&mut self) {
        if let Some(index) = self.index {
            // SAFETY: the list took the page, and is no longer used.
            self.memory.give(unsafe { Frame::from_pa(index) });
        }
        let mut next = self.pages.map(|(first, _)| first);
        while let Some(page) = next {
            let after = self.with_page(page, |records| Pa(records[0][0]));
            next = self.pages.filter(|(_, last)| *last != page).map(|_| after);
            // SAFETY: the list took the page, and drops its address.
            self.memory.give(unsafe { Frame::from_pa(page) });
        }
    }
}

#[cfg(all(test, feature = "std"))]
mod tests {
    use super::*;
    use crate::platform::host::HostMemory;
    use crate::tests::geometries;
    extern crate std;
    use std::vec::Vec;

    #[test]
    fn records_come_back_in_order_and_pages_go_back() {
        for g in geometries().into_iter().filter(|g| g.va_bits() == 48) {
            let memory = HostMemory::new(g, 3);
            let of_page = g.page_size() as usize / 32 - 1;
            for count in [0, 1, 8, 9, 8 + of_page, 9 + of_page, 8 + 2 * of_page] {
                let mut records = Records::new(&memory);
                let key = |n: u64| n % 5000;
                let all: Vec<Record> = (0..count as u64).map(|n| [n, !n, n << 32]).collect();
                all.iter().for_each(|record| records.push(key(record[0]), *record).expect("room enough"));
                assert_eq!(records.iter().collect::<Vec<_>>(), all, "{g:?}");
                for record in &all {
                    let found: Vec<_> =
                        records.find(key(record[0])).filter(|other| other == record).collect();
                    assert_eq!(found, [*record], "{g:?}");
                }
                let pages = count.saturating_sub(8).div_ceil(of_page) as u64;
                assert_eq!(memory.in_use() as u64, pages + u64::from(pages != 0));
                if count == 8 + 2 * of_page {
                    assert_eq!((records.push(0, [0; 3]), records.iter().count()), (None, count), "{g:?}");
                }
                drop(records);
                assert_eq!(memory.in_use(), 0, "{g:?}");
            }
        }
    }
}
