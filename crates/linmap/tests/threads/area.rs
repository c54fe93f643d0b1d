//! Pages of one thread, and what each of them must be: nobody else changes their translations.

use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::{Attributes, Pa, Va};
use test_support::Random;

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Page {
    pub(crate) read_only: bool,
    pub(crate) valid: bool,
}

impl Page {
    pub(crate) const RAM: Self = Self { read_only: false, valid: true };
}

/// Consecutive pages of one thread. `None` is a hole.
#[derive(Debug)]
pub(crate) struct Area {
    /// The number of the first page in the window.
    pub(crate) first: u64,
    pub(crate) pages: Vec<Option<Page>>,
}

/// Where everything is mapped, if it is: each address has one physical address for ever. `base` is the first address of the
/// window, in the middle of all memory.
pub(crate) fn pa_of(base: u64, va: Va) -> Pa {
    Pa((1u64 << 46).wrapping_add(va.0.wrapping_sub(base)))
}

impl Area {
    pub(crate) fn new(first: u64, pages: u64) -> Self {
        Self { first, pages: vec![Some(Page::RAM); pages as usize] }
    }

    /// Chooses a part of it: a page, a few, many, or all.
    pub(crate) fn part(&self, random: &mut Random) -> (usize, usize) {
        let all = self.pages.len();
        let most = match random.below(10) {
            0..5 => 1,
            5..7 => 40,
            7..9 => 1200,
            _ => 20_000,
        };
        let count = 1 + random.index(most.min(all));
        // Often at an end of the area, and at a border of blocks.
        let first = match random.below(4) {
            0 => 0,
            1 => all - count,
            2 => (random.index(all) & !511).min(all - count),
            _ => random.index(all - count + 1),
        };
        (first, count)
    }

    /// Returns the error for a part with a hole, as the library gives it.
    pub(crate) fn hole(&self, base: u64, (first, count): (usize, usize)) -> Result<(), ChangeError> {
        self.error(first, count, |page| page.is_none(), |va| ChangeError::Hole { va: at(base, va) })
    }

    /// Returns the error for a part of which something is mapped.
    pub(crate) fn occupied(&self, base: u64, (first, count): (usize, usize)) -> Result<(), ChangeError> {
        self.error(first, count, |page| page.is_some(), |va| ChangeError::Occupied { va: at(base, va) })
    }

    fn error(
        &self,
        first: usize,
        count: usize,
        bad: impl Fn(&Option<Page>) -> bool,
        error: impl Fn(u64) -> ChangeError,
    ) -> Result<(), ChangeError> {
        match self.pages[first..first + count].iter().position(bad) {
            Some(found) => Err(error(self.first + (first + found) as u64)),
            None => Ok(()),
        }
    }

    /// Changes all pages of a part.
    pub(crate) fn set(&mut self, (first, count): (usize, usize), to: impl Fn(Option<Page>) -> Option<Page>) {
        self.pages[first..first + count].iter_mut().for_each(|page| *page = to(*page));
    }

    /// Panics if an entry does not translate a page as it must.
    pub(crate) fn judge(&self, base: u64, number: usize, found: Entry, of: Va) {
        let page = self.first + number as u64;
        let found = match found {
            Entry::Hole => None,
            Entry::Leaf(leaf) => {
                let pa = Pa(leaf.oa.0 + (at(base, page).0 - of.0));
                assert_eq!(pa, pa_of(base, at(base, page)), "the address of page {page:#x}");
                let read_only = leaf.attributes.contains(Attributes::READ_ONLY);
                Some(Page { read_only, valid: leaf.valid })
            }
            other => panic!("page {page:#x} is {other:?}"),
        };
        assert_eq!(found, self.pages[number], "page {page:#x}");
    }
}

/// Returns the address of a page.
pub(crate) fn at(base: u64, page: u64) -> Va {
    Va(base + (page << 12))
}
