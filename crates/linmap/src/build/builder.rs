//! The one pass in which the tables of a tree are written, in address order.
//!
//! A table is taken when its first entry is known, and every slot is written exactly once: leaves by long fills, all other
//! slots as holes. Nothing is zeroed first. After a failure there are no more parts, so the tables that exist are
//! completed with holes, and all of them are given back.

use crate::build::error::BuildError;
use crate::build::fill;
use crate::build::give_back::give_back;
use crate::build::in_order::Part;
use crate::format::{Attributes, Descriptor, Geometry, Level, Pa, TableAttributes, in_place_bits};
use crate::plan::Stats;
use crate::platform::{Frame, Memory};

pub(super) struct Builder<'m, M, I> {
    memory: &'m M,
    geometry: Geometry,
    /// The attributes of tables, as far as they remove nothing from what is below.
    tables: TableAttributes,
    /// The size in bytes, a power of 2, of the spans within which the address bits that the format moves are constant.
    even_span: u64,
    pub(super) parts: I,
    /// The rest of the current part up to the end of such a span: empty when there are no more parts.
    part: Part,
    /// The bytes of the part that follow.
    beyond: u64,
    /// The descriptor of a block less its output address, which is the same in the whole part.
    block: u64,
    /// The attributes of tables that remove nothing from the part.
    within: TableAttributes,
    /// The leaf descriptors and the tables that are written, as [`Stats`] has them.
    leaf_counts: [[u64; 2]; Level::WITH_LEAVES],
    tables_taken: u64,
    failure: Option<BuildError>,
}

/// The place of a table.
#[derive(Clone, Copy)]
struct Place {
    level: Level,
    /// log2 of the bytes that an entry spans.
    shift: u32,
    /// The number of other members that each has in the contiguous runs that are made in it, or 0 where none are.
    others: usize,
    /// The first address that it translates, relative to the base of the half.
    base: u64,
}

impl Place {
    /// Returns the place of a table at a level whose entries span 2^`shift` bytes.
    #[inline(always)]
    const fn at(geometry: Geometry, (level, shift): (Level, u32), base: u64) -> Self {
        Self { level, shift, others: geometry.run_to_make_of(level, shift) - 1, base }
    }

    /// Returns the place of a table below this one.
    #[inline(always)]
    const fn below(self, geometry: Geometry, base: u64) -> Self {
        Self::at(geometry, (self.level.down(1), self.shift - geometry.index_bits()), base)
    }
}

/// A table above the one that is being written, and the entry that will lead to that one.
#[derive(Clone, Copy)]
struct Above {
    table: Pa,
    base: u64,
    index: usize,
    /// The attributes of tables that remove nothing from what it maps so far.
    attributes: TableAttributes,
}

impl<'m, M: Memory, I: Iterator<Item = Result<Part, BuildError>>> Builder<'m, M, I> {
    #[inline(always)]
    pub(super) fn new(memory: &'m M, geometry: Geometry, tables: TableAttributes, parts: I) -> Self {
        let attributes = Attributes::empty();
        Self {
            memory,
            geometry,
            tables,
            even_span: 1 << in_place_bits(geometry.oa_format()),
            parts,
            part: Part { offset: 0, oa: 0, bytes: 0, attributes, first_leaf: Level::PAGE, in_runs: false },
            beyond: 0,
            block: 0,
            within: tables,
            leaf_counts: [[0; 2]; Level::WITH_LEAVES],
            tables_taken: 1,
            failure: None,
        }
    }

    /// Builds the table at `level`, whose entries span 2^`shift` bytes and whose first one translates `base`, relative to the
    /// base of the half, and all tables below it. All parts must lie within it.
    #[inline(always)]
    pub(super) fn build(&mut self, (level, shift): (Level, u32), base: u64) -> Result<Frame, BuildError> {
        self.next_part();
        let frame = self.memory.take().ok_or(BuildError::OutOfFrames { taken: 0 })?;
        let g = self.geometry;
        let bits = if level == g.root() { g.va_bits() - shift } else { g.index_bits() };
        let top = self.fill(frame, Place::at(g, (level, shift), base), 1 << bits);
        match self.failure.take() {
            None => Ok(top),
            Some(error) => {
                give_back(self.memory, g, level, top, &mut |_, _| {});
                Err(error)
            }
        }
    }

