//! `Claims`: a range that is claimed belongs to one caller, although it lets go of its locks.
//!
//! The orders that this file of the library asks for could be relaxed: the locks give more. The controls leave out steps.

use std::cell::Cell;

use linmap::Sharing;
use loom::cell::UnsafeCell;
use loom::sync::{Arc, Mutex, MutexGuard};
use loom::thread;

use crate::claims::{Attention, Claim, Claims};
use crate::cover::Claimed;
use crate::format::Span;
use crate::{all_orders, fails};

/// A map of two gigabytes with a lock each. Each has a word that is 0 unless an operation on it is under way.
struct Map {
    claims: Claims<2>,
    attention: Attention,
    locks: Locks,
    words: [UnsafeCell<u64>; 2],
}

pub(crate) struct Locks([Mutex<()>; 2]);

impl Locks {
    pub(crate) fn new() -> Self {
        Self([Mutex::new(()), Mutex::new(())])
    }
}

// SAFETY: the locks exclude. There are no readers.
unsafe impl Sharing for Locks {
    const LOCKS: usize = 2;

    type Held<'h> = MutexGuard<'h, ()>;

    fn lock(&self, number: usize) -> Self::Held<'_> {
        self.0[number].lock().expect("no thread failed")
    }
}

/// The same locks for a claim that does not pass through those of its range.
struct WithoutPass<'a>(&'a Locks, Cell<bool>);

// SAFETY: the locks exclude if they are taken. There are no readers.
unsafe impl Sharing for WithoutPass<'_> {
    const LOCKS: usize = 2;

    type Held<'h>
        = Option<MutexGuard<'h, ()>>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Self::Held<'_> {
        // The first lock is the one under which a claim is written.
        (!self.1.replace(true)).then(|| self.0.lock(number))
    }
}

const BOTH: Span = Span { first: 0, last: (2 << 30) - 1 };

const fn gigabyte(number: u64) -> Span {
    Span { first: number << 30, last: (number << 30) + 0xfff }
}

impl Map {
    fn new() -> Arc<Self> {
        let map = Self {
            claims: Claims::new(),
            attention: Attention::none(),
            locks: Locks::new(),
            words: [UnsafeCell::new(0), UnsafeCell::new(0)],
        };
        // Every word is used once before there are threads.
        map.claims.overlap(BOTH, 0);
        drop(map.claim(&[gigabyte(0), gigabyte(1)]));
        Arc::new(map)
    }

    fn claim(&self, spans: &[Span]) -> Result<Claim<'_>, Claimed> {
        self.claims.claim(&self.attention, &self.locks, spans.iter().copied())
    }

    /// In a hold, replaces a word, which must be `old`.
    fn piece(&self, gigabyte: usize, old: u64, new: u64) {
        let _held = self.locks.lock(gigabyte);
        // SAFETY: `loom` fails if another thread is at it.
        self.words[gigabyte].with_mut(|word| unsafe {
            assert_eq!(*word, old, "in the range of a claim");
            *word = new;
        });
    }

    /// An operation of several holds, which claims its ranges.
    fn long(&self, spans: &[Span], gigabytes: &[usize]) {
        let Ok(claim) = self.claim(spans) else { return };
        self.pieces(gigabytes);
        drop(claim);
    }

    /// The holds of a caller with a claim. Nobody else is in its range now, so a look needs no lock.
    fn pieces(&self, gigabytes: &[usize]) {
        for gigabyte in gigabytes {
            self.words[*gigabyte].with(|word| {
                // SAFETY: `loom` fails if another thread writes.
                assert_eq!(unsafe { *word }, 0, "the caller before has left");
            });
        }
        gigabytes.iter().for_each(|gigabyte| self.piece(*gigabyte, 0, 1));
        gigabytes.iter().for_each(|gigabyte| self.piece(*gigabyte, 1, 0));
    }

    fn is_claimed(&self, number: usize) -> bool {
        self.attention.is_needed() && self.claims.overlap(gigabyte(number as u64), 0)
    }

    /// An operation of one hold: it takes its lock, then it looks.
    fn short(&self, number: usize) {
        let _held = self.locks.lock(number);
        if !self.is_claimed(number) {
            self.words[number].with_mut(|word| {
                // SAFETY: `loom` fails if another thread is at it.
                let word = unsafe { &mut *word };
                assert_eq!(*word, 0, "in the range of a claim");
            });
        }
    }
}

