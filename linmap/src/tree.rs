//! Off line: a whole tree of tables, built in plain memory that no walker can reach.
//!
//! One pass in address order. A table is taken when its first entry is known and every slot is written
//! exactly once: leaves by long constant fills, the rest as holes; nothing is zeroed first. When frames
//! run out, everything built so far is given back.

use crate::descriptor::high_field;
use crate::{Descriptor, Entry, Error, Frame, Geometry, Half, Leaf, Level, Memory, Pa, Run, Stats};

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
}

impl Tree {
    /// Builds the tables that map `runs`, which go up in address order within `half`.
    ///
    /// The page size of `memory` is that of `geometry`. With no runs the tree is an empty root table.
    /// The cost is one store for each slot of each table page, in one pass.
    ///
    /// # Errors
    ///
    /// Out of frames, or a run that is unordered, misaligned or outside the half. Then every frame has
    /// been given back.
    pub fn build<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        runs: impl Iterator<Item = Run>,
    ) -> Result<Self, Error> {
        let checked = Checked { runs, geometry, half, next_offset: 0 };
        let mut builder = Builder { memory, geometry, runs: checked, rest: None, stats: Stats::EMPTY };
        builder.refill()?;
        let root = builder.table(geometry.root(), geometry.base(half))?;
        Ok(Self { root, geometry, half, stats: builder.stats })
    }

    /// What the tree is made of.
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// The address of the root table, as a TTBR wants it.
    pub const fn root(&self) -> Pa {
        self.root.pa()
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
        discard_table(memory, self.geometry, self.geometry.root(), self.root);
    }

    /// Gives up ownership of the tables: they are what a TTBR points to from now on.
    pub fn into_root(self) -> Frame {
        self.root
    }

    /// Takes back a tree that walkers could reach until now.
    ///
    /// # Safety
    ///
    /// - `root` is the root of a tree that [`into_root`](Self::into_root) gave up, of this geometry.
    /// - No walker can reach any of its tables, and no TLB holds an entry of them: TTBR changed, ISB,
    ///   TLBI, DSB.
    pub unsafe fn from_root(root: Frame, geometry: Geometry, half: Half) -> Self {
        Self { root, geometry, half, stats: Stats::EMPTY }
    }
}

/// Gives back a table that no walker can reach, and all below it.
fn discard_table<M: Memory>(memory: &M, geometry: Geometry, level: Level, mut table: Frame) {
    if level != Level::PAGE {
        for &bits in &memory.slots(&mut table)[..geometry.entries(level)] {
            if let Entry::Table(child) = Descriptor(bits).decode(geometry, level) {
                // SAFETY: the parent is a frame, so no walker reaches the child but through it; the
                // tree owned the child, and its only pointer is in the parent, which goes away now.
                let child = unsafe { Frame::from_pa(child) };
                discard_table(memory, geometry, level.next(), child);
            }
        }
    }
    memory.give(table);
}

/// The runs, each checked against the geometry and the one before it.
struct Checked<I> {
    runs: I,
    geometry: Geometry,
    half: Half,
    /// Where the next may start, from the base of the half.
    next_offset: u64,
}

impl<I: Iterator<Item = Run>> Iterator for Checked<I> {
    type Item = Result<Run, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let run = self.runs.next()?;
        Some(self.check(run).map(|()| run))
    }
}

impl<I> Checked<I> {
    fn check(&mut self, run: Run) -> Result<(), Error> {
        let (g, va) = (self.geometry, run.va);
        let offset = va.0.wrapping_sub(g.base(self.half));
        let room = (1u64 << g.va_bits()).checked_sub(offset).ok_or(Error::OutOfRange { va })?;
        if offset < self.next_offset {
            return Err(Error::Unordered { va });
        }
        let shift = g.level_shift(run.level);
        let members = if run.contiguous { g.contiguous_entries(run.level) as u64 } else { 1 };
        let below = (members << shift) - 1;
        let whole = run.descriptors != 0 && run.descriptors % members == 0;
        if !g.may_be_leaf(run.level)
            || (va.0 | run.oa.0) & below != 0
            || !whole
            || (run.contiguous && members == 1)
        {
            return Err(Error::NotALeaf { va, level: run.level });
        }
        let oa_room = (1u64 << g.oa_bits()).checked_sub(run.oa.0).ok_or(Error::OutOfRange { va })?;
        if run.descriptors > room.min(oa_room) >> shift {
            return Err(Error::OutOfRange { va });
        }
        self.next_offset = offset + (run.descriptors << shift);
        Ok(())
    }
}

