//! Ownership of pages: one CPU at a time owns a stretch of them, and the others see whether it still does.
//!
//! Each stretch has a number, odd while a CPU owns it. A CPU that takes several takes them in order, so none waits in a
//! circle. A CPU that reads the same number before and after something knows that no other one owned the stretch in
//! between.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

/// The pages that are owned together.
pub const PAGES: usize = 64;

/// The numbers of all stretches.
#[derive(Clone, Copy, Debug)]
pub struct Turns<'a>(pub &'a [AtomicU32]);

/// Stretches that are owned until this is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a [AtomicU32]);

impl<'a> Turns<'a> {
    /// Waits until no CPU owns any of the stretches of some pages, and owns them. Calls `wait` between two looks.
    pub fn take(&self, pages: Range<usize>, wait: impl Fn()) -> Turn<'a> {
        let stretches = &self.0[pages.start / PAGES..pages.end.div_ceil(PAGES)];
        for stretch in stretches {
            let free = |number: u32| (number & 1 == 0).then_some(number.wrapping_add(1));
            while stretch.fetch_update(Ordering::Acquire, Ordering::Relaxed, free).is_err() {
                wait();
            }
        }
        Turn(stretches)
    }

    /// Returns the number of the stretch that a page is in.
    pub fn number(&self, page: usize) -> u32 {
        self.0[page / PAGES].load(Ordering::Acquire)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        for stretch in self.0 {
            stretch.fetch_add(1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    extern crate std;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    #[test]
    fn a_turn_is_seen_and_ends() {
        let numbers = [const { AtomicU32::new(0) }; 4];
        let turns = Turns(&numbers);
        let turn = turns.take(PAGES - 1..PAGES + 1, || unreachable!("no other CPU"));
        assert_eq!([0, PAGES, 2 * PAGES].map(|page| turns.number(page)), [1, 1, 0]);
        drop(turn);
        assert_eq!([0, PAGES, 2 * PAGES].map(|page| turns.number(page)), [2, 2, 0]);
        drop(turns.take(3..3, || unreachable!("no other CPU")));
    }

    #[test]
    fn one_at_a_time() {
        let numbers = [const { AtomicU32::new(0) }; 3];
        let inside = [const { AtomicUsize::new(0) }; 3 * PAGES];
        let (turns, pages) = (Turns(&numbers), &inside);
        thread::scope(|scope| {
            for cpu in 0..4 {
                scope.spawn(move || {
                    for n in 0..500 {
                        let start = (cpu * 37 + n * 11) % (2 * PAGES);
                        let range = start..start + 1 + n % PAGES;
                        let turn = turns.take(range.clone(), thread::yield_now);
                        for page in range.clone() {
                            assert_eq!(pages[page].fetch_add(1, Ordering::Relaxed), 0);
                        }
                        for page in range {
                            pages[page].fetch_sub(1, Ordering::Relaxed);
                        }
                        drop(turn);
                    }
                });
            }
        });
        assert!(numbers.iter().all(|n| n.load(Ordering::Relaxed) % 2 == 0));
    }
}
