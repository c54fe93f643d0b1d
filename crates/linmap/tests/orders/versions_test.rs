//! `Share`: a reader that is told that nothing changed has read two entries of one moment.

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering::Relaxed};
use loom::thread;

use crate::every_order_is_needed;
use crate::words::Share;

/// Two entries that are equal whenever no operation is under way.
struct Entries {
    share: Share,
    entries: [AtomicU64; 2],
}

impl Entries {
    fn new() -> Arc<Self> {
        let entries = Self { share: Share::new(), entries: [0, 0].map(AtomicU64::new) };
        // Every word is used once before there are threads.
        entries.share.version();
        Arc::new(entries)
    }

    /// An operation. It holds the lock.
    fn change(&self, to: u64) {
        let version = self.share.changes_begin();
        self.entries.iter().for_each(|entry| entry.store(to, Relaxed));
        self.share.changes_end(version);
    }

    /// Reads both, as a reader of the library does.
    fn read(&self) {
        let before = self.share.version();
        let read = [0, 1].map(|n| self.entries[n].load(Relaxed));
        // As in `Reader::watch`.
        loom::sync::atomic::fence(loom::sync::atomic::Ordering::Acquire);
        if before.is_multiple_of(2) && self.share.version() == before {
            assert_eq!(read[0], read[1], "of different moments");
            assert_eq!(read[0], before / 2, "of another moment");
        }
    }
}

fn one_reader() {
    let entries = Entries::new();
    let reader = {
        let entries = entries.clone();
        thread::spawn(move || entries.read())
    };
    entries.change(1);
    reader.join().expect("no thread failed");
}

fn two_changes() {
    let entries = Entries::new();
    let writer = {
        let entries = entries.clone();
        thread::spawn(move || {
            entries.change(1);
            entries.change(2);
        })
    };
    entries.read();
    writer.join().expect("no thread failed");
}

#[test]
fn every_order_of_the_versions_is_needed() {
    every_order_is_needed("words.rs", &[one_reader, two_changes]);
}
