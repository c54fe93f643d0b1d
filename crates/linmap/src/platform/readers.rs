//! A grace period by counters of readers: a page is given back when all sections that were open have ended.
//!
//! Readers walk live tables without a lock. A table that an operation removes may still be read by a section that found
//! it before, so it waits. There are two kinds of words:
//!
//! - Each CPU has a word for its sections, in a cache line of its own: the number of open sections, and the epoch at
//!   which the first of them began. A section stores to this word only.
//! - The epoch counts the pages that had to wait. A page waits with the epoch at which it was retired, and is given back
//!   when no open section began at this epoch or before it.
//!
//! While no section is open, a page is given back at once, and nothing is stored that callers share.
//!
//! # The order of the accesses
//!
//! A section stores its word and then loads tables. An operation removes a table from the map and then loads the words
//! of the sections. At least one of them must see the other's store: either the section no longer finds the table, or
//! the operation sees the section. A CPU may execute a load before an earlier store to another address, and acquire and
//! release do not forbid that. Therefore each side has a fence of sequential consistency between its store and its load.
//!
//! A section may load the epoch, and store it much later. The value is then too old, which only delays pages. If it is
//! newer than the epoch of a page, the section loaded it after the fence of the operation that retired that page, so its
//! own fence comes after that one, too, and it sees the map without the table. Who gives waiting pages back may be
//! another caller than the one that retired them: it learns of them by the epoch, and then loads the words of the
//! sections. A release and an acquire put its loads after the other caller's fence.
//!
//! A section ends with a release, and the operation loads the words with an acquire. So all that the section read was
//! read before the page has another owner. Sections of one CPU change the word by atomic additions, so this holds for all
//! that have ended, and a section may be interrupted by others, or end on another CPU.

use crate::format::Pa;
use crate::platform::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::platform::atomic::{AtomicBool, AtomicU64, fence};
use crate::platform::{Frame, Memory};

/// The sections in which the CPUs read live tables, and the pages that wait for their end.
///
/// A kernel without RCU builds [`Sharing::read`](crate::Sharing::read) and
/// [`Sharing::retire`](crate::Sharing::retire) of it, or has [`WithReaders`](crate::WithReaders) do so. Readers wait
/// for nobody. Nobody waits for readers: a page waits in a list instead, which has room for `ROOM` pages. With as many as
/// the kernel has table pages, the list is never full.
#[derive(Debug)]
pub struct Readers<const CPUS: usize, const ROOM: usize> {
    epoch: AtomicU64,
    /// The number of pages that have left the list.
    head: AtomicU64,
    /// The number of pages that have entered it.
    tail: AtomicU64,
    /// True while pages are taken out of the list, which one caller does at a time.
    emptying: AtomicBool,
    /// The number of pages that found no room.
    lost: AtomicU64,
    /// The page with the number `n` is at `n % ROOM`.
    list: [Waiting; ROOM],
    cpus: [Cpu; CPUS],
}

/// The sections of a CPU.
#[derive(Debug)]
#[repr(align(128))]
struct Cpu {
    /// The number of open sections, and above it the epoch at which the first of them began.
    word: AtomicU64,
}

/// The bits of a CPU's word that count its open sections. The epoch has the other 48. An epoch that is cut off is an older
/// one, which only delays pages.
const OPEN: u64 = (1 << EPOCH_SHIFT) - 1;
const EPOCH_SHIFT: u32 = 16;

/// A place in the list.
#[derive(Debug)]
struct Waiting {
    /// The address of the page, or [`NOTHING`].
    page: AtomicU64,
    /// The epoch at which it was retired.
    epoch: AtomicU64,
}

/// The address in an empty place. No page has it.
const NOTHING: u64 = u64::MAX;

/// The number of earlier pages that a caller gives back at most when it retires one, so that it is done soon.
const AT_ONCE: usize = 4;

/// A section in which a CPU reads live tables. It ends when this is dropped.
#[must_use = "the section ends when this is dropped"]
#[derive(Debug)]
pub struct Section<'r> {
    word: &'r AtomicU64,
}

impl Drop for Section<'_> {
    #[inline]
    fn drop(&mut self) {
        // Release: all loads of the section come before the end that others see.
        self.word.fetch_sub(1, Release);
    }
}

