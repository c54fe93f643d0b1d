//! Off line: a whole tree of tables, built in plain memory that no walker can reach.
//!
//! One pass in address order. A table is taken when its first entry is known and every slot is written
//! exactly once: leaves by long constant fills, the rest as holes; nothing is zeroed first. When frames
//! run out, everything built so far is given back.

use core::ops::Range;

use crate::build::error::BuildError;
use crate::build::fill::{fill_holes, fill_with_step};
use crate::build::give_back::give_back;
use crate::format::{Descriptor, Geometry, Half, Level, Pa, Va, in_place_bits};
use crate::plan::{Run, Stats};
use crate::platform::{Frame, Memory};

/// A tree that no walker can reach; it owns all of its table pages.
///
/// Publish it with [`AddressSpace`](crate::AddressSpace), or [`discard`](Self::discard) it; dropping
/// it leaks its pages.
#[must_use = "a dropped tree leaks its table pages: publish or discard it"]
#[derive(Debug)]
pub struct Tree {
    root: Frame,
    geometry: Geometry,
    half: Half,
    stats: Stats,
    /// The slots of the root from the first that is used to the last.
    used: Range<usize>,
    /// The first run that can be written and executed.
    write_execute: Option<Va>,
}

impl Tree {
    /// Builds the tables that map `runs`, which go up in address order within `half`.
    ///
    /// With no runs the tree is an empty root table.
    /// The cost is one store for each slot of each table page, in one pass.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size; out of frames; a run that is unordered, misaligned or
    /// outside the half. Then every frame has been given back.
    pub fn build<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        Self::fits(memory, geometry)?;
        let mut write_execute = None;
        let judged = runs.inspect(|run| {
            // Mostly it cannot be executed.
            if run.attributes.is_executable() && run.attributes.is_writable() {
                write_execute.get_or_insert(run.va);
            }
        });
        let tree = Self::build_judged(memory, geometry, half, judged)?;
        Ok(Self { write_execute, ..tree })
    }

    /// Whether tables of a geometry can be made of a memory's pages.
    pub(crate) fn fits<M: Memory>(memory: &M, geometry: Geometry) -> Result<(), BuildError> {
        let (memory, tables) = (memory.page_size(), geometry.page_size());
        if memory == tables { Ok(()) } else { Err(BuildError::PageSize { memory, tables }) }
    }

    /// The same as [`build`](Self::build) for a memory that [`fits`](Self::fits), and runs of which none is writable and
    /// executable.
    pub(crate) fn build_judged<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        mut runs: impl Iterator<Item = Run>,
    ) -> Result<Self, BuildError> {
        let runs = Checked { runs: &mut runs, geometry, base: geometry.base(half), first: None, next: 0 };
        let even_span = 1 << in_place_bits(geometry.oa_format());
        let mut builder = Builder { memory, geometry, even_span, runs, rest: Run::NONE, stats: Stats::EMPTY };
        builder.refill()?;
        let root = builder.table(geometry.root(), geometry.base(half))?;
        let used = builder.runs.root_slots();
        Ok(Self { root, geometry, half, stats: builder.stats, used, write_execute: None })
    }

    /// Builds the table at `level` that starts at `base`, and all below it, for runs that lie within it.
    pub(crate) fn subtree<M: Memory>(
        memory: &M,
        geometry: Geometry,
        (half, level, base): (Half, Level, u64),
        mut runs: impl Iterator<Item = Run>,
    ) -> Result<(Frame, Stats), BuildError> {
        let runs = Checked { runs: &mut runs, geometry, base: geometry.base(half), first: None, next: 0 };
        let even_span = 1 << in_place_bits(geometry.oa_format());
        let mut builder = Builder { memory, geometry, even_span, runs, rest: Run::NONE, stats: Stats::EMPTY };
        builder.refill()?;
        let table = builder.table(level, base)?;
        Ok((table, builder.stats))
    }

    /// What the tree is made of.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The address of the root table, as a TTBR wants it.
    pub const fn root(&self) -> Pa {
        self.root.pa()
    }

    /// The slots of the root outside of which all are holes.
    pub(crate) fn used(&self) -> Range<usize> {
        self.used.clone()
    }

    /// The first of its runs that can be written and executed at once, if any can.
    pub const fn write_execute(&self) -> Option<Va> {
        self.write_execute
    }

    /// The geometry that it was built for.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The half that its addresses are in.
    pub const fn half(&self) -> Half {
        self.half
    }

    /// Gives back all of its table pages, depth first.
    pub fn discard<M: Memory>(self, memory: &M) {
        give_back(memory, self.geometry, self.geometry.root(), self.root, &mut |_, _| {});
    }

    /// Gives up ownership of the tables: they are what a TTBR points to from now on.
    pub fn into_root(self) -> Frame {
        self.root
    }

    /// Takes back a tree that walkers could reach until now. What it maps is not looked at.
    ///
    /// # Safety
    ///
    /// - `root` is the root of a tree that [`into_root`](Self::into_root) gave up, of this geometry.
    /// - No walker can reach any of its tables, and no TLB holds an entry of them: TTBR changed, ISB,
    ///   TLBI, DSB.
    pub unsafe fn from_root(root: Frame, geometry: Geometry, half: Half) -> Self {
        let used = 0..geometry.entries(geometry.root());
        Self { root, geometry, half, stats: Stats::EMPTY, used, write_execute: None }
    }

    /// The same of tables that have been looked at: what they are made of, and the first that can be written and executed.
    ///
    /// # Safety
    ///
    /// As for [`from_root`](Self::from_root), of tables of this memory that belong to the caller.
    pub(crate) unsafe fn of_tables<M: Memory>(
        memory: &M,
        (root, geometry, half): (Pa, Geometry, Half),
        stats: Stats,
        write_execute: Option<Va>,
    ) -> Self {
        // SAFETY: no walker reaches it, and it belongs to the caller, who promises both.
        let mut root = unsafe { Frame::from_pa(root) };
        let slots = &memory.slots(&mut root)[..geometry.entries(geometry.root())];
        let first = slots.iter().position(|&bits| bits != 0);
        let last = slots.iter().rposition(|&bits| bits != 0);
        let used = first.zip(last).map_or(0..0, |(first, last)| first..last + 1);
        Self { root, geometry, half, stats, used, write_execute }
    }
}

