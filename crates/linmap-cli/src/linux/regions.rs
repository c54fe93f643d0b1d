//! The regions of kernel addresses of Linux on arm64: linear map, kernel image, modules, vmalloc, vmemmap, fixmap.
//!
//! The evidence, best first:
//!
//! 1. VMCOREINFO has MODULES, VMALLOC and VMEMMAP from Linux 6.0 on. A saved dump has marker lines instead,
//!    exact to an entry.
//! 2. The release, from 5.11 on (`arch/arm64/include/asm/memory.h`): modules start at the end of the linear map of
//!    the smallest VA size, and take 128M, from 6.5 on 2G; up to 5.16, 128M for BPF come before them. The vmemmap
//!    is a power of two below the top; from 6.9 on it ends at -1G.
//! 3. Without either, only the linear map is known: it starts at the base of the upper half.
//!
//! PAGE_END, the end of the linear map, is half of the *smallest* VA size that the kernel can run with: 48
//! bits for one of 52, or 47 with 16K pages. The start of the fixmap depends on the configuration: up to
//! 16M below its top count as fixmap.

use linmap::{Geometry, Granule, Half, Va};

use super::release::{Release, Version};

/// One use of kernel addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Name {
    /// The linear map: all RAM
    Linear,
    /// The kernel's own text and data
    Kernel,
    /// Modules
    Modules,
    /// vmalloc, ioremap and stacks; the kernel image lies in it
    Vmalloc,
    /// The array of struct page
    Vmemmap,
    /// Fixed mappings: the device tree, the console of early boot
    Fixmap,
}

impl Name {
    const ALL: [Self; 6] =
        [Self::Linear, Self::Kernel, Self::Modules, Self::Vmalloc, Self::Vmemmap, Self::Fixmap];

    /// Returns the region with this name in documents.
    pub(crate) fn of_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.text() == text)
    }

    /// Returns the region with this marker line before it.
    pub(crate) fn of_marker(start: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|name| name.markers().0 == start)
    }

    /// Returns its name on the command line and in documents.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::Kernel => "kernel",
            Self::Modules => "modules",
            Self::Vmalloc => "vmalloc",
            Self::Vmemmap => "vmemmap",
            Self::Fixmap => "fixmap",
        }
    }

    /// Returns its marker lines in a dump: Linux's own if it has some.
    pub(crate) const fn markers(self) -> (&'static str, &'static str) {
        match self {
            Self::Linear => ("Linear Mapping start", "Linear Mapping end"),
            Self::Kernel => ("Kernel image start", "Kernel image end"),
            Self::Modules => ("Modules start", "Modules end"),
            Self::Vmalloc => ("vmalloc() area", "vmalloc() end"),
            Self::Vmemmap => ("vmemmap start", "vmemmap end"),
            Self::Fixmap => ("Fixmap start", "Fixmap end"),
        }
    }
}

/// A region: its first and last address, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: Name,
    pub(crate) first: Va,
    pub(crate) last: Va,
}

impl Region {
    const fn from_to(name: Name, start: u64, end: u64) -> Self {
        Self { name, first: Va(start), last: Va(end.wrapping_sub(1)) }
    }

    pub(crate) fn contains(&self, va: Va) -> bool {
        self.first <= va && va <= self.last
    }
}

/// The evidence for the names of regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Basis {
    /// VMCOREINFO has it.
    Vmcoreinfo,
    /// The marker lines of a saved dump.
    Markers,
    /// This release has this layout.
    Release,
    /// Only the linear map is known.
    Architecture,
}

impl Basis {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Vmcoreinfo => "VMCOREINFO",
            Self::Markers => "the dump's own marker lines",
            Self::Release => "the layout of this release",
            Self::Architecture => "the VA size alone: only the linear map is known",
        }
    }

    /// Reads the evidence in a document; an unknown one stands for marker lines.
    fn of_text(text: &str) -> Self {
        let all = [Self::Vmcoreinfo, Self::Release, Self::Architecture];
        all.into_iter().find(|basis| basis.text() == text).unwrap_or(Self::Markers)
    }
}

/// The known regions in order of address; the kernel image lies in another one and comes last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Regions {
    pub(crate) basis: Basis,
    list: Vec<Region>,
}

