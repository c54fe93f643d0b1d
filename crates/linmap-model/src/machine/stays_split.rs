//! Leaves that stay split: they carry the software bit for that, and nobody makes them larger.

use linmap::Attributes;
use linmap::arch::{Entry, Leaf, Level};

use super::{Finding, Machine};
use crate::{CpuId, Rule};

/// The leaves that stay split in a range: first and last address, and the size; 0 where one was and is none now.
type Sizes = Vec<(u64, u64, usize)>;

impl Machine {
    /// Returns the leaves of a tree in a range that stay split, and those that did before they were broken.
    pub(super) fn staying(&self, root: u64, (first, last): (u64, u64)) -> Sizes {
        let (map, mut sizes) = (self.current(root), Vec::new());
        let broken = self.broken.get(&map);
        self.each_leaf(root, (first, last), |piece, leaf| match leaf {
            Some((leaf, level)) if leaf.attributes.contains(Attributes::STAYS_SPLIT) => {
                sizes.push((piece.0, piece.1, self.size_of(leaf, level)));
            }
            Some(_) => {}
            None => sizes.extend(broken.iter().flat_map(|b| b.within(piece)).map(|(from, to)| (from, to, 0))),
        });
        sizes
    }

    /// Calls `each` for the leaves and holes of a range, which may go on beyond it.
    fn each_leaf(
        &self,
        root: u64,
        range: (u64, u64),
        mut each: impl FnMut((u64, u64), Option<(Leaf, Level)>),
    ) {
        // Of other trees nobody has said that their software bits are those of the library.
        if !self.expected.contains_key(&self.current(root)) {
            return;
        }
        let Some(place) = self.root_place(root) else { return };
        let walked = self.pages.walk((root, place), range, self.geometry(), &mut |piece| {
            let leaf = match piece.entry {
                Entry::Leaf(leaf) => Some((leaf, piece.level)),
                _ => None,
            };
            each((piece.va, piece.last), leaf);
            Ok::<(), std::convert::Infallible>(())
        });
        let Ok(()) = walked;
    }

    /// The bytes that a leaf translates, with the others of its run.
    const fn size_of(&self, leaf: Leaf, level: Level) -> usize {
        let g = self.geometry();
        let members = if leaf.contiguous { g.contiguous_entries(level) } else { 1 };
        (g.level_size(level) as usize).saturating_mul(members)
    }

    /// Judges that none of the leaves that stay split has become larger than it was before a store.
    pub(super) fn none_has_grown(&mut self, cpu: CpuId, root: u64, before: Sizes) -> Result<(), Finding> {
        let (Some(&(first, ..)), Some(last)) = (before.first(), before.iter().map(|b| b.1).max()) else {
            return Ok(());
        };
        let (map, mut now) = (self.current(root), Sizes::new());
        self.each_leaf(root, (first, last), |(first, last), leaf| {
            now.push((first, last, leaf.map_or(0, |(leaf, level)| self.size_of(leaf, level))));
        });
        for (from, to, size) in now {
            for &(a, b, was) in before.iter().filter(|b| b.0 <= to && from <= b.1) {
                let (first, last) = (a.max(from), b.min(to));
                let in_use = self.expected.get(&map).is_some_and(|flat| flat.at(first).0.is_some());
                let broken = self.broken.entry(map).or_default();
                let known = broken.first_in(first, last).filter(|_| was == 0 && in_use);
                let was = known.map_or(was, |(_, size)| size);
                if was != 0 && was < size {
                    let fact = format!(
                        "cpu {cpu} makes a leaf of {size:#x} bytes where one of {was:#x} bytes stays split"
                    );
                    return Err(Finding::new(Rule::StaysSplit, fact).on(cpu).at(first));
                }
                match (was, size) {
                    (0, 0) => {}
                    (_, 0) => broken.add(first, last, was),
                    _ => broken.remove(first, last),
                }
            }
        }
        Ok(())
    }
}
