//! Whose memory is: who has which pages, and by which evidence.
//!
//! Memory that no list, no symbol and no other mapping tells about has no owner here: it is free, a user's, or the kernel's
//! own data.
//!
//! - `find`: the owners of a view.  `pieces`: pure, pieces that overlap become pieces with one owner each.

mod find;
mod pieces;

use std::ops::Range;

use linmap::{Attributes, Pa};

use super::permissions::el1_executes;
use crate::linux::regions::Name;

/// How an owner is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    /// The kernel's own lists and structures, by symbols and BTF.
    List,
    /// A symbol of the kernel says where it is.
    Symbol,
    /// The address of another mapping, or that it is a table in use.
    Address,
}

impl By {
    /// Returns its name in documents.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Symbol => "symbol",
            Self::Address => "address",
        }
    }

    /// Returns its name for people.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::List => "the kernel's lists",
            Self::Symbol => "a symbol",
            Self::Address => "its address",
        }
    }
}

/// A use of memory. Of several, the first in this order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Page tables of the kernel's half.
    Tables,
    /// The kernel image: code, constants, then data and bss.
    Text,
    Constants,
    Data,
    /// A module, by its name.
    Module,
    Bpf,
    Kfence,
    PerCpu,
    Secret,
    CrashKernel,
    DeviceTree,
    /// Free pages that `debug_pagealloc` hides.
    Free,
    /// Code in the region of modules that no list has, and the rest of that region.
    ModuleCode,
    ModuleData,
    /// Executable memory in the vmalloc area: BPF and trampolines.
    VmallocCode,
    /// vmalloc: stacks of tasks, large allocations.
    Vmalloc,
    /// The array of struct page.
    Vmemmap,
    /// Fixed mappings.
    Fixmap,
}

impl Kind {
    /// All of them, in the order in which they count.
    pub(crate) const ALL: [Self; 18] = [
        Self::Tables,
        Self::Text,
        Self::Constants,
        Self::Data,
        Self::Module,
        Self::Bpf,
        Self::Kfence,
        Self::PerCpu,
        Self::Secret,
        Self::CrashKernel,
        Self::DeviceTree,
        Self::Free,
        Self::ModuleCode,
        Self::ModuleData,
        Self::VmallocCode,
        Self::Vmalloc,
        Self::Vmemmap,
        Self::Fixmap,
    ];

    /// Returns its name in documents and for people.
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Tables => ("page_tables", "page tables"),
            Self::Text => ("kernel_code", "kernel code"),
            Self::Constants => ("kernel_constants", "kernel constants"),
            Self::Data => ("kernel_data", "kernel data"),
            Self::Module => ("module", "module"),
            Self::Bpf => ("bpf", "BPF: packs of programs, programs, trampolines"),
            Self::Kfence => ("kfence", "KFENCE's pool"),
            Self::PerCpu => ("per_cpu", "per-CPU areas"),
            Self::Secret => ("secretmem", "memfd_secret"),
            Self::CrashKernel => ("crash_kernel", "memory for a crash kernel"),
            Self::DeviceTree => ("device_tree", "the device tree"),
            Self::Free => ("debug_pagealloc", "free pages, hidden by debug_pagealloc"),
            Self::ModuleCode => ("modules_code", "code of modules or BPF"),
            Self::ModuleData => ("modules_data", "data of modules"),
            Self::VmallocCode => ("vmalloc_code", "code in the vmalloc area"),
            Self::Vmalloc => ("vmalloc", "vmalloc"),
            Self::Vmemmap => ("vmemmap", "vmemmap"),
            Self::Fixmap => ("fixmap", "fixmap"),
        }
    }

    pub(crate) const fn id(self) -> &'static str {
        self.names().0
    }

    pub(crate) const fn text(self) -> &'static str {
        self.names().1
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
            Name::Modules => Self::ModuleData,
            Name::Vmalloc if executes => Self::VmallocCode,
            Name::Vmalloc => Self::Vmalloc,
            Name::Vmemmap => Self::Vmemmap,
            Name::Fixmap => Self::Fixmap,
        })
    }
}

/// An owner of memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) kind: Kind,
    /// The name of a module.
    pub(crate) name: Option<String>,
    pub(crate) by: By,
}

