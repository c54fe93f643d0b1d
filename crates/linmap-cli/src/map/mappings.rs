//! From memory to addresses: every mapping of a page, and mappings of the same memory that contradict each other.

use std::ops::ControlFlow;

use linmap::arch::Entry;
use linmap::{Attributes, MemoryType, Pa, Va};

use super::permissions::el1_executes;
use super::runs::descend_runs;
use super::view::{View, WalkError};
use crate::source::{EntryKind, SavedRun};

/// The most mappings of one page that are kept; tables can map a page as often as they have entries.
pub(crate) const MAX_MAPPINGS: usize = 100_000;

/// One leaf that maps a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    /// The address that the asked one is mapped at.
    pub(crate) va: Va,
    /// The size of the leaf in bytes.
    pub(crate) bytes: u64,
    /// With the restrictions of the tables above.
    pub(crate) attributes: Attributes,
    pub(crate) contiguous: bool,
    /// False for a leaf that is kept, but does not translate.
    pub(crate) valid: bool,
}

/// Returns every mapping of an address in memory at addresses of these ranges, in their order, and at most [`MAX_MAPPINGS`]
/// of them.
pub(crate) fn of(view: &View<'_>, pa: Pa, ranges: &[(Va, Va)]) -> Result<Vec<Mapping>, WalkError> {
    let mut mappings = Vec::new();
    for (first, last) in ranges {
        let _ = descend_runs(view, (*first, *last), |entries| {
            let found = entries.first;
            let Entry::Leaf(leaf) = found.entry else { return ControlFlow::Continue(()) };
            let offset = pa.0.wrapping_sub(leaf.oa.0);
            let va = Va(found.va.0.wrapping_add(offset));
            if offset >= entries.bytes || va < *first || *last < va {
                return ControlFlow::Continue(());
            }
            mappings.push(Mapping {
                va,
                bytes: view.geometry.level_size(found.level),
                attributes: found.limits.restrict(leaf.attributes),
                contiguous: leaf.contiguous,
                valid: leaf.valid,
            });
            if mappings.len() < MAX_MAPPINGS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(mappings)
}

/// A contradiction of two mappings of the same memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One writes to it, and the other executes it.
    WrittenAndExecuted,
    /// One is of Device memory, and the other of Normal memory: mismatched memory attributes.
    DeviceAndNormal,
    /// Both are Normal, and only one is cached. Linux maps its pool of memory for devices so.
    CachedAndNot,
}

/// The mapping of one place, as far as it can contradict another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    writable: bool,
    executable: bool,
    memory: Memory,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    Cached,
    NotCached,
    Device,
    /// An index of MAIR that Linux does not use.
    Unknown,
}

impl Class {
    fn of(attributes: Attributes) -> Self {
        let memory = match attributes.memory_type() {
            MemoryType::NORMAL | MemoryType::NORMAL_TAGGED => Memory::Cached,
            MemoryType::NORMAL_NC => Memory::NotCached,
            MemoryType::DEVICE_NGNRNE | MemoryType::DEVICE_NGNRE => Memory::Device,
            _ => Memory::Unknown,
        };
        Self { writable: attributes.is_writable(), executable: el1_executes(attributes), memory }
    }
}

/// Returns the contradictions of two mappings of the same memory.
pub(crate) fn contradictions(one: Attributes, other: Attributes) -> impl Iterator<Item = Kind> {
    use Memory::{Cached, Device, NotCached};
    let (one, other) = (Class::of(one), Class::of(other));
    let written = one.writable && other.executable || one.executable && other.writable;
    let memory = match (one.memory, other.memory) {
        (Device, Cached | NotCached) | (Cached | NotCached, Device) => Some(Kind::DeviceAndNormal),
        (Cached, NotCached) | (NotCached, Cached) => Some(Kind::CachedAndNot),
        _ => None,
    };
    written.then_some(Kind::WrittenAndExecuted).into_iter().chain(memory)
}

/// Memory that two mappings contradict each other about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contradiction {
    pub(crate) kind: Kind,
    pub(crate) pa: Pa,
    pub(crate) bytes: u64,
    /// The addresses of its first byte.
    pub(crate) vas: [Va; 2],
    pub(crate) attributes: [Attributes; 2],
}

/// A row of consecutive leaves, as memory.
#[derive(Clone, Copy)]
struct Piece {
    pa: u64,
    end: u64,
    va: u64,
    attributes: Attributes,
}

