//! Lays out a linear map: RAM, carve-outs and the kernel image become regions. Pure.
//!
//! ```text
//!   upper half of the address space (TTBR1), va_bits wide
//!   +--------------------------------+--------------------------------+--------------+
//!   | linear map: va = pa + offset   | vmalloc-like area              | kernel image |
//!   +--------------------------------+--------------------------------+--------------+
//!   -(1 << va_bits)                  -(1 << va_bits - 1)              top 2 GiB
//! ```
//!
//! The offset makes physical and virtual addresses congruent modulo the largest leaf that fits this RAM, so no block is
//! lost to misalignment.

use core::fmt;
use core::ops::Range;

use crate::format::{Attributes, Geometry, LeafSize, LeafSizes, Level, MemoryType, Pa, Va};
use crate::plan::image_alias::ImageAlias;
use crate::plan::offset;
use crate::plan::ranges::{bytes, clip, down, dropped_bytes, first_after, up};
use crate::plan::region::{Leaves, Region, Run};

/// The protection of read-only kernel memory at its other addresses: the boot argument `rodata=` of Linux, by its older
/// names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Rodata {
    /// Nothing is made read-only.
    Off,
    /// Kernel text and constants are read-only at their own addresses and in the linear map.
    On,
    /// All memory that becomes read-only anywhere in kernel space becomes read-only in the linear map, too.
    #[default]
    Full,
}

impl fmt::Display for Rodata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::On => "on",
            Self::Full => "full",
        })
    }
}

/// The purpose of a list of ranges, in errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// RAM.
    Ram,
    /// Memory that is mapped in pages, and stays so.
    CarveOut,
    /// The kernel's text and constants.
    Image,
    /// The kernel's data and bss.
    Data,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ram => "RAM",
            Self::CarveOut => "carve-out",
            Self::Image => "kernel image",
            Self::Data => "kernel data",
        })
    }
}

/// The reason why ranges do not make a linear map.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// The ranges contain not one whole page of RAM.
    #[error("no RAM: not one whole page in the ranges given")]
    NoRam,
    /// Two ranges share addresses.
    #[error("{} {:?} overlaps {} {:?}; merge them or leave one out", first.0, first.1, second.0, second.1)]
    Overlap {
        /// The lower one.
        first: (Kind, Range<Pa>),
        /// The range that starts before the lower one ends.
        second: (Kind, Range<Pa>),
    },
    /// A carve-out or the image is in RAM that the linear map does not reach.
    #[error("{kind} {range:?} is beyond what the linear map reaches; a larger VA size reaches further")]
    Dropped {
        /// The list that has the range.
        kind: Kind,
        /// The range.
        range: Range<Pa>,
    },
    /// An offset that is not a multiple of the page size, or that puts none of the RAM in the upper half.
    #[error("offset {offset:#x}: not a multiple of {page}, or none of the RAM would be in the upper half")]
    Offset {
        /// The offset that was asked for.
        offset: u64,
        /// The page size in bytes.
        page: u64,
    },
    /// A carve-out or the image is not entirely within one RAM range.
    #[error("{kind} {range:?} is not inside one RAM range")]
    NotRam {
        /// The list that has the range.
        kind: Kind,
        /// The range.
        range: Range<Pa>,
    },
}

/// The regions of a linear map.
///
/// ```
/// use linmap::{Geometry, Granule, Layout, Leaves, OaFormat, Pa, Rodata, Stats};
///
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let mut ram = [Pa(0x4000_0000)..Pa(0x3_4000_0000)]; // 12 GiB from 1 GiB
/// let image = Pa(0x4021_0000)..Pa(0x4024_0000); // text and constants of the kernel
/// let layout = Layout::new(g, &mut ram, &mut [], image, Rodata::Full)?;
///
/// let large = Stats::of_runs(g, layout.runs(Leaves::Largest));
/// let pages = Stats::of_runs(g, layout.runs(Leaves::Pages));
/// assert_eq!(large.bytes(g), 12 << 30);
/// assert_eq!((large.tables, pages.tables), (4, 6158));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layout<'a> {
    geometry: Geometry,
    sizes: LeafSizes,
    offset: u64,
    ram: &'a [Range<Pa>],
    carve_outs: &'a [Range<Pa>],
    image: Range<Pa>,
    rodata: Rodata,
    data: Range<Pa>,
    data_alias: ImageAlias,
    mapped: Range<Pa>,
    unaligned_bytes: u64,
    /// The memory types of RAM and of the image.
    memory_types: (MemoryType, MemoryType),
}

