//! Words that take every order that the memory model permits, by the names that the library uses.
//!
//! Those of `loom` cannot be made in a constant. These remember their first value, and are made when they are first used:
//! a test uses each of them once before it starts threads. Each place in the library that asks for an order is known by
//! its line and column, and can be told to do without.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::panic::Location;
use std::sync::OnceLock;

pub(crate) use loom::sync::atomic::Ordering;

/// A place in the library that asks for an order.
pub(crate) type Place = (&'static str, u32, u32);

thread_local! {
    /// All places that were used. The threads of a program are run by one thread of the host.
    static PLACES: RefCell<BTreeSet<Place>> = const { RefCell::new(BTreeSet::new()) };
    /// The place that does without.
    static WITHOUT: Cell<Option<Place>> = const { Cell::new(None) };
}

/// Returns the places that have been used.
pub(crate) fn places() -> BTreeSet<Place> {
    PLACES.with_borrow(BTreeSet::clone)
}

/// Lets a place do without its order, or none.
pub(crate) fn do_without(place: Option<Place>) {
    WITHOUT.set(place);
}

/// Returns the order that a place gets.
#[track_caller]
fn order(asked: Ordering) -> Ordering {
    if asked == Ordering::Relaxed {
        return asked;
    }
    let place = Location::caller();
    let place = (place.file(), place.line(), place.column());
    PLACES.with_borrow_mut(|places| places.insert(place));
    if WITHOUT.get() == Some(place) { Ordering::Relaxed } else { asked }
}

/// A fence. There is none without an order.
#[track_caller]
pub(crate) fn fence(asked: Ordering) {
    match order(asked) {
        Ordering::Relaxed => (),
        order => loom::sync::atomic::fence(order),
    }
}

macro_rules! word {
    ($name:ident, $value:ty, $($change:ident)*) => {
        #[derive(Debug)]
        pub(crate) struct $name {
            first: $value,
            made: OnceLock<loom::sync::atomic::$name>,
        }

        #[allow(dead_code)] // all that the library may use
        impl $name {
            pub(crate) const fn new(first: $value) -> Self {
                Self { first, made: OnceLock::new() }
            }

            fn word(&self) -> &loom::sync::atomic::$name {
                self.made.get_or_init(|| loom::sync::atomic::$name::new(self.first))
            }

            #[track_caller]
            pub(crate) fn load(&self, asked: Ordering) -> $value {
                self.word().load(order(asked))
            }

            #[track_caller]
            pub(crate) fn store(&self, value: $value, asked: Ordering) {
                self.word().store(value, order(asked));
            }

            #[track_caller]
            pub(crate) fn compare_exchange(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.word().compare_exchange(old, new, order(success), order(failure))
            }

            /// Does not fail without a reason, of which there would be no end.
            #[track_caller]
            pub(crate) fn compare_exchange_weak(
                &self,
                old: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.word().compare_exchange(old, new, order(success), order(failure))
            }

            $(
                #[track_caller]
                pub(crate) fn $change(&self, value: $value, asked: Ordering) -> $value {
                    self.word().$change(value, order(asked))
                }
            )*
        }
    };
}

word!(AtomicBool, bool, swap);
word!(AtomicU64, u64, swap fetch_add fetch_sub fetch_or fetch_and);