/// Facts that a layout is derived from, besides the geometry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hints<'a> {
    pub(crate) release: Option<&'a Release>,
    /// Start and end of modules, vmalloc and vmemmap, from VMCOREINFO.
    pub(crate) modules: Option<(u64, u64)>,
    pub(crate) vmalloc: Option<(u64, u64)>,
    pub(crate) vmemmap: Option<(u64, u64)>,
    /// First and last address of the kernel image, found in the tables.
    pub(crate) kernel: Option<(Va, Va)>,
    /// True if those three come from the marker lines of a saved dump instead.
    pub(crate) is_saved: bool,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// The largest distance from the start of the fixmap to its end.
const FIXMAP: u64 = 16 * MIB;

/// Returns the first and last address of Linux's linear map, with or without RAM there.
pub(crate) fn linear(geometry: Geometry) -> (Va, Va) {
    (Va(geometry.base(Half::Upper)), Va(page_end(geometry) - 1))
}

/// Returns PAGE_END: the end of the linear map.
fn page_end(geometry: Geometry) -> u64 {
    let smallest = match (geometry.va_bits(), geometry.granule()) {
        (0..=48, _) => geometry.va_bits(),
        (_, Granule::K16) => 47,
        _ => 48,
    };
    u64::MAX << (smallest - 1)
}

impl Regions {
    /// Derives the regions of a kernel.
    pub(crate) fn of(geometry: Geometry, hints: &Hints<'_>) -> Self {
        let base = geometry.base(Half::Upper);
        // A range outside of the upper half, or with its ends swapped, is not a region of this kernel.
        let sane = |range: Option<(u64, u64)>| range.filter(|(start, end)| *start >= base && end > start);
        let told = (sane(hints.modules), sane(hints.vmalloc), sane(hints.vmemmap));
        let (basis, list) = match (told, hints.release) {
            ((Some(modules), Some(vmalloc), Some(vmemmap)), _) => {
                let basis = if hints.is_saved { Basis::Markers } else { Basis::Vmcoreinfo };
                (basis, upper(modules, vmalloc, vmemmap))
            }
            (_, Some(release)) if release.version() >= Version(5, 11) => {
                (Basis::Release, by_release(geometry, release.version()))
            }
            _ => (Basis::Architecture, Vec::new()),
        };
        let (first, last) = linear(geometry);
        let mut list: Vec<Region> =
            [Region { name: Name::Linear, first, last }].into_iter().chain(list).collect();
        // The fixmap is below the vmemmap, wherever VMCOREINFO says that is.
        list.retain(|region| region.first.0 >= base);
        list.sort_by_key(|region| region.first);
        let kernel = hints.kernel.map(|(first, last)| Region { name: Name::Kernel, first, last });
        list.extend(kernel);
        Self { basis, list }
    }

    /// Returns the regions of a saved document, by name, with first and last address. Unknown names are left out.
    pub(crate) fn saved(geometry: Geometry, from: &str, list: &[(String, Va, Va)]) -> Self {
        let base = Va(geometry.base(Half::Upper));
        let named = list.iter().filter_map(|(name, first, last)| {
            Some(Region { name: Name::of_text(name)?, first: *first, last: *last })
        });
        let mut list: Vec<Region> = named.filter(|region| region.first >= base).collect();
        list.sort_by_key(|region| (region.name == Name::Kernel, region.first));
        Self { basis: Basis::of_text(from), list }
    }

    /// Returns all regions in order of address, the kernel image last.
    pub(crate) fn all(&self) -> &[Region] {
        &self.list
    }

    /// Returns the region of this name, if it is known.
    pub(crate) fn get(&self, name: Name) -> Option<Region> {
        self.list.iter().find(|region| region.name == name).copied()
    }

    /// Returns the region of an address: the kernel image before the region that it lies in.
    pub(crate) fn of_address(&self, va: Va) -> Option<Name> {
        self.list.iter().rev().find(|region| region.contains(va)).map(|region| region.name)
    }

    /// Returns the name of the region of an address, or `unknown`.
    pub(crate) fn name_at(&self, va: Va) -> &'static str {
        self.of_address(va).map_or("unknown", Name::text)
    }
}

/// Returns everything above the linear map.
fn upper(modules: (u64, u64), vmalloc: (u64, u64), vmemmap: (u64, u64)) -> Vec<Region> {
    let fixmap_top = if vmemmap.1 == GIB.wrapping_neg() {
        (8 * MIB).wrapping_neg()
    } else {
        vmemmap.0.saturating_sub(32 * MIB)
    };
    vec![
        Region::from_to(Name::Modules, modules.0, modules.1),
        Region::from_to(Name::Vmalloc, vmalloc.0, vmalloc.1),
        Region::from_to(Name::Vmemmap, vmemmap.0, vmemmap.1),
        Region::from_to(Name::Fixmap, fixmap_top.saturating_sub(FIXMAP), fixmap_top),
    ]
}