    /// Returns the counts of what has been built.
    #[inline(always)]
    pub(super) const fn stats(&self) -> Stats {
        Stats::of_counts(&self.leaf_counts, self.tables_taken)
    }

    /// Takes a table page. If there is none, building has failed.
    #[inline]
    fn take(&mut self) -> Option<Frame> {
        let frame = self.memory.take();
        match frame {
            Some(_) => self.tables_taken += 1,
            None => self.fail(BuildError::OutOfFrames { taken: self.tables_taken }),
        }
        frame
    }

    #[cold]
    fn fail(&mut self, error: BuildError) {
        self.failure = Some(error);
        (self.part.bytes, self.beyond) = (0, 0);
    }

    /// Goes on to the next part.
    fn next_part(&mut self) {
        match self.parts.next() {
            None => self.part.bytes = 0,
            Some(Ok(part)) => self.begin(part),
            Some(Err(error)) => self.fail(error),
        }
    }

    #[inline]
    fn begin(&mut self, part: Part) {
        let bytes = part.bytes.min(self.even_span - (part.oa & (self.even_span - 1)));
        self.block = Descriptor::block_less_oa(part.oa, part.attributes, self.geometry.oa_format());
        if !self.tables.is_empty() {
            self.within = self.tables.within(part.attributes);
        }
        self.beyond = part.bytes - bytes;
        self.part = Part { bytes, ..part };
    }

    /// Removes `bytes` from the start of the current part.
    #[inline(always)]
    fn advance(&mut self, bytes: u64) {
        self.part.skip(bytes);
        self.end_part();
    }

    /// Goes on to the next part if nothing is left of the current one.
    #[inline(always)]
    fn end_part(&mut self) {
        if self.part.bytes == 0 {
            self.after_part();
        }
    }

    #[inline(never)]
    fn after_part(&mut self) {
        match self.beyond {
            0 => self.next_part(),
            bytes => self.begin(Part { bytes, ..self.part }),
        }
    }

    /// Writes a table, which has so many entries, and all below it. Returns it. The way down is kept in an array and not in calls: it takes
    /// little of the stack, however deep it goes.
    #[inline(never)]
    fn fill(&mut self, mut table: Frame, top: Place, entries: usize) -> Frame {
        let (memory, g, bits) = (self.memory, self.geometry, self.geometry.index_bits());
        let none = Above { table: Pa(0), base: 0, index: 0, attributes: self.tables };
        let mut above = [none; Level::COUNT];
        let (mut place, mut filled, mut attributes) = (top, 0, self.tables);
        loop {
            let entries = if place.level == top.level { entries } else { 1 << bits };
            let is_done = memory.with_slots(&mut table, place.level, |slots| {
                self.fill_table(&place, &mut slots[..entries], (&mut filled, &mut attributes))
            });
            if !is_done {
                // If there is no page, there are no more parts either, and the rest is holes.
                if let Some(below) = self.take() {
                    let base = place.base + ((filled as u64) << place.shift);
                    let pa = core::mem::replace(&mut table, below).into_pa();
                    above[place.level.ordinal()] =
                        Above { table: pa, base: place.base, index: filled, attributes };
                    place = place.below(g, base);
                    (filled, attributes) = (0, self.tables);
                }
                continue;
            }
            if place.level == top.level {
                return table;
            }
            let link = Descriptor::link(table.into_pa(), g).with(attributes);
            let level = place.level.down(-1);
            let Above { table: pa, base, index, attributes: before } = above[level.ordinal()];
            // SAFETY: the frame that was given up for its place in the array.
            table = unsafe { Frame::from_pa(pa) };
            memory.with_slots(&mut table, level, |slots| slots[index] = link.0);
            place = Place::at(g, (level, place.shift + bits), base);
            (filled, attributes) = (index + 1, attributes & before);
        }
    }

