//! The library's algorithms without locks, under every order of accesses that the memory model permits.
//!
//! The files of the library are compiled into this test with other atomic words. The controls: without any one of the
//! orders that a file asks for, a test fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

mod atomic;
mod claims_test;
mod publishing_test;
mod readers_test;
mod remaking_test;
mod versions_test;

/// The names by which the library's files know each other.
mod format {
    pub(crate) use crate::span::Span;
    pub(crate) use linmap::Pa;
}
mod platform {
    pub(crate) use crate::atomic;
    pub(crate) use linmap::{Frame, Memory, Sharing, host};

    /// Runs `work` while the locks of a set are held, as the library's own function does.
    pub(crate) fn with_locks<S: Sharing, R>(sharing: &S, set: u64, work: impl FnOnce() -> R) -> R {
        let held: Vec<_> = (0..64).filter(|n| set >> n & 1 != 0).map(|number| sharing.lock(number)).collect();
        let result = work();
        held.into_iter().rev().for_each(drop);
        result
    }
}
mod edit {
    pub(crate) use crate::cover::{Claimed, Cover, GIGABYTE};

    /// The most ranges of one operation that are claimed together.
    pub(crate) const TOGETHER: usize = 2;
}
mod share {
    pub(crate) use crate::begun;
}
mod build {
    /// No statistics are kept here.
    #[derive(Debug)]
    pub(crate) struct Counters;

    impl Counters {
        pub(crate) const fn new() -> Self {
            Self
        }
    }
}

// A test uses what it needs of these.
#[path = "../../src/share/begun.rs"]
#[allow(dead_code, unreachable_pub)]
mod begun;
#[path = "../../src/share/claims.rs"]
#[allow(dead_code, unreachable_pub)]
mod claims;
#[path = "../../src/edit/cover.rs"]
#[allow(dead_code, unreachable_pub)]
mod cover;
#[path = "../../src/share/lock_set.rs"]
#[allow(dead_code, unreachable_pub)]
mod lock_set;
#[path = "../../src/share/publishing.rs"]
#[allow(dead_code, unreachable_pub)]
mod publishing;
#[path = "../../src/platform/readers.rs"]
#[allow(dead_code, unreachable_pub)]
mod readers;
#[path = "../../src/format/span.rs"]
#[allow(dead_code, unreachable_pub)]
mod span;
#[path = "../../src/share/words.rs"]
#[allow(dead_code, unreachable_pub)]
mod words;

/// Tries all orders of a program with several threads.
fn all_orders(program: fn()) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(program);
}

/// Returns true if an order of a program fails.
fn fails(program: fn()) -> bool {
    catch_unwind(AssertUnwindSafe(|| all_orders(program))).is_err()
}

/// Tries all orders of some programs; then, for each place in a file that asks for an order, that one of them fails
/// if the place does without. The quickest programs are tried first.
fn every_order_is_needed(file: &str, programs: &[fn()]) {
    let timed = |program: &fn()| {
        let begun = Instant::now();
        all_orders(*program);
        (begun.elapsed(), *program)
    };
    let mut programs: Vec<_> = programs.iter().map(timed).collect();
    programs.sort_by_key(|(time, _)| *time);
    let places: Vec<_> = atomic::places().into_iter().filter(|place| place.0.ends_with(file)).collect();
    assert!(!places.is_empty(), "{file} asks for no order");
    let mut needless = Vec::new();
    for place in places {
        atomic::do_without(Some(place));
        if !programs.iter().any(|(_, program)| fails(*program)) {
            needless.push(place);
        }
        atomic::do_without(None);
    }
    assert_eq!(needless, [], "no program fails without these");
}
