//! The parts of a tree, judged before tables are made for them: runs of any origin, or regions.

use core::ops::Range;

use crate::build::error::BuildError;
use crate::format::{Attributes, Geometry, Half, Level, Pa, Unaligned, Va};
use crate::plan::{Leaves, Region, Run};

/// Memory that is mapped linearly, with one set of attributes: a region or a run.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// The first address, relative to the base of the half.
    pub(super) offset: u64,
    /// The output address of the first one.
    pub(super) oa: u64,
    /// The length in bytes, in whole leaves.
    pub(super) bytes: u64,
    pub(super) attributes: Attributes,
    /// The first level that may have its leaves. The largest that fit are made.
    pub(super) first_leaf: Level,
    /// True if contiguous runs are made of them where they fit.
    pub(super) in_runs: bool,
}

impl Part {
    /// Leaves out so many bytes at its start.
    #[inline(always)]
    pub(super) const fn skip(&mut self, bytes: u64) {
        self.offset += bytes;
        self.oa += bytes;
        self.bytes -= bytes;
    }
}

/// Where the next part of a tree may be.
pub(super) struct Place {
    /// The first address of the half.
    base: u64,
    /// The bytes of the half, and of the output addresses.
    sizes: (u64, u64),
    /// The start of the first part, relative to the base of the half.
    first: Option<u64>,
    /// The lowest address at which the next part may start, relative to the base of the half.
    next: u64,
}

impl Place {
    const fn new(geometry: Geometry, half: Half) -> Self {
        let sizes = (1 << geometry.va_bits(), 1 << geometry.oa_bits());
        Self { base: geometry.base(half), sizes, first: None, next: 0 }
    }

    /// Returns the slots of the root, whose entries span 2^`shift` bytes, from the first to the last that is used.
    #[inline(always)]
    pub(super) const fn root_slots(&self, shift: u32) -> Range<usize> {
        let end = 1u64 << shift;
        match self.first {
            Some(first) => (first >> shift) as usize..((self.next + end - 1) >> shift) as usize,
            None => 0..0,
        }
    }

    /// Returns the start of a part, relative to the base of the half, and the number of bytes that are left from there on, of
    /// addresses as of output addresses.
    #[inline]
    fn room(&self, va: Va, oa: Pa) -> Result<(u64, u64), BuildError> {
        let (offset, (addresses, outputs)) = (va.0.wrapping_sub(self.base), self.sizes);
        let room = addresses.checked_sub(offset).ok_or(BuildError::OutOfRange { va })?;
        if offset < self.next {
            return Err(BuildError::Unordered { va });
        }
        let oa_room = outputs.checked_sub(oa.0).ok_or(BuildError::OutOfRange { va })?;
        Ok((offset, room.min(oa_room)))
    }

    #[inline]
    fn used(&mut self, offset: u64, bytes: u64) {
        self.first.get_or_insert(offset);
        self.next = offset + bytes;
    }
}

/// Iterator over runs that checks each against the geometry and the run before it.
pub(super) struct RunsInOrder<I> {
    runs: I,
    geometry: Geometry,
    pub(super) place: Place,
    /// The first address that is both writable and executable.
    pub(super) write_execute: Option<Va>,
}

impl<I> RunsInOrder<I> {
    pub(super) const fn new(runs: I, geometry: Geometry, half: Half) -> Self {
        Self { runs, geometry, place: Place::new(geometry, half), write_execute: None }
    }
}

impl<I: Iterator<Item = Run>> Iterator for RunsInOrder<I> {
    type Item = Result<Part, BuildError>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.runs.next()?;
        Some(self.check(run))
    }
}

impl<I> RunsInOrder<I> {
    /// Judges the next run.
    #[inline(always)]
    pub(super) fn check(&mut self, run: Run) -> Result<Part, BuildError> {
        let (g, va) = (self.geometry, run.va);
        let (offset, room) = self.place.room(va, run.oa)?;
        let members = if run.contiguous { g.run_to_make(run.level) as u64 } else { 1 };
        if !g.makes_leaf(run.level) || run.descriptors == 0 || (run.contiguous && members == 1) {
            return Err(BuildError::NotALeaf { va, level: run.level });
        }
        let shift = g.level_shift(run.level);
        let leaf = members << shift;
        if (va.0 | run.oa.0) & (leaf - 1) | run.descriptors & (members - 1) != 0 {
            return Err(BuildError::Unaligned { va, unaligned: unaligned(&run, leaf, 1 << shift), leaf });
        }
        if run.descriptors > room >> shift {
            return Err(BuildError::OutOfRange { va });
        }
        let Run { oa, level, contiguous, attributes, .. } = run;
        let bytes = run.descriptors << shift;
        self.place.used(offset, bytes);
        // Most runs are not executable, so that is tested first.
        if attributes.is_executable() && attributes.is_writable() {
            self.write_execute.get_or_insert(va);
        }
        Ok(Part { offset, oa: oa.0, bytes, attributes, first_leaf: level, in_runs: contiguous })
    }
}

/// Returns what is not aligned of a run with leaves of `leaf` bytes and descriptors of `entry` bytes.
#[cold]
fn unaligned(run: &Run, leaf: u64, entry: u64) -> Unaligned {
    if run.va.0 & (leaf - 1) != 0 {
        Unaligned::Va(run.va)
    } else if run.oa.0 & (leaf - 1) != 0 {
        Unaligned::Pa(run.oa)
    } else {
        Unaligned::Size(run.descriptors.saturating_mul(entry))
    }
}

/// Iterator over regions that checks each against the geometry and the region before it.
pub(super) struct RegionsInOrder<I> {
    regions: I,
    page_size: u64,
    /// The first level at which leaves are made.
    first_leaf: Level,
    pub(super) place: Place,
    /// The first address that is both writable and executable.
    pub(super) write_execute: Option<Va>,
}

impl<I> RegionsInOrder<I> {
    pub(super) const fn new(regions: I, geometry: Geometry, half: Half) -> Self {
        let (page_size, first_leaf) = (geometry.page_size(), geometry.first_level_to_make());
        Self { regions, page_size, first_leaf, place: Place::new(geometry, half), write_execute: None }
    }

    fn check(&mut self, region: Region) -> Result<Part, BuildError> {
        let Region { va, oa, attributes, .. } = region;
        let (offset, room) = self.place.room(va, oa)?;
        let mut bytes = region.bytes & !(self.page_size - 1);
        if bytes > room {
            // What goes beyond the last address is cut off.
            bytes = region.up_to_last_address().bytes & !(self.page_size - 1);
            if bytes > room {
                return Err(BuildError::OutOfRange { va });
            }
        }
        self.place.used(offset, bytes);
        if attributes.is_write_execute() {
            self.write_execute.get_or_insert(va);
        }
        let (first_leaf, in_runs) = match region.leaves {
            Leaves::Largest => (self.first_leaf, true),
            Leaves::Pages => (Level::PAGE, false),
        };
        Ok(Part { offset, oa: oa.0, bytes, attributes, first_leaf, in_runs })
    }
}

impl<I: Iterator<Item = Region>> Iterator for RegionsInOrder<I> {
    type Item = Result<Part, BuildError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let page = self.page_size;
        loop {
            let region = self.regions.next()?;
            // A region that does not start at a page, or has none, has no leaves.
            if (region.va.0 | region.oa.0) & (page - 1) == 0 && region.bytes >= page {
                return Some(self.check(region));
            }
        }
    }
}
