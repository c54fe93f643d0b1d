//! The owners of memory in the linear map, as far as tables tell: the other region of addresses that maps it, or that it
//! holds page tables itself. Memory that nothing else maps is free, a user's, or the kernel's own data.

use std::collections::BTreeMap;
use std::ops::{ControlFlow, Range};

use linmap::{Attributes, Entry, Pa};

use super::permissions::el1_executes;
use super::runs::descend_runs;
use super::view::{View, WalkError};
use crate::linux::regions::{Name, Regions};

/// The most pieces that are kept; one takes 24 bytes.
const MAX_PIECES: usize = 1 << 21;

/// A use of memory. Of several, the first in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// Page tables of the kernel's half.
    Tables,
    /// The kernel image: code.
    Text,
    /// The kernel image: constants.
    Constants,
    /// The kernel image: data and bss.
    Data,
    /// Code of modules, and of BPF where it lies in their region.
    ModuleCode,
    /// Constants and data of modules.
    Modules,
    /// Executable memory in the vmalloc area: BPF and trampolines.
    VmallocCode,
    /// vmalloc: stacks of tasks, large allocations.
    Vmalloc,
    /// The array of struct page.
    Vmemmap,
    /// Fixed mappings: the device tree.
    Fixmap,
}

impl Owner {
    /// All of them, in the order in which they count.
    pub(crate) const ALL: [Self; 10] = [
        Self::Tables,
        Self::Text,
        Self::Constants,
        Self::Data,
        Self::ModuleCode,
        Self::Modules,
        Self::VmallocCode,
        Self::Vmalloc,
        Self::Vmemmap,
        Self::Fixmap,
    ];

    /// Returns its name for people and in documents.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Tables => "page tables",
            Self::Text => "kernel code",
            Self::Constants => "kernel constants",
            Self::Data => "kernel data",
            Self::ModuleCode => "code of modules or BPF",
            Self::Modules => "data of modules",
            Self::VmallocCode => "code in the vmalloc area",
            Self::Vmalloc => "vmalloc",
            Self::Vmemmap => "vmemmap",
            Self::Fixmap => "fixmap",
        }
    }

    /// Returns the owner of memory that a region maps with these attributes.
    fn of(region: Name, attributes: Attributes) -> Option<Self> {
        let executes = el1_executes(attributes);
        Some(match region {
            Name::Linear => return None,
            Name::Kernel if executes => Self::Text,
            Name::Kernel if attributes.is_writable() => Self::Data,
            Name::Kernel => Self::Constants,
            Name::Modules if executes => Self::ModuleCode,
            Name::Modules => Self::Modules,
            Name::Vmalloc if executes => Self::VmallocCode,
            Name::Vmalloc => Self::Vmalloc,
            Name::Vmemmap => Self::Vmemmap,
            Name::Fixmap => Self::Fixmap,
        })
    }
}

/// The known owners, in pieces of memory without overlaps, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    pieces: Vec<(Range<Pa>, Owner)>,
}

impl Owners {
    /// Finds the owners of all memory that other regions map, and of tables. A text dump, which has no output
    /// addresses, shows none.
    pub(crate) fn of(view: &View<'_>, regions: &Regions) -> Result<Self, WalkError> {
        if !view.has_addresses {
            return Ok(Self::default());
        }
        let mut found = Vec::new();
        let page = view.geometry.page_size();
        if let Some(tables) = view.tables {
            let at = tables.snapshot.addresses();
            found.extend(at.map(|table| (table..Pa(table.0.saturating_add(page)), Owner::Tables)));
        }
        for region in regions.all().iter().filter(|region| region.name != Name::Linear) {
            let _ = descend_runs(view, (region.first, region.last), |entries| {
                let entry = entries.first;
                let Entry::Leaf(leaf) = entry.entry else { return ControlFlow::Continue(()) };
                let owner = Owner::of(region.name, entry.limits.restrict(leaf.attributes));
                let end = Pa(leaf.oa.0.saturating_add(entries.bytes));
                add(&mut found, leaf.oa..end, owner.filter(|_| leaf.valid));
                if found.len() < MAX_PIECES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
            })?;
        }
        Ok(Self { pieces: flat(found) })
    }

