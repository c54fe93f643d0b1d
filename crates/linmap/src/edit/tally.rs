//! Counts the entries of a page table, eight at a time.

use crate::format::{Descriptor, Geometry, Level};

/// The entries of a page table, by kind.
#[derive(Default)]
pub(crate) struct Tally {
    /// The number of leaves that are not in runs.
    pub(crate) plain: usize,
    /// The number of leaves in runs.
    pub(crate) runs: usize,
    /// True if a valid entry is reserved.
    pub(crate) strange: bool,
}

impl Tally {
    /// Counts entries, a multiple of eight.
    pub(crate) fn of(slots: &[u64], g: Geometry) -> Self {
        let mut tally = Self::default();
        slots.as_chunks().0.iter().for_each(|eight| tally.add(eight, g));
        tally
    }

    /// Counts eight entries. They are usually of the same kind.
    #[inline(always)]
    pub(crate) fn add(&mut self, eight: &[u64; 8], g: Geometry) {
        let all = Descriptor(eight.iter().fold(u64::MAX, |all, entry| all & entry));
        let any = Descriptor(eight.iter().fold(0, |any, entry| any | entry));
        if all.is_valid() && all.is_leaf(g, Level::PAGE) && !any.is_contiguous() {
            self.plain += eight.len();
        } else if any != Descriptor::HOLE {
            self.add_each(eight, g);
        }
    }

    #[cold]
    fn add_each(&mut self, eight: &[u64; 8], g: Geometry) {
        for entry in eight.map(Descriptor) {
            match entry.is_leaf(g, Level::PAGE) {
                true if entry.is_contiguous() => self.runs += 1,
                true => self.plain += 1,
                false => self.strange |= entry.is_valid(),
            }
        }
    }
}