impl<'a> Layout<'a> {
    /// Lays out a linear map.
    ///
    /// - `ram`: the memory to map, without `no-map` ranges, in any order. Adjacent ranges are joined. Ends that are not
    ///   page-aligned move inward; [`unaligned_bytes`](Self::unaligned_bytes) returns the loss.
    /// - `carve_outs`: ranges that are mapped in pages and stay so ([`Attributes::STAYS_SPLIT`]). Ends move outward to page
    ///   boundaries.
    /// - `image`: the kernel's text and constants. They are mapped separately from the memory around them, so that they
    ///   can change without a split, and read-only unless `rodata` is off. May be empty.
    ///
    /// The slices are sorted and changed in place. For n ranges it takes n log n, as do the [regions](Self::regions) of the map.
    ///
    /// # Errors
    ///
    /// No RAM; ranges that overlap; a carve-out or image that is not inside one RAM range or is beyond the half.
    #[inline]
    pub fn new(
        geometry: Geometry,
        ram: &'a mut [Range<Pa>],
        carve_outs: &'a mut [Range<Pa>],
        image: Range<Pa>,
        rodata: Rodata,
    ) -> Result<Self, LayoutError> {
        let page = geometry.page_size();
        let given = ram.iter().fold(0, |sum: u64, r| sum.saturating_add(bytes(r)));
        let ram = sort_and_join(ram, Kind::Ram, |r| up(r.start, page)..down(r.end, page))?;
        let carve_outs = sort_and_join(carve_outs, Kind::CarveOut, |r| down(r.start, page)..up(r.end, page))?;
        let first = ram.first().ok_or(LayoutError::NoRam)?.start;
        let kept: u64 = ram.iter().map(bytes).sum();

        let sizes = geometry.new_leaf_sizes();
        let (offset, mapped) = offset::chosen((geometry, &sizes), ram, first);
        let unaligned_bytes = given.saturating_sub(kept);
        let memory_types = (MemoryType::NORMAL_TAGGED, MemoryType::NORMAL);
        let new = Self {
            geometry,
            sizes,
            offset,
            ram,
            carve_outs,
            image: whole_pages(&image, page),
            rodata,
            data: Pa(0)..Pa(0),
            data_alias: ImageAlias::Writable,
            mapped,
            unaligned_bytes,
            memory_types,
        };
        new.check_specials()?;
        new.check_reach(&new.mapped)?;
        Ok(new)
    }

    /// Lays out RAM alone, without carve-outs. [`with_image`](Self::with_image) adds the kernel's image.
    ///
    /// ```
    /// use linmap::{Geometry, Granule, Layout, OaFormat, Pa, Va};
    ///
    /// let geometry = Geometry::new(Granule::K4, 39, OaFormat::Bits48)?;
    /// let mut ram = [Pa(0x8000_0000)..Pa(0x9000_0000)];
    /// let layout = Layout::of_ram(geometry, &mut ram)?.at(0xffff_ffc0_0000_0000)?;
    /// assert_eq!(layout.va(Pa(0x8000_1000)), Some(Va(0xffff_ffc0_8000_1000)));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new).
    pub fn of_ram(geometry: Geometry, ram: &'a mut [Range<Pa>]) -> Result<Self, LayoutError> {
        Self::new(geometry, ram, &mut [], Pa(0)..Pa(0), Rodata::Off)
    }

    /// Adds the kernel's image: its text and constants, which are read-only in the map as `rodata` says. The same as to
    /// give them to [`new`](Self::new); the offset does not depend on them.
    ///
    /// # Errors
    ///
    /// An image that is not inside one RAM range, overlaps a carve-out, or is beyond the half.
    // Inlined, as the next: otherwise a layout is copied at each step.
    #[inline(always)]
    pub fn with_image(mut self, image: Range<Pa>, rodata: Rodata) -> Result<Self, LayoutError> {
        self.image = whole_pages(&image, self.geometry.page_size());
        self.rodata = rodata;
        self.check_specials()?;
        self.check_reach(&self.mapped)?;
        Ok(self)
    }