/// Returns the layout of a release, for kernels whose VMCOREINFO lacks it.
fn by_release(geometry: Geometry, version: Version) -> Vec<Region> {
    let (base, end) = (geometry.base(Half::Upper), page_end(geometry));
    let bpf = if version < Version(5, 17) { 128 * MIB } else { 0 };
    let size = if version < Version(6, 5) { 128 * MIB } else { 2 * GIB };
    let modules = (end + bpf, end + bpf + size);
    // A struct page takes 64 bytes.
    let pages_to_bytes = geometry.page_shift() - 6;
    let bytes = (end - base) >> pages_to_bytes;
    let (vmemmap, gap) = if version < Version(6, 9) {
        let start = u64::MAX << (geometry.va_bits() - pages_to_bytes);
        ((start, start + bytes), 256 * MIB)
    } else {
        let end = GIB.wrapping_neg();
        ((end - bytes, end), 8 * MIB)
    };
    upper(modules, (modules.1, vmemmap.0 - gap), vmemmap)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linmap::OaFormat;
    use test_support::prelude::*;

    fn geometry(granule: Granule, va_bits: u32) -> Geometry {
        let format = match (granule, va_bits) {
            (_, 0..=48) => OaFormat::Bits48,
            (Granule::K64, _) => OaFormat::Lpa,
            _ => OaFormat::Lpa2,
        };
        Geometry::new(granule, va_bits, format).unwrap()
    }

    fn of_release(name: &str, geometry: Geometry) -> Regions {
        let release = Release::parse(name);
        Regions::of(geometry, &Hints { release: release.as_ref(), ..Hints::default() })
    }

    fn at(regions: &Regions, name: Name) -> (u64, u64) {
        regions.get(name).map(|region| (region.first.0, region.last.0)).expect("a region")
    }

    /// The table of `Documentation/arm64/memory.rst` in 6.1.
    #[test]
    fn linux_6_1_with_48_bits() {
        let regions = of_release("6.1.0-40-arm64", geometry(Granule::K4, 48));
        assert_eq!(regions.basis, Basis::Release);
        assert_eq!(at(&regions, Name::Linear), (0xffff_0000_0000_0000, 0xffff_7fff_ffff_ffff));
        assert_eq!(at(&regions, Name::Modules), (0xffff_8000_0000_0000, 0xffff_8000_07ff_ffff));
        assert_eq!(at(&regions, Name::Vmalloc), (0xffff_8000_0800_0000, 0xffff_fbff_efff_ffff));
        assert_eq!(at(&regions, Name::Vmemmap), (0xffff_fc00_0000_0000, 0xffff_fdff_ffff_ffff));
        assert_eq!(at(&regions, Name::Fixmap).1, 0xffff_fbff_fdff_ffff);
    }

    /// The table of `Documentation/arch/arm64/memory.rst` in 6.12.
    #[test]
    fn linux_6_12_with_48_and_52_bits() {
        let regions = of_release("6.12.48+deb13-arm64", geometry(Granule::K4, 48));
        assert_eq!(at(&regions, Name::Modules), (0xffff_8000_0000_0000, 0xffff_8000_7fff_ffff));
        assert_eq!(at(&regions, Name::Vmalloc), (0xffff_8000_8000_0000, 0xffff_fdff_bf7f_ffff));
        assert_eq!(at(&regions, Name::Vmemmap), (0xffff_fdff_c000_0000, 0xffff_ffff_bfff_ffff));
        assert_eq!(at(&regions, Name::Fixmap).1, 0xffff_ffff_ff7f_ffff);
        let wide = of_release("6.12.48+deb13-arm64", geometry(Granule::K4, 52));
        assert_eq!(at(&wide, Name::Linear), (0xfff0_0000_0000_0000, 0xffff_7fff_ffff_ffff));
        assert_eq!(at(&wide, Name::Modules).0, 0xffff_8000_0000_0000);
        assert_eq!(at(&wide, Name::Vmemmap), (0xffff_c1ff_c000_0000, 0xffff_ffff_bfff_ffff));
        assert_eq!(linear(geometry(Granule::K16, 52)).1.0, 0xffff_bfff_ffff_ffff);
    }

    #[test]
    fn what_vmcoreinfo_says_goes_first_and_the_image_before_what_it_lies_in() {
        let g = geometry(Granule::K4, 48);
        let release = Release::parse("6.1.0-40-arm64");
        let hints = Hints {
            release: release.as_ref(),
            modules: Some((0xffff_8000_0000_0000, 0xffff_8000_1000_0000)),
            vmalloc: Some((0xffff_8000_1000_0000, 0xffff_fdff_bf80_0000)),
            vmemmap: Some((0xffff_fdff_c000_0000, 0xffff_ffff_c000_0000)),
            kernel: Some((Va(0xffff_8000_1001_0000), Va(0xffff_8000_1100_ffff))),
            is_saved: false,
        };
        let regions = Regions::of(g, &hints);
        assert_eq!(regions.basis, Basis::Vmcoreinfo);
        assert_eq!(at(&regions, Name::Modules).1, 0xffff_8000_0fff_ffff);
        let names = [
            (0xffff_0000_4000_0000, "linear"),
            (0xffff_8000_0000_1000, "modules"),
            (0xffff_8000_1000_0000, "vmalloc"),
            (0xffff_8000_1001_0000, "kernel"),
            (0xffff_8000_1101_0000, "vmalloc"),
            (0xffff_fdff_c000_0000, "vmemmap"),
            (0xffff_ffff_ff00_0000, "fixmap"),
            (0xffff_ffff_ffff_f000, "unknown"),
            (0x1000, "unknown"),
        ];
        for (va, name) in names {
            assert_eq!(regions.name_at(Va(va)), name, "{va:#x}");
        }
    }

    #[test]
    fn without_a_word_of_the_kernel_only_the_linear_map_is_known() {
        let g = geometry(Granule::K64, 42);
        for regions in [Regions::of(g, &Hints::default()), of_release("4.19.0", g)] {
            assert_eq!((regions.basis, regions.all().len()), (Basis::Architecture, 1));
        }
        // Ends swapped, or not the kernel's addresses.
        let hints = Hints {
            modules: Some((u64::MAX, 1)),
            vmalloc: Some((0, 4096)),
            vmemmap: Some((1 << 63, 1 << 63)),
            ..Hints::default()
        };
        assert_eq!(Regions::of(g, &hints).basis, Basis::Architecture);
    }

    /// Two offsets from the base, often small; nothing is told if the last is false.
    fn range() -> impl Strategy<Value = (u64, u64, u32, bool)> {
        (any::<u64>(), any::<u64>(), 12u32..56, prop::bool::weighted(0.9))
    }

    fn claim((a, b, shift, is_above): (u64, u64, u32, bool), base: u64) -> Option<(u64, u64)> {
        let (a, b) = (base.saturating_add(a >> shift), base.saturating_add(b >> shift));
        is_above.then(|| (a.min(b), a.max(b)))
    }

    proptest! {
        /// No claim of VMCOREINFO leads out of the upper half.
        #[test]
        fn regions_are_in_the_upper_half_in_order(
            modules in range(), vmalloc in range(), vmemmap in range(), place: prop::sample::Index, bits in 36u32..=52,
            major in 0u32..9, minor in 0u32..20,
        ) {
            let release = Release::parse(&format!("{major}.{minor}"));
            for granule in Granule::ALL {
                let g = geometry(granule, bits);
                let told = |range| claim(range, g.base(Half::Upper));
                let (modules, vmalloc, vmemmap) = (told(modules), told(vmalloc), told(vmemmap));
                let hints = Hints { release: release.as_ref(), modules, vmalloc, vmemmap, ..Hints::default() };
                let regions = Regions::of(g, &hints);
                let base = Va(g.base(Half::Upper));
                prop_assert!(regions.all().iter().all(|region| base <= region.first && region.first <= region.last));
                prop_assert!(regions.all().is_sorted_by_key(|region| region.first));
                let claims = [(Name::Modules, modules), (Name::Vmalloc, vmalloc), (Name::Vmemmap, vmemmap)];
                let is_sane = |claim: Option<(u64, u64)>| claim.is_some_and(|(start, end)| base.0 <= start && start < end);
                let is_told = claims.iter().all(|(_, claim)| is_sane(*claim));
                prop_assert_eq!(regions.basis == Basis::Vmcoreinfo, is_told);
                for (name, claim) in claims.into_iter().filter(|_| is_told) {
                    prop_assert_eq!(Some(at(&regions, name)), claim.map(|(start, end)| (start, end - 1)));
                }
                // An address is of a region that has it.
                let region = regions.all()[place.index(regions.all().len())];
                for va in [region.first, region.last] {
                    let name = regions.of_address(va).expect("a region");
                    prop_assert!(regions.get(name).is_some_and(|region| region.contains(va)));
                }
                prop_assert_eq!(regions.of_address(Va(base.0 - 1)), None);
            }
        }
    }
}