/// The runs, each checked against the geometry and the one before it.
struct Checked<I> {
    runs: I,
    geometry: Geometry,
    /// The first address of the half.
    base: u64,
    /// Where the first started, from the base of the half.
    first: Option<u64>,
    /// Where the next may start, likewise.
    next: u64,
}

impl<I: Iterator<Item = Run>> Iterator for Checked<I> {
    type Item = Result<Run, BuildError>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.runs.next()?;
        Some(self.check(run).map(|()| run))
    }
}

impl<I> Checked<I> {
    /// The slots of the root from the first that a run used to the last.
    fn root_slots(&self) -> Range<usize> {
        let shift = self.geometry.level_shift(self.geometry.root());
        let end = 1u64 << shift;
        match self.first {
            Some(first) => (first >> shift) as usize..((self.next + end - 1) >> shift) as usize,
            None => 0..0,
        }
    }

    fn check(&mut self, run: Run) -> Result<(), BuildError> {
        let (g, va) = (self.geometry, run.va);
        let offset = va.0.wrapping_sub(self.base);
        let room = (1u64 << g.va_bits()).checked_sub(offset).ok_or(BuildError::OutOfRange { va })?;
        if offset < self.next {
            return Err(BuildError::Unordered { va });
        }
        let not_a_leaf = Err(BuildError::NotALeaf { va, level: run.level });
        if !g.may_be_leaf(run.level) {
            return not_a_leaf;
        }
        let shift = g.level_shift(run.level);
        let members = if run.contiguous { g.contiguous_entries(run.level) as u64 } else { 1 };
        let below = (members << shift) - 1;
        let whole = run.descriptors != 0 && run.descriptors & (members - 1) == 0;
        if (va.0 | run.oa.0) & below != 0 || !whole || (run.contiguous && members == 1) {
            return not_a_leaf;
        }
        let oa_room = (1u64 << g.oa_bits()).checked_sub(run.oa.0).ok_or(BuildError::OutOfRange { va })?;
        if run.descriptors > room.min(oa_room) >> shift {
            return Err(BuildError::OutOfRange { va });
        }
        self.first.get_or_insert(offset);
        self.next = offset + (run.descriptors << shift);
        Ok(())
    }
}

struct Builder<'m, M, I> {
    memory: &'m M,
    geometry: Geometry,
    /// Where, as a power of two, addresses change the bits that the format keeps elsewhere.
    even_span: u64,
    runs: Checked<I>,
    /// What is left of the run at hand; no descriptors when there are no more runs.
    rest: Run,
    stats: Stats,
}