    /// Adds the kernel's data and bss, whose alias in the map is as `alias` says. Like text and constants they share no leaf with
    /// the memory around them, so they change and are hidden without a split. Ends move outward to page boundaries. May be
    /// empty.
    ///
    /// Linux 7.2 makes this alias read-only, later releases unmap it: it gave those who can write to some physical address
    /// one that they know.
    ///
    /// # Errors
    ///
    /// Data that is not inside one RAM range, overlaps a carve-out or text and constants, or is beyond the half.
    #[inline(always)]
    pub fn with_data(mut self, data: Range<Pa>, alias: ImageAlias) -> Result<Self, LayoutError> {
        self.data = whole_pages(&data, self.geometry.page_size());
        self.data_alias = alias;
        self.check_specials()?;
        self.check_reach(&self.mapped)?;
        Ok(self)
    }

    /// Returns the kernel's data and bss in whole pages, and what their alias is to be.
    pub const fn data(&self) -> (&Range<Pa>, ImageAlias) {
        (&self.data, self.data_alias)
    }

    /// Returns the ranges with special leaves: these of the carve-outs, the image and its data.
    fn specials<'s>(
        &'s self,
        carve_outs: impl IntoIterator<Item = &'s Range<Pa>>,
    ) -> impl Iterator<Item = (Kind, &'s Range<Pa>)> {
        let carve_outs = carve_outs.into_iter().map(|r| (Kind::CarveOut, r));
        let image = Some((Kind::Image, &self.image)).filter(|(_, r)| !r.is_empty());
        let data = Some((Kind::Data, &self.data)).filter(|(_, r)| !r.is_empty());
        carve_outs.chain(image).chain(data)
    }

    /// Checks that they are in RAM, and that those of the image overlap nothing.
    fn check_specials(&self) -> Result<(), LayoutError> {
        let specials = || self.specials(self.carve_outs);
        let in_ram = |r: &Range<Pa>| self.ram_with(r.start).is_some_and(|ram| r.end <= ram.end);
        if let Some((kind, range)) = specials().find(|(_, r)| !in_ram(r)) {
            return Err(LayoutError::NotRam { kind, range: range.clone() });
        }
        // Carve-outs have been joined where they meet.
        for (n, second) in specials().enumerate().skip(self.carve_outs.len()) {
            let overlaps = |(_, r): &(Kind, &Range<Pa>)| r.start < second.1.end && second.1.start < r.end;
            let named = |(kind, range): (Kind, &Range<Pa>)| (kind, range.clone());
            if let Some(first) = specials().take(n).find(overlaps) {
                return Err(LayoutError::Overlap { first: named(first), second: named(second) });
            }
        }
        Ok(())
    }

    /// Checks that a map of this memory reaches them.
    fn check_reach(&self, mapped: &Range<Pa>) -> Result<(), LayoutError> {
        let beyond = |(_, r): &(Kind, &Range<Pa>)| r.start < mapped.start || mapped.end < r.end;
        match self.specials(self.carve_outs).find(beyond) {
            Some((kind, range)) => Err(LayoutError::Dropped { kind, range: range.clone() }),
            None => Ok(()),
        }
    }

    /// Moves the map to an offset of the caller's choice: the value to add to a physical address, wrapping. The map may
    /// be anywhere in the upper half. Leaves are as large as the alignment of the offset allows. Where the map is not in
    /// [`linear_range`](crate::layout::linear_range), [`Aliased::in_range`](crate::Aliased::in_range) and
    /// [`Checks::linear_range`](crate::read::Checks::linear_range) have to know its [`range`](Self::range).
    ///
    /// # Errors
    ///
    /// An offset that is not a multiple of the page size, or that puts none of the RAM in the upper half; a carve-out
    /// or image that is then beyond the half.
    pub fn at(self, offset: u64) -> Result<Self, LayoutError> {
        let mapped = offset::given(self.geometry, offset);
        let reached = self.ram.iter().any(|range| !clip(range, &mapped).is_empty());
        if offset & (self.geometry.page_size() - 1) != 0 || !reached {
            return Err(LayoutError::Offset { offset, page: self.geometry.page_size() });
        }
        self.check_reach(&mapped)?;
        Ok(Self { offset, mapped, ..self })
    }

    /// Returns the first and the last address of the map: those of the first and the last byte of its RAM.
    pub fn range(&self) -> (Va, Va) {
        let mut mapped =
            self.ram.iter().map(|range| clip(range, &self.mapped)).filter(|range| !range.is_empty());
        let first = mapped.next().unwrap_or(Pa(0)..Pa(0));
        let last = mapped.next_back().unwrap_or(first.clone());
        let va = |pa: u64| Va(pa.wrapping_add(self.offset));
        (va(first.start.0), va(last.end.0.wrapping_sub(1)))
    }

    /// Sets the memory types of RAM and of the kernel image, for a MAIR_EL1 of the caller's own. The defaults are
    /// [`MemoryType::NORMAL_TAGGED`] and [`MemoryType::NORMAL`].
    #[must_use]
    pub const fn with_memory_types(self, ram: MemoryType, image: MemoryType) -> Self {
        Self { memory_types: (ram, image), ..self }
    }

    /// Returns the geometry that the map was laid out for.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the value to add to a physical address to get its address in the linear map, wrapping.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns the RAM ranges: sorted, joined and cut to whole pages.
    pub const fn ram(&self) -> &'a [Range<Pa>] {
        self.ram
    }

    /// Returns the attributes of RAM.
    pub(crate) const fn ram_attributes(&self) -> Attributes {
        Attributes::RAM.of_type(self.memory_types.0)
    }

    /// Returns the physical addresses that the linear map reaches. RAM outside is dropped.
    pub const fn mapped(&self) -> &Range<Pa> {
        &self.mapped
    }

    /// Returns the address of `pa` in the linear map, or `None` if `pa` is not mapped RAM.
    pub fn va(&self, pa: Pa) -> Option<Va> {
        let mapped = self.mapped.contains(&pa) && self.ram_with(pa).is_some();
        mapped.then(|| Va(pa.0.wrapping_add(self.offset)))
    }

    /// Returns the RAM range that contains `pa`.
    fn ram_with(&self, pa: Pa) -> Option<&Range<Pa>> {
        first_after(self.ram, pa).filter(|r| r.start <= pa)
    }

    /// Returns the bytes of RAM in whole pages that are beyond the half or the output addresses, and so not mapped.
    pub fn dropped_bytes(&self) -> u64 {
        dropped_bytes(self.ram, &self.mapped)
    }

    /// Returns the bytes of RAM that are lost because ranges do not start or end at page boundaries.
    pub const fn unaligned_bytes(&self) -> u64 {
        self.unaligned_bytes
    }

    /// Returns the leaves of the map in address order. With [`Leaves::Pages`] only the image's alias has large leaves.
    pub fn runs(&self, leaves: Leaves) -> impl Iterator<Item = Run> {
        self.regions(leaves).flat_map(|region| region.runs_of(&self.sizes))
    }

    /// Returns a number of table pages that no tree of this layout exceeds, the root included: a few numbers are added, and no
    /// run is made. [`Stats::of_runs`](crate::Stats::of_runs) has the exact number.
    pub fn most_tables(&self, leaves: Leaves) -> u64 {
        let (g, bytes_of) = (self.geometry, |ranges: &[Range<Pa>]| ranges.iter().map(bytes).sum::<u64>());
        let of_image = [&self.image, &self.data].map(|range| usize::from(!range.is_empty()));
        let regions = (self.ram.len() + 2 * (self.carve_outs.len() + of_image[0] + of_image[1])) as u64;
        let ram = bytes_of(self.ram);
        let in_pages = if leaves == Leaves::Pages { ram } else { bytes_of(self.carve_outs) };
        // Leaves of levels above this one are not aligned in both address spaces.
        let fits = |size: &&LeafSize| self.offset & (size.bytes() - 1) == 0;
        let first_leaf = self.sizes.iter().find(fits).map_or(Level::PAGE, |size| size.level);
        let (mut level, mut tables) = (g.root(), 1);
        while level != Level::PAGE {
            // An entry of this level is a table where it cannot be a leaf, and at both ends of a region.
            let cut = if level < first_leaf { ram } else { in_pages };
            tables += (cut >> g.level_shift(level)) + 2 * regions;
            level = level.next();
        }
        tables
    }

    /// Returns the regions of the map in address order.
    pub fn regions(&self, leaves: Leaves) -> impl Iterator<Item = Region> {
        let mut ranges = self.ram.iter().map(|r| clip(r, &self.mapped));
        let mut rest = Pa(0)..Pa(0);
        core::iter::from_fn(move || {
            while rest.is_empty() {
                rest = ranges.next()?;
            }
            let (end, kind) = self.piece(&rest);
            let start = core::mem::replace(&mut rest.start, end);
            Some(self.region(start..end, kind, leaves))
        })
    }

    /// Returns the end and the kind of the first piece of a range.
    fn piece(&self, range: &Range<Pa>) -> (Pa, Kind) {
        let mut end = range.end;
        // The carve-outs after the next one begin after it has ended.
        let next = first_after(self.carve_outs, range.start);
        let special = self.specials(next).find_map(|(kind, special)| {
            if range.contains(&special.start) {
                end = end.min(special.start);
            }
            special.contains(&range.start).then(|| (special.end.min(range.end), kind))
        });
        special.unwrap_or((end, Kind::Ram))
    }

    fn region(&self, range: Range<Pa>, kind: Kind, leaves: Leaves) -> Region {
        let (oa, bytes) = (range.start, range.end.0 - range.start.0);
        let va = Va(oa.0.wrapping_add(self.offset));
        let (of_ram, of_image) = self.memory_types;
        let (ram, image) = (Attributes::RAM.of_type(of_ram), Attributes::KERNEL_DATA.of_type(of_image));
        let (attributes, leaves) = match kind {
            Kind::Ram => (ram, leaves),
            Kind::CarveOut => {
                return Region { va, oa, bytes, attributes: ram, leaves: Leaves::Pages }.that_stays();
            }
            Kind::Image if self.rodata == Rodata::Off => (image, Leaves::Largest),
            Kind::Data if self.data_alias != ImageAlias::ReadOnly => (image, Leaves::Largest),
            Kind::Image | Kind::Data => (image.union(Attributes::READ_ONLY), Leaves::Largest),
        };
        Region { va, oa, bytes, attributes, leaves }
    }
}