    /// Writes the slots of a table from the first that is not filled on, once each. Returns false where there is to be a table below
    /// that has several kinds of entries.
    fn fill_table(
        &mut self,
        table: &Place,
        slots: &mut [u64],
        (filled, attributes): (&mut usize, &mut TableAttributes),
    ) -> bool {
        let within = (1u64 << table.shift) - 1;
        while self.part.bytes != 0 {
            let index = ((self.part.offset - table.base) >> table.shift) as usize;
            if index >= slots.len() {
                break;
            }
            if *filled < index {
                fill::holes(&mut slots[*filled..index]);
            }
            let (rest, Part { offset, oa, bytes, first_leaf, .. }) = (&mut slots[index..], self.part);
            *filled = index;
            let whole = (bytes >> table.shift) as usize;
            if table.level >= first_leaf && (offset | oa) & within == 0 && whole != 0 {
                *attributes &= self.within;
                *filled += self.leaves(table, rest, (index, whole));
            } else if self.covers_tables(table) {
                *attributes &= self.within;
                *filled += self.whole_tables(table, rest);
            } else {
                return false;
            }
        }
        fill::holes(&mut slots[*filled..]);
        true
    }

    /// Writes adjacent leaves of one size, the largest that fits, of the `whole` ones in the current part, from the entry at
    /// `index` on, the first of these slots. Returns their number.
    #[inline]
    fn leaves(&mut self, table: &Place, slots: &mut [u64], (index, whole): (usize, usize)) -> usize {
        let Place { level, shift, .. } = *table;
        let (n, contiguous) = self.up_to_other_size(table, index, slots.len().min(whole));
        let first = self.first_leaf(level, contiguous);
        fill::series(&mut slots[..n], first.0, 1 << shift);
        self.leaf_counts[level.leaf_ordinal() % Level::WITH_LEAVES][usize::from(contiguous)] += n as u64;
        self.advance((n as u64) << shift);
        n
    }

    /// Returns how many of the next `n` leaves, from the entry at `index` on, have one size, and whether they are in
    /// contiguous runs.
    #[inline]
    fn up_to_other_size(&self, table: &Place, index: usize, n: usize) -> (usize, bool) {
        // The same members, counted from the last boundary of runs, in the table as in memory: a table begins at one.
        let others = table.others;
        let skew = index ^ (self.part.oa >> table.shift) as usize;
        if others == 0 || !self.part.in_runs || skew & others != 0 {
            return (n, false);
        }
        match index.wrapping_neg() & others {
            0 if n > others => (n - (n & others), true),
            before @ 1.. if n - before.min(n) > others => (before, false),
            _ => (n, false),
        }
    }

    /// Returns the descriptor of the first leaf of the current part.
    #[inline]
    fn first_leaf(&self, level: Level, contiguous: bool) -> Descriptor {
        Descriptor::leaf_of_block(self.block.wrapping_add(self.part.oa), level, contiguous)
    }

    /// Returns true if the current part covers the first table below this one, and all of it in leaves.
    #[inline]
    fn covers_tables(&self, table: &Place) -> bool {
        let (entry, below) = (1u64 << table.shift, table.shift - self.geometry.index_bits());
        let Part { offset, oa, bytes, first_leaf, .. } = self.part;
        table.level.down(1) >= first_leaf
            && bytes >= entry
            && offset & (entry - 1) | oa & ((1 << below) - 1) == 0
    }

    /// Builds the tables of the next level that the current part covers entirely, without the bookkeeping of the general
    /// case. Most of a map in pages is built here. Returns the number of tables.
    #[inline(never)]
    fn whole_tables(&mut self, table: &Place, slots: &mut [u64]) -> usize {
        let (g, below, bits) = (self.geometry, table.below(self.geometry, 0), self.geometry.index_bits());
        let Place { level, shift, .. } = below;
        let (n, step) = (slots.len().min((self.part.bytes >> table.shift) as usize), 1u64 << shift);
        let (_, contiguous) = self.up_to_other_size(&below, 0, 1 << bits);
        let mut first = self.first_leaf(level, contiguous).0;
        for (done, slot) in slots[..n].iter_mut().enumerate() {
            let Some(mut below) = self.take() else { return done };
            self.memory.with_slots(&mut below, level, |slots| fill::series(slots, first, step));
            first = first.wrapping_add(step << bits);
            *slot = Descriptor::link(below.into_pa(), g).with(self.within).0;
        }
        self.leaf_counts[level.leaf_ordinal()][usize::from(contiguous)] += (n as u64) << bits;
        self.advance((n as u64) << table.shift);
        n
    }
}
