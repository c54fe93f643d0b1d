//! The atomic words of the algorithms that work without a lock. A test puts words in their place that take every order.

pub(crate) use core::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