/// Calls `each` for every contradiction among these rows of valid leaves, in order of memory.
///
/// Each row is compared with the mapping of each class that reaches furthest: of equal ones, one is named.
pub(crate) fn sweep(rows: &[SavedRun], mut each: impl FnMut(Contradiction)) {
    let mut pieces: Vec<Piece> = rows.iter().filter_map(piece).collect();
    pieces.sort_by_key(|piece| (piece.pa, piece.va));
    let mut open: Vec<(Class, Piece)> = Vec::new();
    for new in pieces {
        open.retain(|(_, old)| old.end > new.pa);
        for (_, old) in &open {
            let end = old.end.min(new.end);
            for kind in contradictions(old.attributes, new.attributes) {
                each(Contradiction {
                    kind,
                    pa: Pa(new.pa),
                    bytes: end - new.pa,
                    vas: [Va(old.va.wrapping_add(new.pa - old.pa)), Va(new.va)],
                    attributes: [old.attributes, new.attributes],
                });
            }
        }
        let class = Class::of(new.attributes);
        match open.iter_mut().find(|(known, _)| *known == class) {
            Some((_, old)) if old.end >= new.end => {}
            Some((_, old)) => *old = new,
            None => open.push((class, new)),
        }
    }
}

fn piece(row: &SavedRun) -> Option<Piece> {
    match row.what {
        EntryKind::Leaf { oa: Some(oa), attributes, valid: true, .. } => {
            Some(Piece { pa: oa.0, end: oa.0.saturating_add(row.bytes), va: row.va.0, attributes })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::arch::Level;
    use test_support::prelude::*;

    fn row((va, pa, pages, kind): (u64, u64, u64, usize)) -> SavedRun {
        let kinds = [
            Attributes::RAM,
            Attributes::KERNEL_DATA,
            Attributes::KERNEL_RODATA,
            Attributes::KERNEL_TEXT,
            Attributes::DEVICE,
            Attributes::RAM.of_type(MemoryType::NORMAL_NC),
        ];
        let what = EntryKind::Leaf {
            oa: Some(Pa(pa)),
            attributes: kinds[kind],
            contiguous: false,
            valid: va % 7 != 3,
        };
        SavedRun { va: Va(va << 32), bytes: pages, level: Level::PAGE, what, descriptor: None }
    }

    proptest! {
        /// Every byte that any two rows contradict each other about is in a contradiction of that kind, and no other is.
        #[test]
        fn what_contradicts_is_found(rows in prop::collection::vec((0u64..50, 0u64..40, 1u64..12, 0usize..6), 0..12)) {
            let rows: Vec<SavedRun> = rows.into_iter().map(row).collect();
            let pieces: Vec<Piece> = rows.iter().filter_map(piece).collect();
            let mut expected = std::collections::BTreeSet::new();
            for (index, one) in pieces.iter().enumerate() {
                for other in &pieces[index + 1..] {
                    for kind in contradictions(one.attributes, other.attributes) {
                        expected.extend((one.pa.max(other.pa)..one.end.min(other.end)).map(|pa| (kind, pa)));
                    }
                }
            }
            let mut found = std::collections::BTreeSet::new();
            sweep(&rows, |c| {
                found.extend((c.pa.0..c.pa.0 + c.bytes).map(|pa| (c.kind, pa)));
                // Both addresses map this memory, by what is said of them.
                for (va, attributes) in c.vas.iter().zip(c.attributes) {
                    assert!(pieces.iter().any(|piece| piece.attributes == attributes
                        && piece.pa <= c.pa.0 && c.pa.0 < piece.end && va.0 == piece.va + (c.pa.0 - piece.pa)));
                }
            });
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn only_what_differs_in_a_way_that_matters_contradicts() {
        let of = |one, other| contradictions(one, other).collect::<Vec<_>>();
        let nc = Attributes::RAM.of_type(MemoryType::NORMAL_NC);
        assert_eq!(of(Attributes::RAM, Attributes::KERNEL_DATA), []);
        assert_eq!(of(Attributes::RAM, Attributes::KERNEL_RODATA), []);
        assert_eq!(of(Attributes::KERNEL_RODATA, Attributes::KERNEL_TEXT), []);
        assert_eq!(of(Attributes::KERNEL_TEXT, Attributes::RAM), [Kind::WrittenAndExecuted]);
        assert_eq!(of(Attributes::DEVICE, Attributes::KERNEL_RODATA), [Kind::DeviceAndNormal]);
        assert_eq!(of(nc, Attributes::RAM), [Kind::CachedAndNot]);
        assert_eq!(of(nc, Attributes::KERNEL_TEXT), [Kind::WrittenAndExecuted, Kind::CachedAndNot]);
    }
}
