//! Readers that hold no lock, and when a page that they may be reading can be used again.
//!
//! Each CPU has a word of its own. While it reads, the word has the *moment* at which it began; nested sections, as those
//! of an interrupt handler, leave the first one open. A page that is retired, after the last pointer to it has been removed,
//! begins a new moment. It is free when each open section began at that moment or later: such a section has seen that the
//! pointer is gone.
//!
//! A CPU writes its word and *then* loads tables; a page is retired and *then* the words are read, with a full barrier
//! between the two in both places. So a section that is not seen to be open finds the pointer gone.

use core::sync::atomic::{AtomicU64, Ordering, fence};

/// The word of a CPU that does not read.
const AWAY: u64 = 0;

/// The word of one CPU, which alone writes it, in a cache line of its own: a moment plus 1.
#[derive(Debug)]
#[repr(align(128))]
struct Word(AtomicU64);

/// All CPUs as readers.
#[derive(Debug)]
pub struct Readers<const CPUS: usize> {
    /// The number of pages retired so far.
    moment: AtomicU64,
    words: [Word; CPUS],
}

/// A section that is open, with what it leaves in the CPU's word when it ends.
#[derive(Debug)]
#[must_use = "a section ends with `end`"]
pub struct Section(u64);

impl<const CPUS: usize> Readers<CPUS> {
    /// Returns CPUs that do not read.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self { moment: AtomicU64::new(0), words: [const { Word(AtomicU64::new(AWAY)) }; CPUS] }
    }

    /// Opens a section on the CPU that calls this. It may be interrupted at any instruction by another one.
    #[inline]
    pub fn begin(&self, cpu: usize) -> Section {
        let word = &self.words[cpu % CPUS].0;
        let before = word.load(Ordering::Relaxed);
        if before == AWAY {
            word.store(self.moment.load(Ordering::Acquire) + 1, Ordering::Relaxed);
            fence(Ordering::SeqCst);
        }
        Section(before)
    }

    /// Ends a section of the CPU that calls this, the last one that it opened.
    #[inline]
    pub fn end(&self, cpu: usize, section: Section) {
        self.words[cpu % CPUS].0.store(section.0, Ordering::Release);
    }

    /// Returns true if none of the CPUs below a number reads: what has no pointer any more is free.
    #[inline]
    pub fn nobody_reads(&self, cpus: usize) -> bool {
        fence(Ordering::SeqCst);
        self.words[..cpus.min(CPUS)].iter().all(|word| word.0.load(Ordering::Acquire) == AWAY)
    }

    /// Begins the moment of a page that has no pointer any more.
    fn begin_moment(&self) -> u64 {
        self.moment.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Returns the moment at which the oldest open section of the CPUs below a number began; the last of all moments if
    /// none is open.
    fn oldest(&self, cpus: usize) -> u64 {
        fence(Ordering::SeqCst);
        let words = self.words[..cpus.min(CPUS)].iter().map(|word| word.0.load(Ordering::Acquire));
        words.filter(|word| *word != AWAY).map(|word| word - 1).min().unwrap_or(u64::MAX)
    }
}

/// Pages that wait for readers, each with its moment, the oldest first.
#[derive(Debug)]
pub struct Retired<const ROOM: usize> {
    /// The page with the number `n` is at `n % ROOM`.
    pages: [(u64, u64); ROOM],
    /// The number of pages that have left the list.
    head: usize,
    /// The number of pages that have entered it.
    tail: usize,
}

impl<const ROOM: usize> Retired<ROOM> {
    /// Returns an empty list.
    #[expect(clippy::new_without_default, reason = "it is for statics")]
    pub const fn new() -> Self {
        Self { pages: [(0, 0); ROOM], head: 0, tail: 0 }
    }

    /// Returns the number of pages that wait.
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Returns true if none waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a page that has no pointer any more. Returns false, and does nothing, if there is no room.
    pub fn add<const CPUS: usize>(&mut self, readers: &Readers<CPUS>, page: u64) -> bool {
        let has_room = self.len() < ROOM;
        if has_room {
            self.pages[self.tail % ROOM] = (page, readers.begin_moment());
            self.tail += 1;
        }
        has_room
    }

