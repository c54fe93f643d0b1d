//! Pure: the ranges where two readings differ become changes: leaves split or collapsed, permissions, pages taken away.

use std::ops::Range;

use linmap::arch::LeafSize;
use linmap::{Geometry, Pa, Va};

use crate::map::leaves;
use crate::map::sweep::{Difference, Side};
use crate::source::EntryKind;

/// The most changes of one reading that are described; all of them are counted.
const DESCRIBED: usize = 1000;

/// The changes from one reading to the next, or of several together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Leaves that became smaller ones; a contiguous run is one leaf.
    pub(super) splits: u64,
    /// Leaves that are larger than those before at the same place.
    pub(super) collapses: u64,
    /// Bytes whose permissions or memory type are others.
    pub(super) attributes: u64,
    /// Bytes that are not valid any more, and bytes that are now.
    pub(super) gone: u64,
    pub(super) come: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Self) {
        let pairs = [
            (&mut self.splits, other.splits),
            (&mut self.collapses, other.collapses),
            (&mut self.attributes, other.attributes),
            (&mut self.gone, other.gone),
            (&mut self.come, other.come),
        ];
        for (sum, more) in pairs {
            *sum = sum.saturating_add(more);
        }
    }
}

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Leaves became smaller.
    Split,
    /// Leaves became larger.
    Collapse,
    /// Permissions or memory type changed.
    Attributes,
    /// Memory is not valid any more.
    Gone,
    /// Memory is valid now.
    Come,
    /// Its output address changed, or another bit.
    Other,
}

impl Kind {
    /// Returns its name for people and in documents.
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Split => "split",
            Self::Collapse => "collapsed",
            Self::Attributes => "permissions",
            Self::Gone => "invalid now",
            Self::Come => "valid now",
            Self::Other => "other",
        }
    }
}

/// One change: neighbouring ranges of the same kind and the same leaf sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) kind: Kind,
    pub(super) va: Va,
    pub(super) bytes: u64,
    /// The sizes of its leaves before and after, if it had leaves.
    pub(super) sizes: [Option<LeafSize>; 2],
    /// The memory whose permissions changed; if none did, all of it.
    pub(super) memory: Vec<Range<Pa>>,
    is_touched: bool,
}

/// Collects differences, which come in order of address.
pub(super) struct Collector {
    geometry: Geometry,
    pub(super) counts: Counts,
    pub(super) changes: Vec<Change>,
    /// The number of changes beyond those described.
    pub(super) more: u64,
    /// Size and number of the leaf that was counted last, before and after.
    last: [Option<(u64, u64)>; 2],
}

impl Collector {
    pub(super) const fn new(geometry: Geometry) -> Self {
        Self {
            geometry,
            counts: Counts { splits: 0, collapses: 0, attributes: 0, gone: 0, come: 0 },
            changes: Vec::new(),
            more: 0,
            last: [None; 2],
        }
    }

    /// Adds a difference.
    pub(super) fn add(&mut self, found: &Difference) {
        let sizes = found.sides.map(|side| self.size(&side));
        let [before, after] = found.sides.map(|side| is_valid(&side));
        let attributes = found.sides.map(|side| attributes(&side));
        let touched = before && after && attributes[0] != attributes[1];
        let kind = match (sizes, before, after) {
            (_, true, false) => Kind::Gone,
            (_, false, true) => Kind::Come,
            ([Some(old), Some(new)], ..) if new.bytes() < old.bytes() => Kind::Split,
            ([Some(old), Some(new)], ..) if new.bytes() > old.bytes() => Kind::Collapse,
            _ if touched => Kind::Attributes,
            _ => Kind::Other,
        };
        self.count(found, sizes, kind, touched);
        self.describe(found, sizes, kind, touched);
    }

    fn size(&self, side: &Side) -> Option<LeafSize> {
        let EntryKind::Leaf { contiguous, .. } = side.what else { return None };
        let sizes = self.geometry.leaf_sizes();
        let level = sizes.iter().find(|size| 1 << size.entry_shift == side.entry_bytes)?.level;
        leaves::size(self.geometry, level, contiguous)
    }

    fn count(&mut self, found: &Difference, sizes: [Option<LeafSize>; 2], kind: Kind, touched: bool) {
        let counts = &mut self.counts;
        counts.attributes = counts.attributes.saturating_add(if touched { found.bytes } else { 0 });
        match kind {
            Kind::Gone => counts.gone = counts.gone.saturating_add(found.bytes),
            Kind::Come => counts.come = counts.come.saturating_add(found.bytes),
            _ => {}
        }
        // A leaf that was split and in part taken away is a split, too.
        let [Some(old), Some(new)] = sizes else { return };
        if new.bytes() < old.bytes() {
            counts.splits = counts.splits.saturating_add(leaves_in(found, old, &mut self.last[0]));
        } else if new.bytes() > old.bytes() {
            counts.collapses = counts.collapses.saturating_add(leaves_in(found, new, &mut self.last[1]));
        }
    }