impl Owner {
    /// Returns its name for people, fit for a terminal.
    pub(crate) fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!(" {}", crate::printable::line(name)));
        format!("{}{}", self.kind.text(), name.unwrap_or_default())
    }
}

/// The known owners, in pieces of memory without overlaps, in order of address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owners {
    /// Each once, in the order in which they count.
    list: Vec<Owner>,
    /// The memory of each, by its index in the list.
    pieces: Vec<(Range<Pa>, u32)>,
}

impl Owners {
    /// Returns all of them; the index of one is its number.
    pub(crate) fn list(&self) -> &[Owner] {
        &self.list
    }

    /// Returns the number of an address's owner, and the first address with another one.
    pub(crate) fn at(&self, pa: Pa) -> (Option<usize>, Pa) {
        let after = self.pieces.partition_point(|(range, _)| range.start <= pa);
        match after.checked_sub(1).and_then(|index| self.pieces.get(index)) {
            Some((range, owner)) if range.contains(&pa) => (Some(*owner as usize), range.end),
            _ => (None, self.pieces.get(after).map_or(Pa(u64::MAX), |(range, _)| range.start)),
        }
    }

    /// Returns the numbers of all owners in a range of memory, each once.
    pub(crate) fn within(&self, memory: Range<Pa>) -> Vec<usize> {
        let first = self.pieces.partition_point(|(range, _)| range.end <= memory.start);
        let inside = self.pieces.iter().skip(first).take_while(|(range, _)| range.start < memory.end);
        let mut owners: Vec<usize> = inside.map(|(_, owner)| *owner as usize).collect();
        owners.sort_unstable();
        owners.dedup();
        owners
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn owner(kind: Kind, by: By) -> Owner {
        Owner { kind, name: None, by }
    }

    #[test]
    fn of_several_owners_the_first_counts() {
        let (text, vmalloc) = (owner(Kind::Text, By::Address), owner(Kind::Vmalloc, By::Address));
        let found =
            [(Pa(0)..Pa(8), vmalloc.clone()), (Pa(2)..Pa(4), text.clone()), (Pa(8)..Pa(9), vmalloc.clone())];
        let owners = Owners::from_found(found);
        assert_eq!(owners.list(), [text, vmalloc]);
        assert_eq!(owners.pieces, [(Pa(0)..Pa(2), 1), (Pa(2)..Pa(4), 0), (Pa(4)..Pa(9), 1)]);
        assert_eq!(owners.at(Pa(3)), (Some(0), Pa(4)));
        assert_eq!(owners.at(Pa(9)), (None, Pa(u64::MAX)));
        assert_eq!(owners.within(Pa(3)..Pa(5)), [0, 1]);
        assert_eq!(owners.within(Pa(9)..Pa(20)), [] as [usize; 0]);
    }

    #[test]
    fn kinds_count_in_the_order_of_the_list() {
        assert!(Kind::ALL.is_sorted() && Kind::ALL.iter().enumerate().all(|(n, kind)| *kind as usize == n));
        let ids: std::collections::BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.id()).collect();
        assert_eq!(ids.len(), Kind::ALL.len());
    }

    proptest! {
        /// The result is the same as from asking each address.
        #[test]
        fn each_address_has_its_owner(pieces in prop::collection::vec((0u64..40, 1u64..9, 0usize..18, 0usize..3), 0..20)) {
            let evidence = [By::List, By::Symbol, By::Address];
            let found: Vec<_> = pieces
                .iter()
                .map(|(at, n, kind, by)| (Pa(*at)..Pa(at + n), owner(Kind::ALL[*kind], evidence[*by])))
                .collect();
            let owners = Owners::from_found(found.clone());
            for pa in (0..60).map(Pa) {
                let expected = found.iter().filter(|(range, _)| range.contains(&pa)).map(|piece| &piece.1).min();
                prop_assert_eq!(owners.at(pa).0.map(|number| &owners.list()[number]), expected, "{}", pa);
            }
            prop_assert!(owners.pieces.windows(2).all(|pair| pair[0].0.end <= pair[1].0.start));
        }
    }
}
