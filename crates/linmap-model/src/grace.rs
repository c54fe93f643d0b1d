//! Grace periods: pages that were tables while a reader was in its section are given back when it has ended.

use std::collections::BTreeSet;

use linmap::Frame;

/// The readers in their sections, by numbers that are never used again, and the pages that wait for them.
#[derive(Default)]
pub(crate) struct Grace {
    open: BTreeSet<u64>,
    begun: u64,
    retired: Vec<(Frame, BTreeSet<u64>)>,
}

impl Grace {
    /// Begins a section. Returns its number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.begun += 1;
        self.open.insert(self.begun);
        self.begun
    }

    /// Ends a section. Returns the pages that waited for it and wait for no other.
    pub(crate) fn end(&mut self, reader: u64) -> Vec<Frame> {
        self.open.remove(&reader);
        for (_, waits) in &mut self.retired {
            waits.remove(&reader);
        }
        self.retired.extract_if(.., |(_, waits)| waits.is_empty()).map(|(frame, _)| frame).collect()
    }

    /// Keeps a page that was a table until all have ended who are reading now. Returns it if nobody is.
    pub(crate) fn retire(&mut self, frame: Frame) -> Option<Frame> {
        if self.open.is_empty() {
            return Some(frame);
        }
        self.retired.push((frame, self.open.clone()));
        None
    }
}
