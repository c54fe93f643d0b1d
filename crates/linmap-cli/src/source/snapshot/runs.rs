//! Pure: the entries of a table as runs of those that grow in equal steps.

/// Entries that grow in equal steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Run {
    /// The first entry.
    pub(super) value: u64,
    /// Its index in the table.
    pub(super) start: u16,
    /// log2 of the step, or 0 if all are equal.
    pub(super) shift: u8,
}

/// Returns true if these words are a value and its equal steps. It has no early end, so that several words are compared
/// at once.
pub(super) fn grows(words: &[u64], value: u64, step: u64) -> bool {
    let mut different = 0;
    let mut expected = value;
    for word in words {
        different |= word ^ expected;
        expected = expected.wrapping_add(step);
    }
    different == 0
}

/// The runs of a table, in order.
pub(super) struct Runs<'w> {
    pub(super) words: &'w [u64],
    pub(super) at: usize,
}

impl Iterator for Runs<'_> {
    type Item = Run;

    fn next(&mut self) -> Option<Run> {
        let words = self.words.get(self.at..)?;
        let value = *words.first()?;
        let step = words.get(1).map_or(0, |second| second.wrapping_sub(value));
        // A step is 0 or a power of two from 4K on; other entries are runs of one.
        let stepped = step == 0 || step.is_power_of_two() && step >= 1 << 12u32;
        let pairs = words.windows(2).take_while(|pair| pair[1].wrapping_sub(pair[0]) == step);
        let count = if stepped { 1 + pairs.count() } else { 1 };
        let shift = if count == 1 || step == 0 { 0 } else { step.trailing_zeros() as u8 };
        let run = Run { value, start: self.at as u16, shift };
        self.at += count;
        Some(run)
    }
}
