//! `Publishing`: a caller that reaches a table, and is not told that it is being published, finds that its DSB is done.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use crate::every_order_is_needed;
use crate::publishing::Publishing;

/// An entry above two gigabytes, and whether the DSB after its store is done.
struct Upper {
    publishing: Publishing,
    entry: AtomicU64,
    visible: AtomicU64,
}

impl Upper {
    fn publish(&self) {
        self.publishing.begins();
        self.entry.store(1, Relaxed);
        self.visible.store(1, Relaxed);
        self.publishing.ends();
    }

    /// Maps something in another gigabyte, under its lock.
    fn map(&self) {
        if self.entry.load(Relaxed) == 1 && !self.publishing.is_under_way() {
            assert_eq!(self.visible.load(Relaxed), 1, "walkers may not see the table yet");
        }
    }
}

fn one_publishes_and_another_maps() {
    let upper =
        Upper { publishing: Publishing::none(), entry: AtomicU64::new(0), visible: AtomicU64::new(0) };
    // Every word is used once before there are threads.
    upper.publishing.is_under_way();
    let upper = Arc::new(upper);
    let publisher = {
        let upper = upper.clone();
        thread::spawn(move || upper.publish())
    };
    upper.map();
    publisher.join().expect("no thread failed");
}

#[test]
fn every_order_of_publishing_is_needed() {
    every_order_is_needed("publishing.rs", &[one_publishes_and_another_maps]);
}
