//! `Begun`, as `remaking` uses it with `Claims`: who is told that a step failed finds that one did, and that its remake is over.

use std::sync::atomic::{AtomicBool as Known, Ordering::SeqCst};

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use crate::claims::{Attention, Claims};
use crate::claims_test::Locks;
use crate::every_order_is_needed;
use crate::format::Span;

const VALID: u64 = 0;
const OUT: u64 = 1;

/// A page and its neighbour, which remakes take out.
struct Map {
    claims: Claims<2>,
    attention: Attention,
    locks: Locks,
    pages: [AtomicU64; 2],
    /// A step has failed at the first page. It is known at once: no part of what is tried.
    failed: Known,
}

const fn page(n: usize) -> Span {
    Span { first: (n as u64) << 12, last: ((n as u64) << 12) | 0xfff }
}

impl Map {
    fn new() -> Arc<Self> {
        let map = Self {
            claims: Claims::new(),
            attention: Attention::none(),
            locks: Locks::new(),
            pages: [AtomicU64::new(VALID), AtomicU64::new(VALID)],
            failed: Known::new(false),
        };
        // Every word is used once before there are threads.
        map.remade(1, true);
        map.said(0);
        Arc::new(map)
    }

    /// A remake of a page, whose step may fail. Each store is in a hold of its own.
    fn remade(&self, n: usize, succeeds: bool) {
        let Ok(claim) = self.claims.claim(&self.attention, &self.locks, [page(n)].into_iter()) else {
            panic!("claimed")
        };
        self.pages[n].store(OUT, Relaxed);
        if succeeds {
            self.pages[n].store(VALID, Relaxed);
        } else {
            self.failed.store(n == 0, SeqCst);
        }
        drop(claim);
    }

    /// Tells a fault handler of a page: nothing, that a remake is under way, or that a step failed.
    fn said(&self, n: usize) -> Option<bool> {
        let (found, claimed) = self.claims.beside(&self.attention, page(n), || self.pages[n].load(Relaxed));
        (found == OUT).then_some(!claimed)
    }
}

/// Remakes beside a fault handler, who asks about the first page.
fn beside(remakes: &'static [(usize, bool)]) {
    let map = Map::new();
    let thread = {
        let map = map.clone();
        thread::spawn(move || remakes.iter().for_each(|(n, succeeds)| map.remade(*n, *succeeds)))
    };
    if map.said(0) == Some(true) {
        assert!(map.failed.load(SeqCst), "no step has failed");
    }
    thread.join().expect("no thread failed");
    assert_eq!(map.said(0), map.failed.load(SeqCst).then_some(true), "in the end");
}

fn one_that_succeeds() {
    beside(&[(0, true)]);
}

fn one_that_fails() {
    beside(&[(0, false)]);
}

/// The claim of the second has the place of that of the first.
fn then_one_of_another_page() {
    beside(&[(0, true), (1, true)]);
}

fn two_that_succeed() {
    beside(&[(0, true), (0, true)]);
}

#[test]
fn every_order_of_what_a_fault_handler_asks_is_needed() {
    every_order_is_needed(
        "begun.rs",
        &[one_that_succeeds, one_that_fails, then_one_of_another_page, two_that_succeed],
    );
}
