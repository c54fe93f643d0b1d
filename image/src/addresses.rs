//! Addresses of the vmalloc area: which are taken.
//!
//! After each allocation a page stays free, so that an overrun faults. A freed allocation keeps its addresses until it
//! is unmapped, at once or together with others, so that no TLB has them when they are taken again.

use arrayvec::ArrayVec;
use linmap::Va;

/// The most allocations at a time.
pub const MOST: usize = 512;

/// The addresses that can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// The first address.
    pub start: u64,
    /// The end, exclusive.
    pub end: u64,
    /// The page size.
    pub page: u64,
}

/// A wish: an address congruent to another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Like {
    /// The address.
    pub address: u64,
    /// The modulus: the page size, or more; a power of two.
    pub modulus: u64,
}

/// The states of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Used,
    /// Freed, and to be unmapped later.
    Waiting,
    /// A CPU unmaps it.
    Leaving,
}

/// An allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// The first address.
    pub start: Va,
    /// Its pages, without the free one after them.
    pub pages: u64,
    /// Its permissions may have changed since it was mapped.
    pub changed: bool,
    state: State,
}

/// All allocations, in address order.
#[derive(Clone, Debug, Default)]
pub struct Addresses(ArrayVec<Allocation, MOST>);

impl Addresses {
    /// Makes a set without allocations.
    pub const fn new() -> Self {
        Self(ArrayVec::new_const())
    }

    /// Takes the lowest free addresses that are congruent to `like`. Returns none if there are none, or for no pages.
    pub fn take(&mut self, bounds: &Bounds, pages: u64, like: Like) -> Option<Va> {
        let bytes = pages.checked_mul(bounds.page).filter(|bytes| *bytes != 0)?;
        let (mut index, mut free) = (0, bounds.start);
        let start = loop {
            let end = self.0.get(index).map_or(bounds.end, |next| next.start.0);
            let start = free.checked_add(like.address.wrapping_sub(free) & (like.modulus - 1))?;
            let behind = start.checked_add(bytes)?.checked_add(bounds.page)?;
            if behind <= end {
                break start;
            }
            let taken = self.0.get(index)?;
            free = taken.start.0 + (taken.pages + 1) * bounds.page;
            index += 1;
        };
        let taken = Allocation { start: Va(start), pages, changed: false, state: State::Used };
        self.0.try_insert(index, taken).ok()?;
        Some(taken.start)
    }

    fn at(&mut self, start: Va) -> Option<&mut Allocation> {
        let index = self.0.binary_search_by_key(&start, |taken| taken.start).ok()?;
        Some(&mut self.0[index])
    }

    /// Records that permissions change somewhere in an allocation. Returns false if none in use has the address.
    pub fn change(&mut self, va: Va) -> bool {
        let behind = self.0.partition_point(|taken| taken.start <= va);
        let taken = behind.checked_sub(1).map(|index| &mut self.0[index]);
        let Some(taken) = taken.filter(|taken| taken.state == State::Used) else { return false };
        taken.changed = true;
        true
    }

    /// Starts to free an allocation, which the caller unmaps. Returns none if none in use starts there.
    pub fn leave(&mut self, start: Va) -> Option<Allocation> {
        let taken = self.at(start).filter(|taken| taken.state == State::Used)?;
        taken.state = State::Leaving;
        Some(*taken)
    }

    /// Makes an allocation wait to be unmapped: one in use, or one that could not be unmapped. Returns false if there
    /// is none.
    pub fn wait(&mut self, start: Va) -> bool {
        self.at(start).map(|taken| taken.state = State::Waiting).is_some()
    }

    /// Returns one of those that wait, which the caller unmaps.
    pub fn leave_waiting(&mut self) -> Option<Allocation> {
        let taken = self.0.iter_mut().find(|taken| taken.state == State::Waiting)?;
        taken.state = State::Leaving;
        Some(*taken)
    }

    /// Returns how many allocations wait, and their pages.
    pub fn waiting(&self) -> (usize, u64) {
        let waiting = self.0.iter().filter(|taken| taken.state == State::Waiting);
        waiting.fold((0, 0), |(count, pages), taken| (count + 1, pages + taken.pages))
    }

    /// Frees the addresses of an allocation, which is no longer mapped.
    pub fn give(&mut self, start: Va) {
        self.0.retain(|taken| taken.start != start);
    }

