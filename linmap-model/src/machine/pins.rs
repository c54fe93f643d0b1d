//! Pinned ranges: they were split for callers that must not fail, and nobody makes their leaves larger.

use linmap::{Entry, Leaf, Level};

use super::frames::sequence;
use super::{Finding, Machine};
use crate::{CpuId, Rule};

/// The leaves of the pinned parts of a range: first and last address, and the size; 0 for a hole.
type Sizes = Vec<(u64, u64, usize)>;

impl Machine {
    pub(super) fn pin(&mut self, cpu: CpuId, root: u64, range: (u64, u64)) -> Result<(), Finding> {
        let (root, (first, last)) = (self.current(root), self.pinned_range(cpu, range)?);
        if !self.expected.contains_key(&root) {
            return Err(sequence(cpu, format!("nothing was announced of the tree at {root:#x}")).at(first));
        }
        self.pins.of_mut(root).ranges.push((first, last, self.now));
        Ok(())
    }

    pub(super) fn unpin(&mut self, cpu: CpuId, root: u64, range: (u64, u64)) -> Result<(), Finding> {
        let (root, (first, last)) = (self.current(root), self.pinned_range(cpu, range)?);
        match self.pins.unpin(root, (first, last)) {
            true => Ok(()),
            false => Err(sequence(cpu, "no such range is pinned").at(first)),
        }
    }

    /// Returns the first and the last address of a range of whole pages.
    fn pinned_range(&self, cpu: CpuId, (va, bytes): (u64, u64)) -> Result<(u64, u64), Finding> {
        let page = self.geometry().page_size() - 1;
        match va.checked_add(bytes.wrapping_sub(1)) {
            Some(last) if bytes != 0 && (va | bytes) & page == 0 => Ok((va, last)),
            _ => Err(sequence(cpu, "a pinned range is not in whole pages").at(va)),
        }
    }

    /// Returns the leaves of a tree in the pinned parts of a range.
    pub(super) fn pinned_leaves(&self, root: u64, (first, last): (u64, u64)) -> Sizes {
        let mut sizes = Vec::new();
        let (Some(pinned), Some(place)) = (self.pins.of(self.current(root)), self.root_place(root)) else {
            return sizes;
        };
        for &(from, to, _) in &pinned.ranges {
            let part = (from.max(first), to.min(last));
            if part.0 > part.1 {
                continue;
            }
            let walked = self.pages.walk((root, place), part, self.geometry(), &mut |piece| {
                let size = match piece.entry {
                    Entry::Leaf(leaf) => self.size_of(leaf, piece.level),
                    _ => 0,
                };
                sizes.push((piece.va, piece.last, size));
                Ok::<(), std::convert::Infallible>(())
            });
            let Ok(()) = walked;
        }
        sizes
    }

    /// The bytes that a leaf translates, with the others of its run.
    const fn size_of(&self, leaf: Leaf, level: Level) -> usize {
        let g = self.geometry();
        let members = if leaf.contiguous { g.contiguous_entries(level) } else { 1 };
        (g.level_size(level) as usize).saturating_mul(members)
    }

    /// Judges that no pinned leaf has become larger than it was before a store.
    pub(super) fn none_has_grown(&mut self, cpu: CpuId, root: u64, before: Sizes) -> Result<(), Finding> {
        let (Some(&(first, ..)), Some(last)) = (before.first(), before.iter().map(|b| b.1).max()) else {
            return Ok(());
        };
        let map = self.current(root);
        for (from, to, size) in self.pinned_leaves(root, (first, last)) {
            for &(a, b, was) in before.iter().filter(|b| b.0 <= to && from <= b.1) {
                let (first, last) = (a.max(from), b.min(to));
                let in_use = self.expected.get(&map).is_some_and(|flat| flat.at(first).0.is_some());
                let pinned = self.pins.of_mut(map);
                let broken = pinned.broken.first_in(first, last).filter(|_| was == 0 && in_use);
                let was = broken.map_or(was, |(_, size)| size);
                if was != 0 && was < size {
                    let since = pinned.ranges.iter().find(|r| r.0 <= last && first <= r.1).map_or(0, |r| r.2);
                    let fact =
                        format!("cpu {cpu} makes a leaf of {size:#x} bytes where one of {was:#x} bytes was");
                    let by = format!("the range is pinned since event {since}");
                    return Err(Finding::new(Rule::Pinned, fact).on(cpu).at(first).and(by));
                }
                match (was, size) {
                    (0, _) => {}
                    (_, 0) => pinned.broken.add(first, last, was),
                    _ => pinned.broken.remove(first, last),
                }
            }
        }
        Ok(())
    }
}
