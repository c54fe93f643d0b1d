//! Injected shortage: pages are refused at random, for tests of what happens then.
//!
//! The head of the free list has a bit for it, as its low bits are free. So without shortage it costs one bit test
//! where a page comes off the free list or goes onto it, and nothing where a page is cut from a range.

use core::cell::{Cell, RefCell};

use kernel::stress::Random;

/// The bit in the head of the free list.
const MARK: u64 = 1;

/// One page of so many is refused.
const ONE_OF: usize = 4;

/// Returns the first page of a free list with this head, 0 if there is none.
pub(super) const fn first(head: u64) -> u64 {
    head & !MARK
}

/// Returns the head of a free list that starts with this page, with the bit for shortage.
pub(super) const fn marked(page: u64) -> u64 {
    page | MARK
}

/// Returns this head with another first page; the bit for shortage stays.
pub(super) const fn with_first(head: u64, page: u64) -> u64 {
    page | head & MARK
}

/// Returns true if the head has the bit for shortage.
#[inline(always)]
pub(super) const fn is_marked(head: u64) -> bool {
    head & MARK != 0
}

/// The choice of pages that are refused.
pub(super) struct Scarcity {
    random: RefCell<Random>,
    refused: Cell<u64>,
}

impl Default for Scarcity {
    fn default() -> Self {
        Self { random: RefCell::new(Random::from(0)), refused: Cell::new(0) }
    }
}

impl Scarcity {
    /// Starts anew, from this seed.
    pub(super) fn restart(&self, seed: u64) {
        self.random.replace(Random::from(seed));
        self.refused.set(0);
    }

    /// Returns how many pages were refused since the start.
    pub(super) fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Decides about one page, and counts it if it is refused.
    pub(super) fn refuses(&self) -> bool {
        let refuses = self.random.borrow_mut().below(ONE_OF) == 0;
        if refuses {
            self.refused.set(self.refused.get() + 1);
        }
        refuses
    }
}
