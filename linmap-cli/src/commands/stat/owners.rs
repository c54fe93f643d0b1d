//! Whose a page of the linear map is: by the kernel's own lists if they can be read, else by the place of its other mapping.

use std::ops::Range;

use linmap::{Entry, Pa, Va};

use crate::commands::names::Names;
use crate::commands::reading::Failure;
use crate::linux::regions::{Name, Regions};
use crate::linux::structures::{Secret, Structures};
use crate::map::descent::path;
use crate::map::image::Image;
use crate::map::stretches::{self, Permissions};
use crate::map::view::View;
use crate::source::EntryKind;

/// The most pages of KFENCE's pool.
const MAX_POOL: u64 = 1 << 17;

/// How an owner is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// The kernel's own lists say it, by symbols and BTF.
    Lists,
    /// The place in memory, or of the page's other mapping, says it.
    Place,
    /// Nothing says more.
    Nothing,
}

/// The kinds of owners.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Image,
    Module,
    Bpf,
    Kfence,
    Secret,
    CrashKernel,
    /// Read-only for a user in the region of modules, or in vmalloc, that no list has.
    Modules,
    Vmalloc,
    /// Without a known user.
    ReadOnly,
    Invalid,
    /// Blocks that are in pages though nobody has a page in them.
    Edge,
    Nobody,
}

/// An owner of pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: Kind,
    /// The name of a module.
    pub(super) name: Option<String>,
    pub(super) by: By,
}

/// A page of the linear map, or a larger leaf.
#[derive(Clone, Copy)]
pub(super) struct Page {
    pub(super) va: Va,
    pub(super) pa: Pa,
    pub(super) valid: bool,
    pub(super) writable: bool,
}

/// A read-only mapping outside of the linear map.
#[derive(Clone, Debug)]
struct Alias {
    memory: Range<u64>,
    /// The address of its first byte, and the region.
    va: u64,
    region: Option<Name>,
}

/// Everything that says whose a page is.
pub(super) struct Owners<'s> {
    structures: &'s Structures<'s>,
    page_shift: u32,
    image: Option<Range<Pa>>,
    pool: Range<u64>,
    crash_kernels: Vec<Range<u64>>,
    secret: Option<(Secret, u64)>,
    /// Modules and BPF, by address.
    areas: Vec<(Range<u64>, usize)>,
    /// Read-only mappings outside of the linear map, in order of memory.
    aliases: Vec<Alias>,
    pub(super) list: Vec<Owner>,
}

impl Kind {
    pub(super) const fn id(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::Module => "module",
            Self::Bpf => "bpf",
            Self::Kfence => "kfence",
            Self::Secret => "secretmem",
            Self::CrashKernel => "crash_kernel",
            Self::Modules => "modules_region",
            Self::Vmalloc => "vmalloc_region",
            Self::ReadOnly => "read_only",
            Self::Invalid => "invalid",
            Self::Edge => "edge",
            Self::Nobody => "nobody",
        }
    }

    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Image => "the kernel's image",
            Self::Module => "module",
            Self::Bpf => "BPF: packs of programs, programs, trampolines",
            Self::Kfence => "KFENCE's pool",
            Self::Secret => "memfd_secret",
            Self::CrashKernel => "memory for a crash kernel",
            Self::Modules => "code or constants in the region of modules",
            Self::Vmalloc => "code or constants in vmalloc, such as BPF programs",
            Self::ReadOnly => "read-only, by an unknown user",
            Self::Invalid => "taken out of the map, by an unknown user",
            Self::Edge => "edges of memory, or memory that is not mapped",
            Self::Nobody => "nobody: alike, and in pages as the kernel maps all RAM so",
        }
    }
}

impl By {
    pub(super) const fn text(self) -> &'static str {
        match self {
            Self::Lists => "the kernel's lists",
            Self::Place => "its place",
            Self::Nothing => "",
        }
    }
}

impl<'s> Owners<'s> {
    pub(super) fn of(
        view: &View<'_>,
        image: Option<&Image>,
        regions: &Regions,
        structures: &'s Structures<'s>,
    ) -> Result<Self, Failure> {
        let told = |name: &str| view.kernel.info.as_ref()?.symbol(name);
        let mut owners = Self {
            structures,
            page_shift: view.geometry.page_shift(),
            image: image.map(Image::memory),
            pool: structures.kfence_pool().map_or(0..0, |start| pool(view, start)),
            crash_kernels: structures.crash_kernels(),
            secret: structures.secret().zip(told("vmemmap")),
            areas: Vec::new(),
            aliases: aliases(view, regions)?,
            list: Vec::new(),
        };
        owners.find_areas(view);
        Ok(owners)
    }

    fn find_areas(&mut self, view: &View<'_>) {
        let mut modules = self.structures.modules();
        modules.sort_by(|one, other| one.0.cmp(&other.0));
        for (name, area) in modules {
            let owner = self.number(Owner { kind: Kind::Module, name: Some(name), by: By::Lists });
            self.areas.push((area, owner));
        }
        let packs = self.structures.packs().into_iter().map(|start| start..code_end(view, start));
        let programs = self.structures.programs();
        let page = view.geometry.page_size();
        for area in packs.chain(programs) {
            let owner = self.number(Owner { kind: Kind::Bpf, name: None, by: By::Lists });
            self.areas.push((
                area.start & !(page - 1)..area.end.checked_next_multiple_of(page).unwrap_or(area.end),
                owner,
            ));
        }
        // Programs lie in packs: of two that overlap, one is enough.
        self.areas.sort_by_key(|(area, _)| (area.start, u64::MAX - area.end));
        let mut end = 0;
        self.areas.retain(|(area, _)| {
            let is_new = area.end > end;
            end = end.max(area.end);
            is_new
        });
    }