    fn describe(&mut self, found: &Difference, sizes: [Option<LeafSize>; 2], kind: Kind, touched: bool) {
        let memory = found.sides.iter().find_map(|side| match side.what {
            EntryKind::Leaf { oa: Some(oa), .. } => Some(oa..Pa(oa.0.saturating_add(found.bytes))),
            _ => None,
        });
        if let Some(last) = self.changes.last_mut()
            && (last.kind, last.sizes) == (kind, sizes)
            && last.va.0.wrapping_add(last.bytes) == found.va.0
        {
            last.bytes += found.bytes;
            // The memory of what changed its permissions says more than that of the leaf around it.
            if touched && !last.is_touched {
                last.memory.clear();
                last.is_touched = true;
            }
            if touched == last.is_touched {
                last.memory.extend(memory);
            }
            return;
        }
        if self.changes.len() == DESCRIBED {
            self.more += 1;
            return;
        }
        let memory = memory.into_iter().collect();
        let (va, bytes) = (found.va, found.bytes);
        self.changes.push(Change { kind, va, bytes, sizes, memory, is_touched: touched });
    }
}

/// Returns the number of leaves of a size that a range has, without the one that was counted last.
fn leaves_in(found: &Difference, size: LeafSize, counted: &mut Option<(u64, u64)>) -> u64 {
    let (first, last) = (found.va.0 >> size.shift, (found.va.0 + (found.bytes - 1)) >> size.shift);
    let again = u64::from(*counted == Some((size.bytes(), first)));
    *counted = Some((size.bytes(), last));
    last - first + 1 - again
}

const fn is_valid(side: &Side) -> bool {
    matches!(side.what, EntryKind::Leaf { valid: true, .. })
}

const fn attributes(side: &Side) -> Option<linmap::Attributes> {
    match side.what {
        EntryKind::Leaf { attributes, .. } => Some(attributes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::sweep::{Compared, sweep};
    use crate::source::SavedRun;
    use linmap::arch::Level;
    use linmap::{Attributes, Granule, OaFormat};

    const BASE: u64 = 0xffff_0000_0000_0000;
    const BLOCK: u64 = 2 << 20;

    fn row(va: u64, bytes: u64, level: i8, attributes: Attributes, valid: bool) -> SavedRun {
        let what = EntryKind::Leaf { oa: Some(Pa(va)), attributes, contiguous: false, valid };
        SavedRun { va: Va(BASE + va), bytes, level: Level::new(level), what, descriptor: None }
    }

    fn changes(before: &[SavedRun], after: &[SavedRun]) -> Collector {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
        let mut collector = Collector::new(g);
        let compared = Compared { addresses: true, unprinted: true };
        sweep((g, before), (g, after), (Va(BASE), Va(u64::MAX)), compared, |found| collector.add(&found));
        collector
    }

    #[test]
    fn a_page_of_a_block_is_one_split() {
        let (ram, ro) = (Attributes::RAM, Attributes::KERNEL_RODATA);
        let whole = [row(0, 4 * BLOCK, 2, ram, true)];
        let split = [
            row(0, BLOCK, 2, ram, true),
            row(BLOCK, 4096, 3, ram, true),
            row(BLOCK + 4096, 4096, 3, ro, true),
            row(BLOCK + 8192, BLOCK - 8192, 3, ram, true),
            row(2 * BLOCK, 2 * BLOCK, 2, ram, true),
        ];
        let found = changes(&whole, &split);
        assert_eq!(found.counts, Counts { splits: 1, attributes: 4096, ..Counts::default() });
        let [change] = found.changes.as_slice() else { panic!("{:?}", found.changes) };
        assert_eq!((change.kind, change.va, change.bytes), (Kind::Split, Va(BASE + BLOCK), BLOCK));
        assert_eq!(change.memory, [Pa(BLOCK + 4096)..Pa(BLOCK + 8192)]);
        // The way back.
        let found = changes(&split, &whole);
        assert_eq!(found.counts, Counts { collapses: 1, attributes: 4096, ..Counts::default() });
        assert_eq!(found.changes[0].kind, Kind::Collapse);
        assert_eq!(changes(&split, &split).counts, Counts::default());
    }

    #[test]
    fn many_blocks_are_many_splits() {
        let ram = Attributes::RAM;
        let found = changes(&[row(0, 4 * BLOCK, 2, ram, true)], &[row(0, 4 * BLOCK, 3, ram, true)]);
        assert_eq!(found.counts, Counts { splits: 4, ..Counts::default() });
        assert_eq!(found.changes.len(), 1);
    }

    #[test]
    fn pages_go_and_come() {
        let ram = Attributes::RAM;
        let valid = [row(0, BLOCK, 3, ram, true)];
        let gone = [
            row(0, 4096, 3, ram, true),
            row(4096, 4096, 3, ram, false),
            row(8192, BLOCK - 8192, 3, ram, true),
        ];
        assert_eq!(changes(&valid, &gone).counts, Counts { gone: 4096, ..Counts::default() });
        assert_eq!(changes(&gone, &valid).counts, Counts { come: 4096, ..Counts::default() });
        assert_eq!(changes(&[], &valid).changes[0].kind, Kind::Come);
    }
}