    /// Hands out the pages that no CPU below a number can be reading any more.
    pub fn release<const CPUS: usize>(
        &mut self,
        readers: &Readers<CPUS>,
        cpus: usize,
        mut free: impl FnMut(u64),
    ) {
        let oldest = readers.oldest(cpus);
        while !self.is_empty() {
            let (page, moment) = self.pages[self.head % ROOM];
            if moment > oldest {
                break;
            }
            free(page);
            self.head += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::sync::atomic::AtomicBool;
    use std::vec::Vec;
    use std::{thread, vec};

    /// Adds a page, then takes those that are free.
    fn retire(list: &mut Retired<4>, readers: &Readers<3>, page: u64) -> Vec<u64> {
        assert!(list.add(readers, page));
        freed(list, readers)
    }

    fn freed(list: &mut Retired<4>, readers: &Readers<3>) -> Vec<u64> {
        let mut free = vec![];
        list.release(readers, 3, |page| free.push(page));
        free
    }

    #[test]
    fn a_page_waits_for_the_sections_that_were_open_and_for_no_other() {
        let (readers, mut list) = (Readers::<3>::new(), Retired::new());
        assert!(readers.nobody_reads(3) && list.is_empty());
        assert_eq!(retire(&mut list, &readers, 10), [10]);
        let one = readers.begin(0);
        assert!(!readers.nobody_reads(3));
        assert_eq!(retire(&mut list, &readers, 11), []);
        let other = readers.begin(2);
        assert_eq!(retire(&mut list, &readers, 12), []);
        readers.end(0, one);
        assert_eq!(freed(&mut list, &readers), [11]);
        assert_eq!(list.len(), 1);
        let late = readers.begin(1);
        readers.end(2, other);
        assert_eq!(freed(&mut list, &readers), [12]);
        readers.end(1, late);
        assert!(readers.nobody_reads(3) && list.is_empty());
    }

    #[test]
    fn a_section_within_a_section_ends_with_the_outer_one() {
        let (readers, mut list) = (Readers::<3>::new(), Retired::new());
        let outer = readers.begin(1);
        assert_eq!(retire(&mut list, &readers, 10), []);
        let inner = readers.begin(1);
        assert_eq!(freed(&mut list, &readers), []);
        readers.end(1, inner);
        assert_eq!(freed(&mut list, &readers), []);
        readers.end(1, outer);
        assert_eq!(freed(&mut list, &readers), [10]);
    }

    /// `early` pages leave the list first, while the others still wait. Their room can be used at once.
    #[test]
    fn a_full_list_takes_no_page_and_loses_none() {
        for early in 0..=4 {
            let (readers, mut list) = (Readers::<3>::new(), Retired::new());
            for round in (0..100).step_by(10) {
                let pages = |range: std::ops::Range<u64>| range.map(|page| round + page).collect::<Vec<_>>();
                let add = |list: &mut Retired<4>, range| {
                    pages(range).into_iter().all(|page| list.add(&readers, page))
                };
                let first = readers.begin(0);
                assert!(add(&mut list, 0..early));
                let second = readers.begin(1);
                assert!(add(&mut list, early..4));
                assert!(!list.add(&readers, 99));
                readers.end(0, first);
                assert_eq!(freed(&mut list, &readers), pages(0..early));
                assert!(add(&mut list, 4..4 + early));
                assert!(!list.add(&readers, 99));
                readers.end(1, second);
                assert_eq!(freed(&mut list, &readers), pages(early..4 + early));
            }
        }
    }

    /// Tells the other threads that it is over, even if this one panics: else they would go on for ever.
    struct Over<'o>(&'o AtomicBool);

    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    /// The values of a page.
    const IN_USE: u64 = 1;
    const FREE: u64 = 2;

    /// One thread changes which page is in use and retires the one before; the others read the page that they find. The
    /// page that they have found is in use, or at least not free, until they have left.
    #[test]
    fn no_page_is_free_while_a_thread_reads_it() {
        const THREADS: usize = 3;
        let readers = Readers::<{ THREADS + 1 }>::new();
        let pages = [const { AtomicU64::new(FREE) }; 8];
        let (current, over, wrong) = (AtomicU64::new(0), AtomicBool::new(false), AtomicU64::new(0));
        let read = [const { AtomicU64::new(0) }; THREADS];
        let mut list = Retired::<7>::new();
        pages[0].store(IN_USE, Ordering::Relaxed);
        let free = |page: u64| pages[page as usize].store(FREE, Ordering::Relaxed);
        thread::scope(|scope| {
            for cpu in 0..THREADS {
                let (readers, pages, current, over) = (&readers, &pages, &current, &over);
                let (read, wrong) = (&read[cpu], &wrong);
                scope.spawn(move || {
                    while !over.load(Ordering::Relaxed) {
                        let section = readers.begin(cpu);
                        let page = current.load(Ordering::Relaxed) as usize;
                        let is_free = |_: &i32| pages[page].load(Ordering::Relaxed) != IN_USE;
                        wrong.fetch_add((0..100).filter(is_free).count() as u64, Ordering::Relaxed);
                        readers.end(cpu, section);
                        read.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let _over = Over(&over);
            let mut changes = 0;
            let few = |read: &AtomicU64| read.load(Ordering::Relaxed) < 10_000;
            while changes < 50_000 || read.iter().any(few) {
                list.release(&readers, THREADS, free);
                let is_free = |page: &usize| pages[*page].load(Ordering::Relaxed) == FREE;
                let Some(next) = (0..pages.len()).find(is_free) else { continue };
                pages[next].store(IN_USE, Ordering::Relaxed);
                let before = current.swap(next as u64, Ordering::AcqRel);
                assert!(list.add(&readers, before), "there are no more pages");
                changes += 1;
            }
        });
        // All threads have left their sections.
        list.release(&readers, THREADS, free);
        assert_eq!(wrong.into_inner(), 0, "pages were free while they were read");
        assert_eq!(pages.iter().filter(|page| page.load(Ordering::Relaxed) == IN_USE).count(), 1);
    }
}