struct Builder<'m, M, I: Iterator<Item = Result<Run, Error>>> {
    memory: &'m M,
    geometry: Geometry,
    runs: I,
    /// What is left of the run at hand.
    rest: Option<Run>,
    stats: Stats,
}

impl<M: Memory, I: Iterator<Item = Result<Run, Error>>> Builder<'_, M, I> {
    fn refill(&mut self) -> Result<(), Error> {
        self.rest = self.runs.next().transpose()?;
        Ok(())
    }

    /// Builds the table at `level` whose first slot translates `base`, and all below it.
    fn table(&mut self, level: Level, base: u64) -> Result<Frame, Error> {
        let taken = self.stats.tables;
        let mut table = self.memory.take().ok_or(Error::OutOfFrames { taken })?;
        self.stats.tables += 1;
        let slots = &mut self.memory.slots(&mut table)[..self.geometry.entries(level)];
        let result = self.fill_table(level, base, slots);
        match result {
            Ok(()) => Ok(table),
            Err(error) => {
                discard_table(self.memory, self.geometry, level, table);
                Err(error)
            }
        }
    }

    /// Writes every slot once, on an error too: what was not reached is holes.
    fn fill_table(&mut self, level: Level, base: u64, slots: &mut [u64]) -> Result<(), Error> {
        let shift = self.geometry.level_shift(level);
        let mut filled = 0;
        let mut result = Ok(());
        while let Some(run) = self.rest {
            let index = (run.va.0.wrapping_sub(base) >> shift) as usize;
            if index >= slots.len() {
                break;
            }
            slots[filled..index].fill(0);
            filled = index;
            if run.level == level {
                let n = (slots.len() - index).min(run.descriptors as usize);
                fill_leaves(&mut slots[index..index + n], self.geometry, run);
                filled += n;
                self.stats.add_leaves(level, run.contiguous, n as u64);
                result = self.advance(run, n as u64, shift);
            } else {
                match self.table(level.next(), base.wrapping_add((index as u64) << shift)) {
                    Ok(child) => slots[index] = Descriptor::table(child.into_pa(), self.geometry).0,
                    Err(error) => {
                        slots[index] = 0;
                        result = Err(error);
                    }
                }
                filled += 1;
            }
            if result.is_err() {
                break;
            }
        }
        slots[filled..].fill(0);
        result
    }

    /// Takes `n` descriptors off the front of the run at hand.
    fn advance(&mut self, mut run: Run, n: u64, shift: u32) -> Result<(), Error> {
        run.descriptors -= n;
        if run.descriptors == 0 {
            return self.refill();
        }
        run.va.0 = run.va.0.wrapping_add(n << shift);
        run.oa.0 += n << shift;
        self.rest = Some(run);
        Ok(())
    }
}

/// Writes the leading leaves of `run` into `slots`.
///
/// Addresses grow by addition within the part of the descriptor that holds them in place; where a
/// format keeps the high bits elsewhere, a fill ends at the address where those change.
fn fill_leaves(mut slots: &mut [u64], geometry: Geometry, run: Run) {
    let shift = geometry.level_shift(run.level);
    let mut oa = run.oa;
    while !slots.is_empty() {
        let leaf = Leaf { oa, attributes: run.attributes, contiguous: run.contiguous, valid: true };
        let first = Descriptor::leaf(leaf, geometry, run.level).0;
        let n = match high_field(geometry.oa_format()) {
            None => slots.len(),
            Some((high, ..)) => {
                let room = (1u64 << high) - (oa.0 & ((1 << high) - 1));
                slots.len().min((room >> shift) as usize)
            }
        };
        let (now, later) = slots.split_at_mut(n);
        fill_with_step(now, first, 1 << shift);
        oa.0 += (n as u64) << shift;
        slots = later;
    }
}

/// The hot loop of creation: a constant number of stores a turn, so that they become pairs.
fn fill_with_step(slots: &mut [u64], first: u64, step: u64) {
    let mut value = first;
    let (chunks, rest) = slots.as_chunks_mut::<32>();
    for chunk in chunks {
        for slot in chunk {
            *slot = value;
            value = value.wrapping_add(step);
        }
    }
    for slot in rest {
        *slot = value;
        value = value.wrapping_add(step);
    }
}