impl<M: Memory, I: Iterator<Item = Run>> Builder<'_, M, I> {
    fn refill(&mut self) -> Result<(), BuildError> {
        self.rest = self.runs.next().transpose()?.unwrap_or(Run::NONE);
        Ok(())
    }

    /// Builds the table at `level` whose first slot translates `base`, and all below it.
    fn table(&mut self, level: Level, base: u64) -> Result<Frame, BuildError> {
        let taken = self.stats.tables;
        let mut table = self.memory.take().ok_or(BuildError::OutOfFrames { taken })?;
        self.stats.tables += 1;
        let slots = &mut self.memory.slots(&mut table)[..self.geometry.entries(level)];
        let result = self.fill_table(level, base, slots);
        match result {
            Ok(()) => Ok(table),
            Err(error) => {
                give_back(self.memory, self.geometry, level, table, &mut |_, _| {});
                Err(error)
            }
        }
    }

    /// Writes every slot once, on an error too: what was not reached is holes.
    fn fill_table(&mut self, level: Level, base: u64, slots: &mut [u64]) -> Result<(), BuildError> {
        let shift = self.geometry.level_shift(level);
        let mut filled = 0;
        while self.rest.descriptors != 0 {
            let index = (self.rest.va.0.wrapping_sub(base) >> shift) as usize;
            if index >= slots.len() {
                break;
            }
            if filled < index {
                fill_holes(&mut slots[filled..index]);
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
                Ok(done) => filled = index + done,
                Err(Broken { done, error }) => {
                    fill_holes(&mut rest[done..]);
                    return Err(error);
                }
            }
        }
        fill_holes(&mut slots[filled..]);
        Ok(())
    }

    /// Leaves of this very level. How many slots are done, as in the next two.
    fn leaves(&mut self, slots: &mut [u64]) -> Result<usize, Broken> {
        let (run, shift) = (&self.rest, self.geometry.level_shift(self.rest.level));
        let n = slots.len().min(self.even() as usize);
        let first = Descriptor::leaf(run.first_leaf(), self.geometry, run.level);
        fill_with_step(&mut slots[..n], first.0, 1 << shift);
        self.stats.count_leaves(run.level, run.contiguous, n as u64);
        self.advance(n as u64).map_err(|error| Broken { done: n, error })?;
        Ok(n)
    }

    /// How many descriptors at the front of the run differ by mere addition: a format may keep the high
    /// address bits elsewhere in the descriptor, and then it ends where those change.
    fn even(&self) -> u64 {
        let shift = self.geometry.level_shift(self.rest.level);
        let room = self.even_span - (self.rest.oa.0 & (self.even_span - 1));
        self.rest.descriptors.min(room >> shift)
    }

    /// Whether the run at hand starts a table of its level and fills it.
    fn covers_a_table(&self) -> bool {
        let bits = self.geometry.index_bits();
        let span = 1u64 << (self.geometry.level_shift(self.rest.level) + bits);
        self.rest.va.0 & (span - 1) == 0 && self.even() >> bits != 0
    }

    /// The tables of the next level that the run at hand covers whole, without the general case's
    /// bookkeeping: most of a map in pages is these.
    fn whole_tables(&mut self, slots: &mut [u64]) -> Result<usize, Broken> {
        let (g, level, bits) = (self.geometry, self.rest.level, self.geometry.index_bits());
        let step = 1u64 << g.level_shift(level);
        let n = slots.len().min((self.even() >> bits) as usize);
        let mut first = Descriptor::leaf(self.rest.first_leaf(), g, level).0;
        for (done, slot) in slots[..n].iter_mut().enumerate() {
            let Some(mut table) = self.memory.take() else {
                return Err(Broken { done, error: BuildError::OutOfFrames { taken: self.stats.tables } });
            };
            self.stats.tables += 1;
            fill_with_step(&mut self.memory.slots(&mut table)[..1 << bits], first, step);
            first = first.wrapping_add(step << bits);
            *slot = Descriptor::link(table.into_pa(), g).0;
        }
        let leaves = (n as u64) << bits;
        self.stats.count_leaves(level, self.rest.contiguous, leaves);
        self.advance(leaves).map_err(|error| Broken { done: n, error })?;
        Ok(n)
    }

    /// A table of the next level with more than one kind of entry.
    fn one_table(&mut self, level: Level, base: u64, slots: &mut [u64]) -> Result<usize, Broken> {
        let table = self.table(level, base).map_err(|error| Broken { done: 0, error })?;
        slots[0] = Descriptor::link(table.into_pa(), self.geometry).0;
        Ok(1)
    }

    /// Takes `n` descriptors off the front of the run at hand.
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

/// A step that broke off, and how many slots it had written by then.
struct Broken {
    done: usize,
    error: BuildError,
}
