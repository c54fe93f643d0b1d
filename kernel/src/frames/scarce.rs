//! Pages that are refused at random, for tests of what happens then.
//!
//! That they are scarce is marked in the head of the chain, whose low bits are free. So with plenty of pages it costs
//! one bit that is tested where a page comes from the chain or goes there, and nothing where one is cut off.

use core::cell::{Cell, RefCell};

use kernel::stress::Random;
use linmap::{Descriptor, Memory, Pa, Slot};

use super::Frames;

/// The bit in the head of the chain.
const MARK: u64 = 1;

/// One page of so many is refused.
const ONE_OF: usize = 4;

/// The first page of a chain with this head, 0 if there is none.
const fn first(head: u64) -> u64 {
    head & !MARK
}

/// Whether pages are scarce.
#[inline(always)]
pub(super) const fn is_marked(head: u64) -> bool {
    head & MARK != 0
}

/// What is decided of takes while pages are scarce.
pub(super) struct Scarcity {
    random: RefCell<Random>,
    refused: Cell<u64>,
}

impl Default for Scarcity {
    fn default() -> Self {
        Self { random: RefCell::new(Random::from(0)), refused: Cell::new(0) }
    }
}

impl Frames {
    /// From now on pages are refused at random, which follows from `start`.
    pub(crate) fn refuse_at_random(&self, start: u64) {
        let _taken = self.lock();
        self.scarcity.random.replace(Random::from(start));
        self.scarcity.refused.set(0);
        self.chain.set(first(self.chain.get()) | MARK);
    }

    /// From now on no page is refused while there is one. How many were.
    pub(crate) fn refuse_none(&self) -> u64 {
        let _taken = self.lock();
        self.chain.set(first(self.chain.get()));
        self.scarcity.refused.get()
    }

    /// The first page of the chain, 0 if there is none. Under the lock.
    pub(super) fn first_chained(&self) -> u64 {
        first(self.chain.get())
    }

    /// From now on the chain starts with this page; whether pages are scarce stays. Under the lock.
    pub(super) fn chain_from(&self, page: u64) {
        self.chain.set(page | self.chain.get() & MARK);
    }

    /// A page while they are scarce, off the chain with this head. Under the lock.
    #[cold]
    pub(super) fn take_scarce(&self, head: u64) -> Option<Pa> {
        if self.scarcity.random.borrow_mut().below(ONE_OF) == 0 {
            self.scarcity.refused.set(self.scarcity.refused.get() + 1);
            return None;
        }
        let page = first(head);
        if page == 0 {
            return self.cut_page();
        }
        // SAFETY: a page on the chain is this source's, reachable, and nobody else's.
        let next = unsafe { self.load(Slot { table: Pa(page), index: 0 }) }.0;
        self.chain.set(next | MARK);
        Some(Pa(page))
    }

    /// Puts a page in front of the chain with this head. Under the lock.
    #[cold]
    pub(super) fn give_scarce(&self, head: u64, page: Pa) {
        // SAFETY: the page was a frame until now, so nobody else refers to it.
        unsafe { self.store(Slot { table: page, index: 0 }, Descriptor(first(head))) };
        self.chain.set(page.0 | MARK);
    }
}