/// Returns the whole pages of an image. An empty one becomes that at 0.
fn whole_pages(image: &Range<Pa>, page: u64) -> Range<Pa> {
    if image.start.0 >= image.end.0 {
        return Pa(0)..Pa(0);
    }
    down(image.start, page)..up(image.end, page)
}

/// Sorts ranges, joins adjacent ones, cuts each to page boundaries and drops empty ones.
fn sort_and_join(
    ranges: &mut [Range<Pa>],
    kind: Kind,
    cut: impl Fn(&Range<Pa>) -> Range<Pa>,
) -> Result<&[Range<Pa>], LayoutError> {
    ranges.sort_unstable_by_key(|r| r.start);
    let mut kept = 0;
    for i in 0..ranges.len() {
        let next = ranges[i].clone();
        if next.is_empty() {
            continue;
        }
        match ranges[..kept].last_mut() {
            Some(last) if next.start < last.end => {
                return Err(LayoutError::Overlap { first: (kind, last.clone()), second: (kind, next) });
            }
            Some(last) if next.start == last.end => last.end = next.end,
            _ => {
                ranges[kept] = next;
                kept += 1;
            }
        }
    }
    let mut whole = 0;
    for i in 0..kept {
        let cut = cut(&ranges[i]);
        match ranges[..whole].last_mut() {
            _ if cut.is_empty() => {}
            // The two shared a page.
            Some(last) if cut.start <= last.end => last.end = cut.end,
            _ => {
                ranges[whole] = cut;
                whole += 1;
            }
        }
    }
    Ok(&ranges[..whole])
}
