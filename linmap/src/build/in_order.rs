//! The parts of a tree, judged before tables are made for them: runs of any origin, or regions, whose runs are right if the
//! regions are.

use core::ops::Range;

use crate::build::error::BuildError;
use crate::format::{Geometry, Half, LeafSizes, Unaligned, Va};
use crate::plan::{Region, Run};

/// Where the next part of a tree may be.
pub(super) struct Place {
    /// The first address of the half.
    base: u64,
    /// The start of the first part, relative to the base of the half.
    first: Option<u64>,
    /// The lowest address at which the next part may start, relative to the base of the half.
    next: u64,
}

impl Place {
    const fn new(geometry: Geometry, half: Half) -> Self {
        Self { base: geometry.base(half), first: None, next: 0 }
    }

    /// Returns the slots of the root from the first to the last that is used.
    pub(super) fn root_slots(&self, geometry: Geometry) -> Range<usize> {
        let shift = geometry.level_shift(geometry.root());
        let end = 1u64 << shift;
        match self.first {
            Some(first) => (first >> shift) as usize..((self.next + end - 1) >> shift) as usize,
            None => 0..0,
        }
    }

    /// Returns the start of a part, relative to the base of the half, and the number of bytes that are left from there on.
    #[inline]
    fn room(&self, g: Geometry, va: Va) -> Result<(u64, u64), BuildError> {
        let offset = va.0.wrapping_sub(self.base);
        let room = (1u64 << g.va_bits()).checked_sub(offset).ok_or(BuildError::OutOfRange { va })?;
        if offset < self.next { Err(BuildError::Unordered { va }) } else { Ok((offset, room)) }
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
}

impl<I> RunsInOrder<I> {
    pub(super) const fn new(runs: I, geometry: Geometry, half: Half) -> Self {
        Self { runs, geometry, place: Place::new(geometry, half) }
    }
}

impl<I: Iterator<Item = Run>> Iterator for RunsInOrder<I> {
    type Item = Result<Run, BuildError>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.runs.next()?;
        Some(self.check(run).map(|()| run))
    }
}

impl<I> RunsInOrder<I> {
    fn check(&mut self, run: Run) -> Result<(), BuildError> {
        let (g, va) = (self.geometry, run.va);
        let (offset, room) = self.place.room(g, va)?;
        let members = if run.contiguous { g.run_to_make(run.level) as u64 } else { 1 };
        if !g.makes_leaf(run.level) || run.descriptors == 0 || (run.contiguous && members == 1) {
            return Err(BuildError::NotALeaf { va, level: run.level });
        }
        let shift = g.level_shift(run.level);
        let leaf = members << shift;
        if (va.0 | run.oa.0) & (leaf - 1) | run.descriptors & (members - 1) != 0 {
            return Err(BuildError::Unaligned { va, unaligned: unaligned(&run, leaf, 1 << shift), leaf });
        }
        let oa_room = (1u64 << g.oa_bits()).checked_sub(run.oa.0).ok_or(BuildError::OutOfRange { va })?;
        if run.descriptors > room.min(oa_room) >> shift {
            return Err(BuildError::OutOfRange { va });
        }
        self.place.used(offset, run.descriptors << shift);
        Ok(())
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

/// Iterator over the runs of regions. It checks each region against the geometry and the region before it.
pub(super) struct RegionsInOrder<'s, I> {
    regions: I,
    geometry: Geometry,
    sizes: &'s LeafSizes,
    /// The rest of the current region.
    rest: Region,
    pub(super) place: Place,
    /// The first address that is both writable and executable.
    pub(super) write_execute: Option<Va>,
}

impl<'s, I> RegionsInOrder<'s, I> {
    /// The leaf sizes are those that the geometry makes.
    pub(super) const fn new(regions: I, geometry: Geometry, sizes: &'s LeafSizes, half: Half) -> Self {
        let (rest, place) = (Region::NONE, Place::new(geometry, half));
        Self { regions, geometry, sizes, rest, place, write_execute: None }
    }

    fn check(&mut self, region: Region) -> Result<(), BuildError> {
        let (g, Region { va, oa, bytes, .. }) = (self.geometry, region);
        let (offset, room) = self.place.room(g, va)?;
        let oa_room = (1u64 << g.oa_bits()).checked_sub(oa.0).ok_or(BuildError::OutOfRange { va })?;
        let bytes = bytes & !(g.page_size() - 1);
        if bytes > room.min(oa_room) {
            return Err(BuildError::OutOfRange { va });
        }
        self.place.used(offset, bytes);
        if region.attributes.is_write_execute() {
            self.write_execute.get_or_insert(va);
        }
        Ok(())
    }
}

impl<I: Iterator<Item = Region>> RegionsInOrder<'_, I> {
    /// Goes on to the next region. Out of line, so that the runs of a region cost what they need.
    #[inline(never)]
    fn next_region(&mut self) -> Option<Result<(), BuildError>> {
        self.rest = self.regions.next()?.up_to_last_address();
        let Region { va, oa, bytes, .. } = self.rest;
        // A region that does not start at a page, or has none, has no leaves.
        let page = self.geometry.page_size();
        let has_leaves = (va.0 | oa.0) & (page - 1) == 0 && bytes >= page;
        Some(if has_leaves { self.check(self.rest) } else { Ok(()) })
    }
}

impl<I: Iterator<Item = Region>> Iterator for RegionsInOrder<'_, I> {
    type Item = Result<Run, BuildError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(run) = self.rest.take_run(self.sizes) {
                return Some(Ok(run));
            }
            if let Err(error) = self.next_region()? {
                return Some(Err(error));
            }
        }
    }
}
