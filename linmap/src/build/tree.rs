//! A whole tree of tables, built off line in plain memory that no walker can reach.
//!
//! It is built in one pass in address order. A table is taken when its first entry is known, and every slot is written
//! exactly once: leaves by long constant fills, all other slots as holes. Nothing is zeroed first. When frames run out,
//! everything built so far is given back.

use core::ops::Range;

use crate::build::error::BuildError;
use crate::build::fill::Fills;
use crate::build::give_back::give_back;
use crate::build::in_order::{RegionsInOrder, RunsInOrder};
use crate::format::{Descriptor, Geometry, Half, LeafSizes, Level, Pa, TableAttributes, Va, in_place_bits};
use crate::plan::{Region, Run, Stats};
use crate::platform::{Frame, Memory};

/// A tree that no walker can reach. It owns all of its table pages.
///
/// Publish it with [`AddressSpace`](crate::AddressSpace), or [`discard`](Self::discard) it. Dropping it leaks its
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
    pub fn empty<M: Memory>(memory: &M, geometry: Geometry, half: Half) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let mut root = memory.take().ok_or(BuildError::OutOfFrames { taken: 0 })?;
        let entries = geometry.entries(geometry.root());
        memory.with_slots(&mut root, geometry.root(), |slots| Fills::of(memory).holes(&mut slots[..entries]));
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
    pub fn build_with<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        tables: TableAttributes,
        runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let mut write_execute = None;
        let judged = runs.inspect(|run| {
            // Most runs are not executable, so that is tested first.
            if run.attributes.is_executable() && run.attributes.is_writable() {
                write_execute.get_or_insert(run.va);
            }
        });
        let tree = Self::build_judged(memory, geometry, half, tables, judged)?;
        Ok(Self { write_execute, ..tree })
    }

    /// Returns an error if the memory's pages are not of the geometry's page size.
    pub(crate) fn fits<M: Memory>(memory: &M, geometry: Geometry) -> Result<(), BuildError> {
        let (memory, tables) = (memory.page_size(), geometry.page_size());
        if memory == tables { Ok(()) } else { Err(BuildError::PageSize { memory, tables }) }
    }

    /// Builds a tree as [`build`](Self::build) does. The memory must have [the right page size](Self::fits), and no run
    /// may be both writable and executable.
    pub(crate) fn build_judged<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        tables: TableAttributes,
        mut runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        let runs = RunsInOrder::new(&mut runs, geometry, half);
        let mut builder = Builder::new(memory, geometry, tables, runs);
        builder.refill()?;
        let (root, _) = builder.table(geometry.root(), geometry.base(half))?;
        let used = builder.runs.place.root_slots(geometry);
        Ok(Self { root, geometry, half, stats: builder.stats, used, write_execute: None })
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
        let sizes = geometry.new_leaf_sizes();
        Self::of_regions(memory, (geometry, &sizes), half, TableAttributes::empty(), regions.into_iter())
    }

    /// Builds a tree as [`build_with`](Self::build_with) does, that maps these regions in leaves of these sizes, which are
    /// those of new leaves.
    pub(crate) fn of_regions<M: Memory>(
        memory: &M,
        (geometry, sizes): (Geometry, &LeafSizes),
        half: Half,
        tables: TableAttributes,
        regions: impl Iterator<Item = Region>,
    ) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let regions = RegionsInOrder::new(regions, geometry, sizes, half);
        let mut builder = Builder::new(memory, geometry, tables, regions);
        builder.refill()?;
        let (root, _) = builder.table(geometry.root(), geometry.base(half))?;
        let (used, write_execute) = (builder.runs.place.root_slots(geometry), builder.runs.write_execute);
        Ok(Self { root, geometry, half, stats: builder.stats, used, write_execute })
    }

    /// Builds the table at `level` that starts at `base`, and all below it, for runs that lie within it.
    pub(crate) fn subtree<M: Memory>(
        memory: &M,
        geometry: Geometry,
        (half, level, base): (Half, Level, u64),
        tables: TableAttributes,
        mut runs: impl Iterator<Item = Run>,
    ) -> Result<(Frame, Stats), BuildError> {
        let runs = RunsInOrder::new(&mut runs, geometry, half);
        let mut builder = Builder::new(memory, geometry, tables, runs);
        builder.refill()?;
        let (table, _) = builder.table(level, base)?;
        Ok((table, builder.stats))
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

    /// Takes back tables that have been inspected: `stats` has their counts, `write_execute` the first address that is
    /// both writable and executable.
    ///
    /// # Safety
    ///
    /// As for [`from_root`](Self::from_root). The tables are pages of this memory and belong to the caller.
    pub(crate) unsafe fn of_tables<M: Memory>(
        memory: &M,
        (root, geometry, half): (Pa, Geometry, Half),
        stats: Stats,
        write_execute: Option<Va>,
    ) -> Self {
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

struct Builder<'m, M, I> {
    memory: &'m M,
    fills: Fills<M>,
    geometry: Geometry,
    tables: TableAttributes,
    /// The size in bytes, a power of 2, of the spans within which the address bits that the format moves are constant.
    even_span: u64,
    runs: I,
    /// The rest of the current run, without descriptors when there are no more runs.
    rest: Run,
    stats: Stats,
}

impl<'m, M: Memory, I: Iterator<Item = Result<Run, BuildError>>> Builder<'m, M, I> {
    #[inline(always)]
    fn new(memory: &'m M, geometry: Geometry, tables: TableAttributes, runs: I) -> Self {
        let even_span = 1 << in_place_bits(geometry.oa_format());
        let (rest, stats, fills) = (Run::NONE, Stats::EMPTY, Fills::of(memory));
        Self { memory, fills, geometry, tables, even_span, runs, rest, stats }
    }

    fn refill(&mut self) -> Result<(), BuildError> {
        self.rest = self.runs.next().transpose()?.unwrap_or(Run::NONE);
        Ok(())
    }

    /// Builds the table at `level` whose first slot translates `base`, and all tables below it. Returns it with the
    /// attributes of its descriptor.
    fn table(&mut self, level: Level, base: u64) -> Result<(Frame, TableAttributes), BuildError> {
        let taken = self.stats.tables;
        let mut table = self.memory.take().ok_or(BuildError::OutOfFrames { taken })?;
        self.stats.tables += 1;
        let (memory, entries) = (self.memory, self.geometry.entries(level));
        let fill = |slots: &mut [u64]| self.fill_table(level, base, &mut slots[..entries]);
        match memory.with_slots(&mut table, level, fill) {
            Ok(attributes) => Ok((table, attributes)),
            Err(error) => {
                give_back(self.memory, self.geometry, level, table, &mut |_, _| {});
                Err(error)
            }
        }
    }

    /// Writes every slot once, even in case of an error: slots that were not reached become holes.
    fn fill_table(
        &mut self,
        level: Level,
        base: u64,
        slots: &mut [u64],
    ) -> Result<TableAttributes, BuildError> {
        let shift = self.geometry.level_shift(level);
        let (mut filled, mut attributes) = (0, self.tables);
        while self.rest.descriptors != 0 {
            let index = (self.rest.va.0.wrapping_sub(base) >> shift) as usize;
            if index >= slots.len() {
                break;
            }
            if filled < index {
                self.fills.holes(&mut slots[filled..index]);
            }
            let rest = &mut slots[index..];
            let step = if self.rest.level == level {
                self.leaves(rest)
            } else if self.rest.level == level.next() && self.covers_a_table() {
                self.whole_tables(rest)
            } else {
                self.one_table(level.next(), base.wrapping_add((index as u64) << shift), rest)
            };
            match step {
                Ok((done, within)) => {
                    filled = index + done;
                    attributes &= within;
                }
                Err(Broken { done, error }) => {
                    self.fills.holes(&mut rest[done..]);
                    return Err(error);
                }
            }
        }
        self.fills.holes(&mut slots[filled..]);
        Ok(attributes)
    }

    /// Writes leaves of this level. Like the next two functions, returns the number of slots written, and the attributes
    /// of tables that remove nothing from what is there.
    // What a table of each level needs while those below it are built is the frame of `table`, without that of this and the next.
    #[inline(never)]
    fn leaves(&mut self, slots: &mut [u64]) -> Result<(usize, TableAttributes), Broken> {
        let (run, shift) = (&self.rest, self.geometry.level_shift(self.rest.level));
        let tables = self.tables.within(run.attributes);
        let n = slots.len().min(self.even() as usize);
        let first = Descriptor::leaf(run.first_leaf(), self.geometry, run.level);
        self.fills.series(&mut slots[..n], first.0, 1 << shift);
        self.stats.count_leaves(run.level, run.contiguous, n as u64);
        self.advance(n as u64).map_err(|error| Broken { done: n, error })?;
        Ok((n, tables))
    }

    /// Returns the number of descriptors at the start of the run that differ only by addition. A format may move high
    /// address bits to another field; the series ends where those change.
    fn even(&self) -> u64 {
        let shift = self.geometry.level_shift(self.rest.level);
        let room = self.even_span - (self.rest.oa.0 & (self.even_span - 1));
        self.rest.descriptors.min(room >> shift)
    }

    /// Returns true if the current run starts at the start of a table of its level, and fills it.
    fn covers_a_table(&self) -> bool {
        let bits = self.geometry.index_bits();
        let span = 1u64 << (self.geometry.level_shift(self.rest.level) + bits);
        self.rest.va.0 & (span - 1) == 0 && self.even() >> bits != 0
    }

    /// Builds the tables of the next level that the current run covers entirely, without the bookkeeping of the general
    /// case. Most of a map in pages is built here.
    #[inline(never)]
    fn whole_tables(&mut self, slots: &mut [u64]) -> Result<(usize, TableAttributes), Broken> {
        let (g, level, bits) = (self.geometry, self.rest.level, self.geometry.index_bits());
        let (step, tables) = (1u64 << g.level_shift(level), self.tables.within(self.rest.attributes));
        let n = slots.len().min((self.even() >> bits) as usize);
        let mut first = Descriptor::leaf(self.rest.first_leaf(), g, level).0;
        for (done, slot) in slots[..n].iter_mut().enumerate() {
            let Some(mut table) = self.memory.take() else {
                let taken = self.stats.tables + done as u64;
                return Err(Broken { done, error: BuildError::OutOfFrames { taken } });
            };
            self.memory.with_slots(&mut table, level, |slots| self.fills.table(slots, first, step));
            first = first.wrapping_add(step << bits);
            *slot = Descriptor::link(table.into_pa(), g).with(tables).0;
        }
        self.stats.tables += n as u64;
        let leaves = (n as u64) << bits;
        self.stats.count_leaves(level, self.rest.contiguous, leaves);
        self.advance(leaves).map_err(|error| Broken { done: n, error })?;
        Ok((n, tables))
    }

    /// Builds a table of the next level that has several kinds of entries.
    fn one_table(
        &mut self,
        level: Level,
        base: u64,
        slots: &mut [u64],
    ) -> Result<(usize, TableAttributes), Broken> {
        let (table, tables) = self.table(level, base).map_err(|error| Broken { done: 0, error })?;
        slots[0] = Descriptor::link(table.into_pa(), self.geometry).with(tables).0;
        Ok((1, tables))
    }

    /// Removes `n` descriptors from the start of the current run.
    fn advance(&mut self, n: u64) -> Result<(), BuildError> {
        let bytes = n << self.geometry.level_shift(self.rest.level);
        let run = &mut self.rest;
        run.descriptors -= n;
        if run.descriptors == 0 {
            return self.refill();
        }
        run.va.0 = run.va.0.wrapping_add(bytes);
        run.oa.0 += bytes;
        Ok(())
    }
}

/// A step that failed, with the number of slots that it had written.
struct Broken {
    done: usize,
    error: BuildError,
}
