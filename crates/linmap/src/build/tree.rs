//! A whole tree of tables, built off line in plain memory that no walker can reach.

use core::ops::{ControlFlow, Range};

use crate::build::builder::Builder;
use crate::build::copy::{Copy, count_tables};
use crate::build::error::BuildError;
use crate::build::fill;
use crate::build::give_back::give_back;
use crate::build::in_order::{RegionsInOrder, RunsInOrder};
use crate::format::{Entry, Geometry, Half, Level, Pa, Span, TableAttributes, Va};
use crate::plan::{Region, Run, Stats};
use crate::platform::{Frame, Memory};
use crate::read::{Live, Table, count_live, translated, visit};

/// A tree that no walker can reach. It owns all of its table pages.
///
/// Publish it with [`SharedSpace`](crate::SharedSpace), or [`discard`](Self::discard) it. Dropping it leaks its
/// pages.
#[must_use = "a dropped tree leaks its table pages: publish or discard it"]
#[derive(Debug)]
pub struct Tree {
    root: Frame,
    geometry: Geometry,
    half: Half,
    stats: Stats,
    /// The slots of the root from the first to the last that is used.
    used: Range<usize>,
    /// The first address that is both writable and executable.
    write_execute: Option<Va>,
}

impl Tree {
    /// Builds an empty tree: a root table of holes.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size; out of frames.
    // Inlined, as what builds others, so that a tree is written where it stays.
    #[inline(always)]
    pub fn empty<M: Memory>(memory: &M, geometry: Geometry, half: Half) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let mut root = memory.take().ok_or(BuildError::OutOfFrames { taken: 0 })?;
        let entries = geometry.entries(geometry.root());
        memory.with_slots(&mut root, geometry.root(), |slots| fill::holes(&mut slots[..entries]));
        Ok(Self { root, geometry, half, stats: Stats::ROOT, used: 0..0, write_execute: None })
    }

    /// Builds the tables that map `runs`, which must be in ascending address order within `half`.
    ///
    /// Without runs the tree is [empty](Self::empty). The cost is one store for each slot of each table page, in one
    /// pass.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size; out of frames; a run that is unordered, misaligned or
    /// outside the half. Every frame has then been given back.
    #[inline]
    pub fn build<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        Self::build_with(memory, geometry, half, TableAttributes::empty(), runs)
    }

    /// Builds a tree as [`build`](Self::build) does, whose table descriptors have these attributes: the restrictions among
    /// them as far as they remove nothing from what is mapped below.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build).
    #[inline]
    pub fn build_with<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        tables: TableAttributes,
        runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let shift = geometry.level_shift(geometry.root());
        let mut builder = Builder::new(memory, geometry, tables, RunsInOrder::new(runs, geometry, half));
        let root = builder.build((geometry.root(), shift), 0)?;
        let (used, write_execute) = (builder.parts.place.root_slots(shift), builder.parts.write_execute);
        Ok(Self { root, geometry, half, stats: builder.stats(), used, write_execute })
    }

    /// Returns an error if the memory's pages are not of the geometry's page size.
    pub(crate) fn fits<M: Memory>(memory: &M, geometry: Geometry) -> Result<(), BuildError> {
        let (memory, tables) = (memory.page_size(), geometry.page_size());
        if memory == tables { Ok(()) } else { Err(BuildError::PageSize { memory, tables }) }
    }

    /// Builds the tables that map `regions`, which must be in ascending address order within `half`.
    ///
    /// It takes fewer instructions than to [build](Self::build) the regions' runs.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build). A region that does not start at a page maps nothing.
    pub fn build_regions<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        regions: impl IntoIterator<Item = Region>,
    ) -> Result<Self, BuildError> {
        Self::of_regions(memory, geometry, half, TableAttributes::empty(), regions.into_iter())
    }

    /// Builds a tree as [`build_with`](Self::build_with) does, that maps these regions.
    // Inlined, as what is done with it: otherwise the tree is copied at each step.
    #[inline(always)]
    pub(crate) fn of_regions<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        tables: TableAttributes,
        regions: impl Iterator<Item = Region>,
    ) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let parts = RegionsInOrder::new(regions, geometry, half);
        let mut builder = Builder::new(memory, geometry, tables, parts);
        let shift = geometry.level_shift(geometry.root());
        let root = builder.build((geometry.root(), shift), 0)?;
        let (used, write_execute) = (builder.parts.place.root_slots(shift), builder.parts.write_execute);
        Ok(Self { root, geometry, half, stats: builder.stats(), used, write_execute })
    }

    /// Builds the table at `level` that starts at `base`, and all below it, for a region that lies within it.
    pub(crate) fn subtree<M: Memory>(
        memory: &M,
        geometry: Geometry,
        (half, level, base): (Half, Level, u64),
        tables: TableAttributes,
        region: Region,
    ) -> Result<(Frame, Stats), BuildError> {
        let parts = RegionsInOrder::new(core::iter::once(region), geometry, half);
        let mut builder = Builder::new(memory, geometry, tables, parts);
        let shift = geometry.level_shift(level);
        let table = builder.build((level, shift), base.wrapping_sub(geometry.base(half)))?;
        Ok((table, builder.stats()))
    }

    /// Builds a copy of the entries that translate addresses of a range, from live tables that can all be read, and of the
    /// tables that lead to them. A leaf or run that is partly in the range is copied as a whole.
    pub(crate) fn copy_of<M: Memory>(
        memory: &M,
        tables: Live<'_, M>,
        (root, geometry, half): (Pa, Geometry, Half),
        range: (Va, Va),
    ) -> Result<Self, BuildError> {
        let Some((from, span)) = copied((root, geometry, half), range) else {
            return Self::empty(memory, geometry, half);
        };
        let (stats, write_execute, is_out_of_frames) = (Stats::EMPTY, None, false);
        let mut copy = Copy { memory, tables, geometry, span, stats, write_execute, is_out_of_frames };
        let (first, last) = copy.copied(&from);
        let root = copy.table(&from).ok_or(BuildError::OutOfFrames { taken: 0 })?;
        let Copy { stats, write_execute, .. } = copy;
        if copy.is_out_of_frames {
            give_back(memory, geometry, geometry.root(), root, &mut |_, _| {});
            return Err(BuildError::OutOfFrames { taken: stats.tables });
        }
        Ok(Self { root, geometry, half, stats, used: first..last + 1, write_execute })
    }

    /// Returns the number of table pages that such a copy takes.
    pub(crate) fn tables_of_copy<M: Memory>(
        tables: &Live<'_, M>,
        of: (Pa, Geometry, Half),
        range: (Va, Va),
    ) -> u64 {
        copied(of, range).map_or(1, |(from, span)| count_tables(tables, &from, (span, of.1)))
    }

    /// Returns the counts of the tree's leaves and tables.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Returns the physical address of the root table, for a TTBR.
    pub const fn root(&self) -> Pa {
        self.root.pa()
    }

    /// Calls `work` with the entries of the root.
    pub(crate) fn with_root_entries<M: Memory, R>(
        &mut self,
        memory: &M,
        work: impl FnOnce(&mut [u64]) -> R,
    ) -> R {
        memory.with_slots(&mut self.root, self.geometry.root(), work)
    }

    /// Returns the slots of the root that may be used. All others are holes.
    pub(crate) fn used(&self) -> Range<usize> {
        self.used.clone()
    }

    /// Returns the first address that is both writable and executable, if there is one.
    pub const fn write_execute(&self) -> Option<Va> {
        self.write_execute
    }

    /// Returns the geometry of the tree.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Returns the half that the tree translates.
    pub const fn half(&self) -> Half {
        self.half
    }

    /// Gives all of its table pages back to `memory`, depth first.
    pub fn discard<M: Memory>(self, memory: &M) {
        give_back(memory, self.geometry, self.geometry.root(), self.root, &mut |_, _| {});
    }

    /// Gives up ownership of the tables and returns the root, for example before it is loaded into a TTBR.
    pub fn into_root(self) -> Frame {
        self.root
    }

    /// Takes back a tree that walkers could reach until now. Its mappings are not inspected.
    ///
    /// # Safety
    ///
    /// - `root` is the root of a tree that [`into_root`](Self::into_root) gave up, of this geometry.
    /// - No walker can reach any of its tables, and no TLB holds an entry of them: TTBR changed, ISB, TLBI, DSB.
    pub unsafe fn from_root(root: Frame, geometry: Geometry, half: Half) -> Self {
        let used = 0..geometry.entries(geometry.root());
        Self { root, geometry, half, stats: Stats::EMPTY, used, write_execute: None }
    }

    /// Takes back tables that were live. Reads all of them once.
    ///
    /// # Safety
    ///
    /// As for [`from_root`](Self::from_root). The tables are pages of this memory and belong to the caller.
    pub(crate) unsafe fn of_live<M: Memory>(
        memory: &M,
        (root, geometry, half): (Pa, Geometry, Half),
    ) -> Self {
        // SAFETY: these are tables of this memory, and no walker uses them.
        let tables = unsafe { Live::new(memory) };
        let base = geometry.base(half);
        let whole = (Va(base), Va(base + ((1 << geometry.va_bits()) - 1)));
        let stats = count_live(&tables, geometry, root, whole);
        let mut write_execute = None;
        let found = visit(&tables, geometry, root, whole, |visited| match visited.entry {
            Entry::Leaf(leaf) if leaf.valid && leaf.attributes.is_write_execute() => {
                write_execute = Some(visited.va);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        _ = found.unwrap_or_else(|e| match e {});
        // SAFETY: the caller promises that no walker reaches the root, and that the caller owns it.
        let mut root = unsafe { Frame::from_pa(root) };
        let used = memory.with_slots(&mut root, geometry.root(), |slots| {
            let slots = &slots[..geometry.entries(geometry.root())];
            let first = slots.iter().position(|&bits| bits != 0);
            let last = slots.iter().rposition(|&bits| bits != 0);
            first.zip(last).map_or(0..0, |(first, last)| first..last + 1)
        });
        Self { root, geometry, half, stats, used, write_execute }
    }
}

/// Returns the root table and the addresses of a range, if the half has any of them.
fn copied((root, geometry, half): (Pa, Geometry, Half), range: (Va, Va)) -> Option<(Table, Span)> {
    let (base, span) = translated(geometry, range).filter(|(base, _)| *base == geometry.base(half))?;
    Some((Table::root(root, geometry, base), span))
}