    /// Returns the number of allocations in any state.
    pub fn taken(&self) -> usize {
        self.0.len()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::*;
    use test_support::prelude::*;

    const PAGE: u64 = 0x4000;
    const BOUNDS: Bounds = Bounds { start: 0xffff_fff8_0000_4000, end: 0xffff_fff8_0100_0000, page: PAGE };
    const ANY: Like = Like { address: 0, modulus: PAGE };

    #[test]
    fn the_lowest_that_are_free_with_a_page_behind_each() {
        let mut addresses = Addresses::new();
        let mut take = |pages| addresses.take(&BOUNDS, pages, ANY).map(|va| (va.0 - BOUNDS.start) / PAGE);
        assert_eq!([take(1), take(3), take(2)], [Some(0), Some(2), Some(6)]);
        assert_eq!([take(0), take(u64::MAX), take(0x3ff), take(0x3f6)], [None; 4], "a page after each");
        assert_eq!(take(0x3f5), Some(9), "all but the last page");
    }

    #[test]
    fn what_was_given_is_taken_again_and_what_waits_is_not() {
        let mut addresses = Addresses::new();
        let first = addresses.take(&BOUNDS, 4, ANY).unwrap();
        let second = addresses.take(&BOUNDS, 4, ANY).unwrap();
        assert!(addresses.wait(first));
        assert_eq!((addresses.waiting(), addresses.leave(first)), ((1, 4), None));
        let third = addresses.take(&BOUNDS, 1, ANY).unwrap();
        assert!(third > second);
        let left = addresses.leave_waiting().unwrap();
        assert_eq!((left.start, left.pages, left.changed), (first, 4, false));
        assert_eq!((addresses.leave_waiting(), addresses.waiting()), (None, (0, 0)));
        assert!(addresses.take(&BOUNDS, 2, ANY).unwrap() > third, "it is still mapped");
        addresses.give(first);
        assert_eq!(addresses.take(&BOUNDS, 2, ANY), Some(first));
    }

    #[test]
    fn a_change_is_noted_of_what_is_in_use() {
        let mut addresses = Addresses::new();
        let start = addresses.take(&BOUNDS, 4, ANY).unwrap();
        assert!(!addresses.change(Va(BOUNDS.start - PAGE)));
        assert!(addresses.change(Va(start.0 + 2 * PAGE)));
        let left = addresses.leave(start).unwrap();
        assert!(left.changed && !addresses.change(start));
    }

    #[test]
    fn no_more_than_there_is_room_for() {
        let bounds = Bounds { start: 0, end: 1 << 40, page: PAGE };
        let mut addresses = Addresses::new();
        for _ in 0..MOST {
            addresses.take(&bounds, 1, ANY).unwrap();
        }
        assert_eq!((addresses.take(&bounds, 1, ANY), addresses.taken()), (None, MOST));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(u64, Like),
        Leave(usize),
        Wait(usize),
        Purge,
    }

    fn step() -> impl Strategy<Value = Step> {
        let like = (any::<u64>(), 14..22u32)
            .prop_map(|(address, shift)| Like { address: address & !(PAGE - 1), modulus: 1 << shift });
        prop_oneof![
            4 => (0..200u64, like).prop_map(|(pages, like)| Step::Take(pages, like)),
            2 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::Wait),
            1 => Just(Step::Purge),
        ]
    }

    proptest! {
        /// After any steps, allocations are within the bounds, congruent as asked, and apart.
        #[test]
        fn allocations_stay_apart(steps in prop::collection::vec(step(), 0..200)) {
            let (mut addresses, mut used) = (Addresses::new(), Vec::new());
            for step in steps {
                match step {
                    Step::Take(pages, like) => {
                        let taken = addresses.take(&BOUNDS, pages, like);
                        if let Some(va) = taken {
                            prop_assert_eq!(va.0 % like.modulus, like.address % like.modulus);
                            used.push(va);
                        } else if pages != 0 {
                            // All free ranges are too short, or not congruent.
                            let most = pages * PAGE + PAGE + like.modulus;
                            prop_assert!(addresses.free().all(|bytes| bytes < most));
                        }
                    }
                    Step::Leave(which) if !used.is_empty() => {
                        let va = used.swap_remove(which % used.len());
                        prop_assert_eq!(addresses.leave(va).map(|taken| taken.start), Some(va));
                        addresses.give(va);
                    }
                    Step::Wait(which) if !used.is_empty() => {
                        prop_assert!(addresses.wait(used.swap_remove(which % used.len())));
                    }
                    Step::Purge => {
                        while let Some(taken) = addresses.leave_waiting() {
                            addresses.give(taken.start);
                        }
                        prop_assert_eq!(addresses.taken(), used.len());
                    }
                    Step::Leave(_) | Step::Wait(_) => {}
                }
                prop_assert!(addresses.are_apart());
            }
        }
    }

    impl Addresses {
        fn are_apart(&self) -> bool {
            let end = |taken: &Allocation| taken.start.0 + (taken.pages + 1) * PAGE;
            let apart = self.0.windows(2).all(|pair| end(&pair[0]) <= pair[1].start.0);
            let within = |taken: &Allocation| BOUNDS.start <= taken.start.0 && end(taken) <= BOUNDS.end;
            apart && self.0.iter().all(within)
        }

        /// Iterates over the bytes of each free range.
        fn free(&self) -> impl Iterator<Item = u64> {
            let ends = self.0.iter().map(|taken| taken.start.0 + (taken.pages + 1) * PAGE);
            let starts = self.0.iter().map(|taken| taken.start.0).chain([BOUNDS.end]);
            core::iter::once(BOUNDS.start).chain(ends).zip(starts).map(|(from, to)| to - from)
        }
    }
}