impl<const CPUS: usize, const ROOM: usize> Readers<CPUS, ROOM> {
    /// Returns a value without open sections or waiting pages.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(CPUS > 0 && ROOM > 0, "there is a CPU, and room for a page") };
        Self {
            epoch: AtomicU64::new(0),
            head: AtomicU64::new(0),
            tail: AtomicU64::new(0),
            emptying: AtomicBool::new(false),
            lost: AtomicU64::new(0),
            list: [const { Waiting { page: AtomicU64::new(NOTHING), epoch: AtomicU64::new(0) } }; ROOM],
            cpus: [const { Cpu { word: AtomicU64::new(0) } }; CPUS],
        }
    }

    /// Begins a section on the CPU with that number. Tables that it finds from now on stay until it ends.
    ///
    /// A section may begin inside another one, and in an interrupt handler. It may end on another CPU. What matters for
    /// speed alone is that most sections of a number are on one CPU.
    ///
    /// # Panics
    ///
    /// There is no such CPU, or it has more than 65,534 open sections.
    #[inline]
    pub fn enter(&self, cpu: usize) -> Section<'_> {
        let word = &self.cpus[cpu].word;
        let epoch = self.epoch.load(Relaxed);
        let mut old = word.load(Relaxed);
        loop {
            let new = if old & OPEN == 0 { epoch << EPOCH_SHIFT | 1 } else { old + 1 };
            assert!(new & OPEN != OPEN, "too many sections are open on one CPU");
            match word.compare_exchange_weak(old, new, Relaxed, Relaxed) {
                Ok(_) => break,
                Err(now) => old = now,
            }
        }
        // The word is stored before any table is loaded.
        fence(SeqCst);
        Section { word }
    }

    /// Gives a page that was a live table back to `memory`, after all sections that are open now. Does not wait: while one
    /// is open, the page waits in the list. Gives back a few earlier pages whose sections have ended, too.
    ///
    /// # Errors
    ///
    /// The list is full. The page must not be written while sections are open that were open at this call.
    pub fn retire(&self, memory: &impl Memory, frame: Frame) -> Result<(), Frame> {
        // The table is removed from the map before the sections are looked at.
        fence(SeqCst);
        let kept = if self.cpus.iter().all(|cpu| cpu.began().is_none()) {
            memory.give(frame);
            Ok(())
        } else {
            // Release: a caller that loads the new epoch has the fence behind it.
            self.put(frame, self.epoch.fetch_add(1, Release))
        };
        self.give_some(memory, AT_ONCE);
        kept
    }

    /// Gives back all waiting pages whose sections have ended. A kernel calls it now and then, for example when it is
    /// short of memory: pages wait otherwise until the next one is retired.
    pub fn give_back(&self, memory: &impl Memory) {
        self.give_some(memory, ROOM);
    }

    /// Returns the number of pages that wait.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        let head = self.head.load(Relaxed);
        self.tail.load(Relaxed).saturating_sub(head)
    }

    /// Gives up a page that found no room. It is never used again.
    pub fn lose(&self, frame: Frame) {
        _ = frame.into_pa();
        self.lost.fetch_add(1, Relaxed);
    }

    /// Returns the number of pages that were given up. It is 0 if there is room for all table pages.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost.load(Relaxed)
    }

    /// Puts a page at the end of the list.
    fn put(&self, frame: Frame, epoch: u64) -> Result<(), Frame> {
        // Acquire: what the numbers before this one knew of the head is known here. So the list is never found full that
        // has room for all pages.
        let mut tail = self.tail.load(Acquire);
        loop {
            // Acquire: the place was emptied before its number was passed.
            let head = self.head.load(Acquire);
            // The head is the later of the two if others put pages in and took them out in between.
            if tail.saturating_sub(head) >= ROOM as u64 {
                return Err(frame);
            }
            match self.tail.compare_exchange_weak(tail, tail + 1, AcqRel, Acquire) {
                Ok(_) => break,
                Err(now) => tail = now,
            }
        }
        let place = &self.list[(tail % ROOM as u64) as usize];
        place.epoch.store(epoch, Relaxed);
        // Release: the epoch is there, and the fence of `retire` is past, before the page is found.
        place.page.store(frame.into_pa().0, Release);
        Ok(())
    }

    /// Gives back up to `most` pages from the head of the list. Does nothing while another caller does that.
    fn give_some(&self, memory: &impl Memory, most: usize) {
        let alone = || self.emptying.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        if self.waiting() == 0 || !alone() {
            return;
        }
        let oldest = self.oldest();
        for _ in 0..most {
            let head = self.head.load(Relaxed);
            let place = &self.list[(head % ROOM as u64) as usize];
            let page = place.page.load(Acquire);
            if page == NOTHING || place.epoch.load(Relaxed) >= oldest {
                break;
            }
            place.page.store(NOTHING, Relaxed);
            self.head.store(head + 1, Release);
            // SAFETY: the page was a frame when it was put into the list, which it has just left. No section that might
            // have found it is open.
            memory.give(unsafe { Frame::from_pa(Pa(page)) });
        }
        self.emptying.store(false, Release);
    }

    /// Returns the epoch at which the oldest open section began; without one, the epoch of the next page. Pages with
    /// earlier epochs are read by nobody.
    fn oldest(&self) -> u64 {
        // Pages that are retired later have this epoch or a later one. They might be found by sections that begin after
        // their word was loaded. Acquire: the words are loaded after the fences of all callers with earlier pages.
        let next = self.epoch.load(Acquire);
        self.cpus.iter().filter_map(Cpu::began).fold(next, u64::min)
    }
}

impl<const CPUS: usize, const ROOM: usize> Default for Readers<CPUS, ROOM> {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpu {
    /// Returns the epoch at which the first of its open sections began, or `None` if none is open.
    fn began(&self) -> Option<u64> {
        // Acquire: what ended sections have read was read before this.
        let word = self.word.load(Acquire);
        (word & OPEN != 0).then_some(word >> EPOCH_SHIFT)
    }
}