    /// Returns the owner of an address, and the first address with another owner.
    pub(crate) fn at(&self, pa: Pa) -> (Option<Owner>, Pa) {
        let after = self.pieces.partition_point(|(range, _)| range.start <= pa);
        match after.checked_sub(1).and_then(|index| self.pieces.get(index)) {
            Some((range, owner)) if range.contains(&pa) => (Some(*owner), range.end),
            _ => (None, self.pieces.get(after).map_or(Pa(u64::MAX), |(range, _)| range.start)),
        }
    }

    /// Returns the owners of a range of memory, each once.
    pub(crate) fn within(&self, memory: Range<Pa>) -> Vec<Owner> {
        let first = self.pieces.partition_point(|(range, _)| range.end <= memory.start);
        let inside = self.pieces.iter().skip(first).take_while(|(range, _)| range.start < memory.end);
        let mut owners: Vec<Owner> = inside.map(|(_, owner)| *owner).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

/// Adds a piece, joined with the last one if it goes on there.
fn add(found: &mut Vec<(Range<Pa>, Owner)>, range: Range<Pa>, owner: Option<Owner>) {
    let Some(owner) = owner.filter(|_| !range.is_empty()) else { return };
    match found.last_mut() {
        Some((last, same)) if *same == owner && last.end == range.start => last.end = range.end,
        _ => found.push((range, owner)),
    }
}

/// Returns pieces without overlaps: where several cover an address, the first owner in order counts.
fn flat(found: Vec<(Range<Pa>, Owner)>) -> Vec<(Range<Pa>, Owner)> {
    // An owner begins or ends at an address.
    let mut edges: Vec<(Pa, Owner, bool)> = Vec::with_capacity(2 * found.len());
    for (range, owner) in found {
        edges.extend([(range.start, owner, true), (range.end, owner, false)]);
    }
    edges.sort_unstable_by_key(|edge| edge.0);
    let mut open: BTreeMap<Owner, usize> = BTreeMap::new();
    let (mut flat, mut from) = (Vec::new(), Pa(0));
    for (at, owner, begins) in edges {
        let current = open.first_key_value().map(|(owner, _)| *owner);
        add(&mut flat, from..at, current);
        from = at;
        let count = open.entry(owner).or_default();
        *count = if begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            open.remove(&owner);
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    const OWNERS: [Owner; 3] = [Owner::Tables, Owner::Text, Owner::Vmalloc];

    #[test]
    fn of_several_owners_the_first_counts() {
        let found =
            vec![(Pa(0)..Pa(8), Owner::Vmalloc), (Pa(2)..Pa(4), Owner::Text), (Pa(8)..Pa(9), Owner::Vmalloc)];
        let owners = Owners { pieces: flat(found) };
        let expected =
            [(Pa(0)..Pa(2), Owner::Vmalloc), (Pa(2)..Pa(4), Owner::Text), (Pa(4)..Pa(9), Owner::Vmalloc)];
        assert_eq!(owners.pieces, expected);
        assert_eq!(owners.at(Pa(3)), (Some(Owner::Text), Pa(4)));
        assert_eq!(owners.at(Pa(9)), (None, Pa(u64::MAX)));
        assert_eq!(owners.within(Pa(3)..Pa(5)), [Owner::Text, Owner::Vmalloc]);
        assert_eq!(owners.within(Pa(9)..Pa(20)), []);
    }

    proptest! {
        /// The result is the same as from asking each address.
        #[test]
        fn each_address_has_its_owner(pieces in prop::collection::vec((0u64..40, 1u64..9, 0usize..3), 0..20)) {
            let found: Vec<_> = pieces.iter().map(|(at, n, owner)| (Pa(*at)..Pa(at + n), OWNERS[*owner])).collect();
            let owners = Owners { pieces: flat(found.clone()) };
            for pa in (0..60).map(Pa) {
                let expected = found.iter().filter(|(range, _)| range.contains(&pa)).map(|piece| piece.1).min();
                prop_assert_eq!(owners.at(pa).0, expected, "{}", pa);
            }
            prop_assert!(owners.pieces.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
        }
    }
}