/// An operation that cuts leaves in one hold, and changes them in another: they are still cut then.
fn cuts(map: &Map, keeps: bool) {
    let kept = keeps.then(|| map.attention.keeps_cuts());
    for (old, new) in [(None, 1), (Some(1), 0)] {
        let _held = map.locks.lock(0);
        map.words[0].with_mut(|word| {
            // SAFETY: `loom` fails if another thread is at it.
            let word = unsafe { &mut *word };
            assert!(old.is_none_or(|old| *word == old), "what was cut is merged");
            *word = new;
        });
    }
    drop(kept);
}

/// A collapse, which merges what is cut.
fn merges(map: &Map) {
    let _held = map.locks.lock(0);
    if !map.attention.are_cuts_kept() {
        map.words[0].with_mut(|word| {
            // SAFETY: as above.
            unsafe { *word = 0 };
        });
    }
}

/// Runs one operation beside another.
fn beside(one: impl FnOnce(&Map) + 'static, other: impl FnOnce(&Map)) {
    let map = Map::new();
    let thread = {
        let map = map.clone();
        thread::spawn(move || one(&map))
    };
    other(&map);
    thread.join().expect("no thread failed");
    [0, 1].into_iter().for_each(|gigabyte| map.piece(gigabyte, 0, 0));
}

fn a_short_and_a_long_one() {
    beside(|map| map.short(1), |map| map.long(&[BOTH], &[1]));
}

fn a_long_and_a_short_one() {
    beside(|map| map.long(&[BOTH], &[0]), |map| map.short(0));
}

fn two_long_ones() {
    beside(|map| map.long(&[BOTH], &[0]), |map| map.long(&[gigabyte(0)], &[0]));
}

/// Each has two ranges, in another order. One of the callers gets both.
fn two_ranges_each() {
    let both = [gigabyte(0), gigabyte(1)];
    beside(move |map| map.long(&both, &[0, 1]), |map| map.long(&[gigabyte(1), gigabyte(0)], &[1, 0]));
}

fn a_short_one_beside_two_ranges() {
    beside(|map| map.short(1), |map| map.long(&[gigabyte(0), gigabyte(1)], &[1]));
}

/// The place of a claim is another claim's afterwards.
fn one_after_the_other() {
    let long = |map: &Map| {
        map.long(&[gigabyte(0)], &[0]);
        map.long(&[gigabyte(1)], &[1]);
    };
    beside(|map| map.short(1), long);
}

fn side_by_side() {
    beside(
        |map| map.long(&[gigabyte(1)], &[1]),
        |map| {
            let claim = map.claim(&[gigabyte(0)]);
            assert!(claim.is_ok(), "nobody else is in this gigabyte");
            map.pieces(&[0]);
        },
    );
}

fn without_the_pass() {
    beside(
        |map| map.short(1),
        |map| {
            let Ok(_claim) = map.claims.claim(
                &map.attention,
                &WithoutPass(&map.locks, Cell::new(false)),
                [BOTH].into_iter(),
            ) else {
                return;
            };
            map.pieces(&[1]);
        },
    );
}

fn with_the_look_before_the_lock() {
    let short = |map: &Map| {
        if !map.is_claimed(1) {
            map.piece(1, 0, 0);
        }
    };
    beside(short, |map| map.long(&[BOTH], &[1]));
}

#[test]
fn what_is_cut_stays_so_until_it_has_changed() {
    all_orders(|| beside(merges, |map| cuts(map, true)));
    assert!(fails(|| beside(merges, |map| cuts(map, false))));
}

#[test]
fn a_claimed_range_belongs_to_one_caller() {
    let programs: [fn(); 7] = [
        a_short_and_a_long_one,
        a_long_and_a_short_one,
        two_long_ones,
        two_ranges_each,
        a_short_one_beside_two_ranges,
        one_after_the_other,
        side_by_side,
    ];
    programs.into_iter().for_each(all_orders);
}

#[test]
fn a_claim_passes_through_its_locks_and_a_short_operation_looks_after_its_lock() {
    assert!(fails(without_the_pass));
    assert!(fails(with_the_look_before_the_lock));
}
