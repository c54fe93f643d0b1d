//! Finds the owners of a view: by addresses on any kernel, by its symbols and lists if they can be read.

use std::ops::{ControlFlow, Range};

use linmap::arch::Entry;
use linmap::{Half, Pa, Va};

use super::pieces::Found;
use super::{By, Kind, Owner, Owners};
use crate::linux::regions::{Name, Regions, linear};
use crate::linux::structures::Structures;
use crate::linux::structures::pages::{Pages, Use};
use crate::linux::structures::per_cpu::PerCpu;
use crate::map::descent::path;
use crate::map::runs::descend_runs;
use crate::map::view::{View, WalkError};

/// The most pages of KFENCE's pool, and of a pack of BPF programs.
const MAX_POOL: u64 = 1 << 17;
/// The most hidden pages whose uses are looked up; those of a damaged table can be more than there is memory.
const MAX_HIDDEN: u64 = 1 << 26;
/// More bytes than one area of a list has; a damaged list has larger ones.
const MAX_AREA: u64 = 1 << 30;

impl Owners {
    /// Finds the owners of all memory. Without symbols `kernel` knows nothing, and addresses alone count. A text dump,
    /// which has no output addresses, shows none.
    pub(crate) fn of(view: &View<'_>, regions: &Regions, kernel: &Structures<'_>) -> Result<Self, WalkError> {
        if !view.has_addresses {
            return Ok(Self::default());
        }
        let mut finder = Finder { view, kernel, page: view.geometry.page_size(), found: Found::default() };
        finder.tables();
        finder.regions(regions)?;
        finder.modules_and_bpf()?;
        finder.per_cpu()?;
        finder.reserved()?;
        finder.hidden()?;
        Ok(finder.found.owners())
    }
}

struct Finder<'f> {
    view: &'f View<'f>,
    kernel: &'f Structures<'f>,
    /// The size of a page.
    page: u64,
    found: Found,
}

const fn owner(kind: Kind, by: By) -> Owner {
    Owner { kind, name: None, by }
}