    /// Returns the number of an owner in the list.
    pub(super) fn number(&mut self, owner: Owner) -> usize {
        let known = self.list.iter().rposition(|known| *known == owner);
        known.unwrap_or_else(|| {
            self.list.push(owner);
            self.list.len() - 1
        })
    }

    /// Returns the owner of a page, as a number; `None` if it is writable and valid, as all RAM is.
    pub(super) fn owner(&mut self, page: Page) -> Option<usize> {
        let Page { va, pa, valid, writable } = page;
        let place = |kind, by| Owner { kind, name: None, by };
        let owner = if self.pool.contains(&va.0) {
            place(Kind::Kfence, By::Lists)
        } else if valid && writable {
            return None;
        } else if self.image.as_ref().is_some_and(|image| image.contains(&pa)) {
            place(Kind::Image, By::Place)
        } else if self.crash_kernels.iter().any(|area| area.contains(&pa.0)) {
            place(Kind::CrashKernel, By::Lists)
        } else if !valid {
            let is_secret =
                |(secret, pages)| self.structures.is_secret(secret, pages, pa.0 >> self.page_shift);
            let is_secret = self.secret.is_some_and(is_secret);
            if is_secret { place(Kind::Secret, By::Lists) } else { place(Kind::Invalid, By::Nothing) }
        } else {
            match self.alias(pa) {
                Some((alias, region)) => match (self.area(alias), region) {
                    (Some(owner), _) => return Some(owner),
                    (None, Some(Name::Modules)) => place(Kind::Modules, By::Place),
                    (None, Some(Name::Kernel)) => place(Kind::Image, By::Place),
                    (None, _) => place(Kind::Vmalloc, By::Place),
                },
                None => place(Kind::ReadOnly, By::Nothing),
            }
        };
        Some(self.number(owner))
    }

    /// Returns another address of some memory, and its region.
    fn alias(&self, pa: Pa) -> Option<(u64, Option<Name>)> {
        let after = self.aliases.partition_point(|alias| alias.memory.start <= pa.0);
        let Alias { memory, va, region } = self.aliases.get(after.checked_sub(1)?)?;
        memory.contains(&pa.0).then(|| (va.wrapping_add(pa.0 - memory.start), *region))
    }

    /// Returns the owner of an address outside of the linear map.
    fn area(&self, va: u64) -> Option<usize> {
        let after = self.areas.partition_point(|(area, _)| area.start <= va);
        let (area, owner) = self.areas.get(after.checked_sub(1)?)?;
        area.contains(&va).then_some(*owner)
    }
}

/// Returns read-only mappings outside of the linear map, in order of memory.
fn aliases(view: &View<'_>, regions: &Regions) -> Result<Vec<Alias>, Failure> {
    let rows = stretches::of(view, view.extent, Permissions::Effective).map_err(Failure::rows(view))?;
    let mut aliases = Vec::new();
    for row in rows {
        let EntryKind::Leaf { oa: Some(oa), attributes, valid: true, .. } = row.what else { continue };
        let region = regions.of_address(row.va);
        if region != Some(Name::Linear) && !attributes.is_writable() {
            let memory = oa.0..oa.0.saturating_add(row.bytes);
            aliases.push(Alias { memory, va: row.va.0, region });
        }
    }
    aliases.sort_by_key(|alias| (alias.memory.start, alias.va));
    Ok(aliases)
}

/// Returns KFENCE's pool: from its start, as far as every second page is a guard.
fn pool(view: &View<'_>, start: u64) -> Range<u64> {
    let page = view.geometry.page_size();
    let is_guard = |va: u64| {
        let path = path(&view.bounded(), view.geometry, view.root, Va(va));
        let last = path.ok().and_then(|path| path.last().map(|found| found.entry));
        matches!(last, Some(Entry::Leaf(leaf)) if !leaf.valid)
    };
    let guards = (1..MAX_POOL).step_by(2).take_while(|index| is_guard(start.wrapping_add(index * page)));
    start..start.saturating_add(guards.last().map_or(0, |last| (last + 1) * page))
}

/// Returns the end of code that begins at an address: a guard page follows each area of vmalloc.
fn code_end(view: &View<'_>, start: u64) -> u64 {
    let page = view.geometry.page_size();
    let is_code = |va: u64| {
        let path = path(&view.bounded(), view.geometry, view.root, Va(va));
        let last = path.ok().and_then(|path| path.last().copied());
        last.is_some_and(|found| match found.entry {
            Entry::Leaf(leaf) => leaf.valid && !found.limits.restrict(leaf.attributes).is_writable(),
            _ => false,
        })
    };
    let pages = (0..MAX_POOL).take_while(|index| is_code(start.wrapping_add(index * page)));
    start.saturating_add(pages.count() as u64 * page)
}

/// Calls `then` with the kernel's structures, as far as symbols and memory are there.
pub(super) fn with_structures<T>(
    view: &View<'_>,
    names: &Names,
    then: impl FnOnce(&Structures<'_>) -> T,
) -> T {
    let info = view.kernel.info.as_ref();
    let symbol = |name: &str| names.address(name).or_else(|| info?.symbol(name));
    let read = |va: u64, into: &mut [u8]| view.tables.is_some_and(|tables| tables.read_virtual(Va(va), into));
    then(&Structures::new(&symbol, &read))
}
