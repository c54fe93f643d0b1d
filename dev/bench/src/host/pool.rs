//! The table pages that all libraries use in turn, and loops that do the least possible work on them.

use linmap::arch::Level;
use std::cell::RefCell;
use std::hint::black_box;
use std::ptr::NonNull;

use linmap::host::HostMemory;
use linmap::{Frame, Geometry, Memory};

use crate::clock::timed;

/// Table pages, each written once before the first measurement.
pub(crate) struct Pool {
    memory: HostMemory,
    pages: usize,
}

/// The work of a plain loop on each entry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Loop {
    /// Writes a different value to each.
    Fill,
    /// Changes one bit.
    Change,
    /// Reads it.
    Read,
}

impl Pool {
    pub(crate) fn new(geometry: Geometry, pages: usize) -> Self {
        let pool = Self { memory: HostMemory::new(geometry, pages), pages };
        pool.memset(pages);
        pool
    }

    /// Returns the pages as a memory that hands out the lowest first.
    pub(crate) fn memory(&self) -> &HostMemory {
        self.give_all(self.take_all());
        &self.memory
    }

    /// Measures memset of `pages` pages, one call for each. Returns nanoseconds.
    pub(crate) fn memset(&self, pages: usize) -> f64 {
        self.each_page(pages, |slots| slots.fill(0))
    }

    /// Measures a loop over the entries of `pages` pages. Returns nanoseconds.
    pub(crate) fn ideal(&self, pages: usize, kind: Loop) -> f64 {
        let step = black_box(1 << 12u32);
        match kind {
            Loop::Fill => self.each_page(pages, |slots| {
                let mut value = black_box(0x0060_0000_0000_0707);
                for slot in slots {
                    *slot = value;
                    value += step;
                }
            }),
            Loop::Change => self.each_page(pages, |slots| slots.iter_mut().for_each(|slot| *slot ^= step)),
            Loop::Read => self.each_page(pages, |slots| {
                black_box(slots.iter().fold(0, |all, slot| all ^ slot));
            }),
        }
    }

    /// Measures `work` on `pages` pages, lowest first. Returns nanoseconds.
    fn each_page(&self, pages: usize, work: impl Fn(&mut [u64])) -> f64 {
        let mut frames = self.take_all();
        let mut total = 0;
        timed(&mut total, || {
            for frame in &mut frames[..pages] {
                self.memory.with_slots(frame, Level::PAGE, |slots| work(black_box(slots)));
            }
        });
        self.give_all(frames);
        total as f64
    }

    fn take_all(&self) -> Vec<Frame> {
        let mut frames: Vec<_> = (0..self.pages).filter_map(|_| self.memory.take()).collect();
        frames.sort_unstable_by_key(Frame::pa);
        frames
    }

    /// Returns pages to the memory so that the lowest is taken next.
    fn give_all(&self, frames: Vec<Frame>) {
        frames.into_iter().rev().for_each(|frame| self.memory.give(frame));
    }

    /// Lends all pages to this thread: [`take`] and [`give`] hand them out.
    pub(crate) fn lend(&self) -> Loan<'_> {
        let mut frames = self.take_all();
        let pointer = |frame: &mut Frame| {
            self.memory.with_slots(frame, Level::PAGE, |slots| NonNull::from(slots).cast())
        };
        let pages: Vec<NonNull<u64>> = frames.iter_mut().rev().map(pointer).collect();
        LENT.with_borrow_mut(|lent| {
            assert!(lent.is_empty(), "one loan at a time");
            *lent = pages;
        });
        Loan { pool: self, frames }
    }
}

/// Pages on loan to libraries that do not know [`Frame`]. The loan ends when this is dropped.
pub(crate) struct Loan<'p> {
    pool: &'p Pool,
    frames: Vec<Frame>,
}

impl Drop for Loan<'_> {
    fn drop(&mut self) {
        LENT.take();
        self.pool.give_all(std::mem::take(&mut self.frames));
    }
}

thread_local! {
    /// Pages on loan that are free. One of the libraries calls plain functions, so they must be reachable from there.
    static LENT: RefCell<Vec<NonNull<u64>>> = const { RefCell::new(Vec::new()) };
}

/// Takes a page on loan. Its contents are undefined.
pub(crate) fn take() -> Option<NonNull<u64>> {
    LENT.with_borrow_mut(Vec::pop)
}

/// Gives back a page on loan.
pub(crate) fn give(page: NonNull<u64>) {
    LENT.with_borrow_mut(|lent| lent.push(page));
}