impl Finder<'_> {
    fn tables(&mut self) {
        let tables = self.view.tables.into_iter().flat_map(|tables| tables.snapshot.addresses());
        let owner = owner(Kind::Tables, By::Address);
        for table in tables {
            self.found.add(table..Pa(table.0.saturating_add(self.page)), &owner);
        }
    }

    /// Adds everything that other regions than the linear map have mapped.
    fn regions(&mut self, regions: &Regions) -> Result<(), WalkError> {
        for region in regions.all().iter().filter(|region| region.name != Name::Linear) {
            let _ = descend_runs(self.view, (region.first, region.last), |entries| {
                let entry = entries.first;
                let Entry::Leaf(leaf) = entry.entry else { return ControlFlow::Continue(()) };
                let kind = Kind::of(region.name, entry.limits.restrict(leaf.attributes));
                let Some(kind) = kind.filter(|_| leaf.valid) else { return ControlFlow::Continue(()) };
                let end = Pa(leaf.oa.0.saturating_add(entries.bytes));
                go_on(self.found.add(leaf.oa..end, &owner(kind, By::Address)))
            })?;
        }
        Ok(())
    }

    /// Adds the memory that these addresses translate to, valid or not.
    fn area(&mut self, area: Range<u64>, owner: &Owner) -> Result<(), WalkError> {
        let (start, end) = (area.start & !(self.page - 1), area.end.checked_next_multiple_of(self.page));
        let last = end.map_or(u64::MAX, |end| end.wrapping_sub(1));
        if start < self.view.geometry.base(Half::Upper) || last < start || last - start > MAX_AREA {
            return Ok(());
        }
        let _ = descend_runs(self.view, (Va(start), Va(last)), |entries| {
            let found = entries.first;
            let Entry::Leaf(leaf) = found.entry else { return ControlFlow::Continue(()) };
            // A block can begin before the area and end after it.
            let from = found.va.0.max(start) - found.va.0;
            let bytes = (last - found.va.0).saturating_add(1).min(entries.bytes);
            let memory = Pa(leaf.oa.0.saturating_add(from))..Pa(leaf.oa.0.saturating_add(bytes));
            go_on(self.found.add(memory, owner))
        })?;
        Ok(())
    }

    fn modules_and_bpf(&mut self) -> Result<(), WalkError> {
        for (name, area) in self.kernel.modules() {
            self.area(area, &Owner { kind: Kind::Module, name: Some(name), by: By::List })?;
        }
        let packs = self.kernel.packs().into_iter().map(|start| start..self.code_end(start));
        let areas: Vec<_> = packs.chain(self.kernel.programs()).collect();
        areas.into_iter().try_for_each(|area| self.area(area, &owner(Kind::Bpf, By::List)))
    }

    fn per_cpu(&mut self) -> Result<(), WalkError> {
        let areas = PerCpu::of(self.kernel, self.page);
        for (areas, by) in [(areas.variables, By::Symbol), (areas.chunks, By::List)] {
            areas.into_iter().try_for_each(|area| self.area(area, &owner(Kind::PerCpu, by)))?;
        }
        Ok(())
    }

    /// Adds memory that is set aside: KFENCE's pool, that of crash kernels, the device tree.
    fn reserved(&mut self) -> Result<(), WalkError> {
        if let Some(start) = self.kernel.kfence_pool() {
            self.area(self.pool(start), &owner(Kind::Kfence, By::Symbol))?;
        }
        for memory in self.kernel.crash_kernels() {
            self.found.add(Pa(memory.start)..Pa(memory.end), &owner(Kind::CrashKernel, By::Symbol));
        }
        if let Some(tree) = self.kernel.device_tree() {
            self.area(tree, &owner(Kind::DeviceTree, By::Symbol))
        } else {
            let tree = self.view.tables.and_then(|tables| tables.device_tree());
            if let Some(Range { start: Pa(start), end: Pa(end) }) = tree {
                let end = end.checked_next_multiple_of(self.page).unwrap_or(end);
                let pages = Pa(start & !(self.page - 1))..Pa(end);
                self.found.add(pages, &owner(Kind::DeviceTree, By::Address));
            }
            Ok(())
        }
    }

    /// Adds pages that are hidden from the linear map, as far as their struct page says why.
    fn hidden(&mut self) -> Result<(), WalkError> {
        let start = self.view.kernel.info.as_ref().and_then(|info| info.symbol("vmemmap"));
        let Some(pages) = start.and_then(|start| Pages::of(self.kernel, start)) else { return Ok(()) };
        let (secret, free) = (owner(Kind::Secret, By::List), owner(Kind::Free, By::List));
        let (shift, mut left) = (self.view.geometry.page_shift(), MAX_HIDDEN);
        let _ = descend_runs(self.view, linear(self.view.geometry), |entries| {
            let Entry::Leaf(leaf) = entries.first.entry else { return ControlFlow::Continue(()) };
            if leaf.valid {
                return ControlFlow::Continue(());
            }
            let (mut at, mut has_room) = (leaf.oa.0, true);
            let count = (entries.bytes >> shift).min(left);
            left -= count;
            pages.uses(at >> shift, count, |count, of| {
                let end = at.saturating_add(count << shift);
                let owner = of.map(|of| match of {
                    Use::Secret => &secret,
                    Use::Free => &free,
                });
                has_room &= owner.is_none_or(|owner| self.found.add(Pa(at)..Pa(end), owner));
                at = end;
            });
            go_on(has_room && left > 0)
        })?;
        Ok(())
    }

    /// Returns KFENCE's pool: from its start, as far as every second page is a guard.
    fn pool(&self, start: u64) -> Range<u64> {
        let is_guard = |va: u64| matches!(self.leaf(va), Some((false, _)));
        let guards =
            (1..MAX_POOL).step_by(2).take_while(|index| is_guard(start.wrapping_add(index * self.page)));
        start..start.saturating_add(guards.last().map_or(0, |last| (last + 1) * self.page))
    }

    /// Returns the end of code that begins at an address: a guard page follows each area of vmalloc.
    fn code_end(&self, start: u64) -> u64 {
        let is_code = |va: u64| matches!(self.leaf(va), Some((true, false)));
        let pages = (0..MAX_POOL).take_while(|index| is_code(start.wrapping_add(index * self.page)));
        start.saturating_add(pages.count() as u64 * self.page)
    }

    /// Returns whether the leaf at an address is valid and whether it is writable, if there is one.
    fn leaf(&self, va: u64) -> Option<(bool, bool)> {
        let path = path(&self.view.bounded(), self.view.geometry, self.view.root, Va(va)).ok()?;
        let found = path.last()?;
        let Entry::Leaf(leaf) = found.entry else { return None };
        Some((leaf.valid, found.limits.restrict(leaf.attributes).is_writable()))
    }
}

const fn go_on(is_wanted: bool) -> ControlFlow<()> {
    if is_wanted { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
}
