//! The tables of the trees that CPUs have loaded. A page is a table from the store that links it until no walk of a loaded tree
//! comes to it.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use linmap::arch::{Descriptor, Entry, Level, TableLimits};
use linmap::{Attributes, Geometry, Half};

use super::filter::{Asked, Filter};
use super::memory::Memory;
use super::types::Types;
use crate::cached::Cached;
use crate::place::Place;
use crate::space::Space;
use crate::stage2;

/// A tree: its root, and the half that it translates, 0 or 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct TreeId {
    pub(super) root: u64,
    pub(super) half: usize,
}

/// The addresses of a contiguous run, the first and the last, in its tree.
pub(super) type Run = (TreeId, u64, u64);

/// The place of a table in a tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Spot {
    pub(super) tree: TreeId,
    pub(super) level: Level,
    /// The first address that it translates.
    pub(super) va: u64,
    pub(super) limits: TableLimits,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) words: Vec<u64>,
    /// More than one where trees share it, and while a table moves.
    pub(super) spots: Vec<Spot>,
}

/// The meaning of a descriptor to a walker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Meaning {
    /// It faults.
    Nothing,
    Leaf(Cached),
    Table(u64),
}

/// A leaf in its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafAt {
    pub(super) leaf: Cached,
    /// The addresses of its descriptor.
    pub(super) first: u64,
    pub(super) last: u64,
}

/// The leaves and tables that came to a tree, or left it.
#[derive(Default, Debug)]
pub(super) struct Moved {
    pub(super) leaves: Vec<LeafAt>,
    /// The tables, each with its place.
    pub(super) tables: Vec<(u64, Spot)>,
    /// Tables with stores of these CPUs, as bits, that were not ordered.
    pub(super) unordered: Vec<(u64, u64)>,
    /// Tables that are not followed.
    pub(super) unknown: usize,
}

impl Moved {
    /// Takes one slot: a leaf is kept, a table is returned with its place.
    fn slot(&mut self, format: &Format, spot: &Spot, index: usize, word: u64) -> Option<(u64, Spot)> {
        let (first, last) = format.span(spot, index);
        match format.meaning(word, spot, first) {
            Meaning::Nothing => {}
            Meaning::Leaf(leaf) => self.leaves.push(LeafAt { leaf, first, last }),
            Meaning::Table(table) => return Some((table, Format::below(spot, word, first))),
        }
        None
    }
}

impl Table {
    /// Returns the valid words, with their indexes.
    fn valid(&self) -> Vec<(usize, u64)> {
        self.words.iter().copied().enumerate().filter(|(_, word)| word & 1 == 1).collect()
    }
}

/// Returns the frames of a table.
const fn frames(table: u64, words: usize) -> RangeInclusive<u64> {
    table >> FRAME..=(table + 8 * words as u64 - 1) >> FRAME
}

/// log2 of the bytes of a frame, by which a store is found.
const FRAME: u32 = 12;
/// The places of one table that are followed: tables of zero pages are linked thousands of times, and one may lead to itself.
const MOST_SPOTS: usize = 16;

/// All tables, and how to read them.
#[derive(Default)]
pub(super) struct Tables {
    tables: HashMap<u64, Table>,
    frames: HashMap<u64, Vec<u64>>,
    filter: Filter,
}

/// The format of a tree.
#[derive(Clone, Copy)]
pub(super) struct Format {
    pub(super) geometry: Geometry,
    pub(super) types: Types,
    /// Walkers set access flags: at any moment a leaf may have one.
    pub(super) accessed: bool,
    /// Walkers make leaves writable whose dirty state they manage.
    pub(super) dirty: bool,
}

impl Format {
    /// Returns what a walker makes of a descriptor, whose first address is `va`.
    pub(super) fn meaning(&self, word: u64, spot: &Spot, va: u64) -> Meaning {
        if word & 1 == 0 {
            return Meaning::Nothing;
        }
        let Spot { tree, level, limits, .. } = *spot;
        let place = Place { root: tree.root, level, va: spot.va, space: Space::HOME, limits };
        match stage2::decode(self.types.canonical(self.walked(word), level), self.geometry, place) {
            Entry::Leaf(leaf) => {
                Cached::new(va, leaf, level, self.geometry).map_or(Meaning::Nothing, Meaning::Leaf)
            }
            Entry::Table(pa) => Meaning::Table(pa.0),
            Entry::Hole | Entry::Reserved => Meaning::Nothing,
        }
    }

    /// Returns a valid descriptor as walkers may have made it. In one of a table these bits say nothing.
    const fn walked(&self, word: u64) -> u64 {
        let accessed = if self.accessed { Attributes::ACCESSED.bits() } else { 0 };
        let is_managed = word & Attributes::DIRTY_MANAGED.bits() != 0;
        let clean = if self.dirty && is_managed { Attributes::READ_ONLY.bits() } else { 0 };
        (word | accessed) & !clean
    }

    /// Returns the addresses of a slot.
    pub(super) fn span(&self, spot: &Spot, index: usize) -> (u64, u64) {
        let shift = self.geometry.level_shift(spot.level);
        let first = spot.va.wrapping_add((index as u64) << shift);
        (first, first.wrapping_add((1 << shift) - 1))
    }

    /// Returns the place of the root of a tree.
    pub(super) fn root(&self, tree: TreeId) -> Spot {
        let half = if tree.half == 0 { Half::Lower } else { Half::Upper };
        let (level, va) = (self.geometry.root(), self.geometry.base(half));
        Spot { tree, level, va, limits: TableLimits::empty() }
    }

    /// Returns the place of the table that a descriptor leads to.
    fn below(spot: &Spot, word: u64, va: u64) -> Spot {
        let limits = spot.limits.union(TableLimits::of(Descriptor(word)));
        Spot { level: spot.level.next(), va, limits, ..*spot }
    }
}

impl Tables {
    pub(super) fn get(&self, pa: u64) -> Option<&Table> {
        self.tables.get(&pa)
    }

    /// Returns the table and the slot of a physical address. Where no table is it costs next to nothing.
    pub(super) fn slot(&self, pa: u64) -> Option<(u64, usize)> {
        if !self.filter.may_have(pa) {
            return None;
        }
        let tables = self.frames.get(&(pa >> FRAME))?;
        tables.iter().find_map(|&at| {
            let index = (pa.checked_sub(at)? / 8) as usize;
            (index < self.tables.get(&at)?.words.len()).then_some((at, index))
        })
    }

    /// Returns the filter of the frames of tables, for other threads.
    pub(super) fn asked(&self) -> Asked {
        self.filter.asked()
    }

    /// Returns the leaf below a table at a place that translates an address.
    pub(super) fn leaf(&self, (pa, spot): (u64, &Spot), format: &Format, va: u64) -> Option<LeafAt> {
        let index = va.wrapping_sub(spot.va) >> format.geometry.level_shift(spot.level);
        let word = self.word((pa, index as usize))?;
        let (first, last) = format.span(spot, index as usize);
        match format.meaning(word, spot, first) {
            Meaning::Nothing => None,
            Meaning::Leaf(leaf) => Some(LeafAt { leaf, first, last }),
            Meaning::Table(below) => self.leaf((below, &Format::below(spot, word, first)), format, va),
        }
    }

    /// Returns the addresses of the slots in a frame.
    pub(super) fn slots_in(&self, frame: u64) -> Vec<u64> {
        let tables = self.frames.get(&(frame >> FRAME)).into_iter().flatten();
        let slots = tables.flat_map(|pa| {
            let words = self.tables.get(pa).map_or(0, |table| table.words.len());
            (0..words as u64).map(move |n| pa + 8 * n)
        });
        slots.filter(|slot| slot >> FRAME == frame >> FRAME).collect()
    }

    /// Returns a word.
    pub(super) fn word(&self, (table, index): (u64, usize)) -> Option<u64> {
        self.tables.get(&table)?.words.get(index).copied()
    }

    /// Returns the leaves below a table at a place that translate some of these addresses, in their order.
    pub(super) fn leaves(
        &self,
        (pa, spot): (u64, &Spot),
        format: &Format,
        (first, last): (u64, u64),
        found: &mut Vec<LeafAt>,
    ) {
        let Some(table) = self.tables.get(&pa) else { return };
        for (index, word) in table.valid() {
            let at = format.span(spot, index);
            if at.0 > last || at.1 < first {
                continue;
            }
            match format.meaning(word, spot, at.0) {
                Meaning::Nothing => {}
                Meaning::Leaf(leaf) => found.push(LeafAt { leaf, first: at.0, last: at.1 }),
                Meaning::Table(below) => {
                    self.leaves((below, &Format::below(spot, word, at.0)), format, (first, last), found);
                }
            }
        }
    }

    /// Writes a word. Returns what was there.
    pub(super) fn set(&mut self, (table, index): (u64, usize), word: u64) -> u64 {
        let slot = self.tables.get_mut(&table).and_then(|t| t.words.get_mut(index));
        slot.map_or(word, |slot| std::mem::replace(slot, word))
    }

    /// Adds a table at a place, and all that it leads to.
    pub(super) fn link(
        &mut self,
        pa: u64,
        spot: Spot,
        format: &Format,
        memory: &mut impl Memory,
        moved: &mut Moved,
    ) {
        let entries = format.geometry.entries(spot.level);
        let spots = self.tables.get(&pa).map(|table| &table.spots[..]).unwrap_or_default();
        if spots.contains(&spot) {
            return;
        }
        if spots.len() == MOST_SPOTS {
            moved.unknown += 1;
            return;
        }
        if !self.tables.contains_key(&pa) {
            // A store that the words do not have yet is of a thread that finds the frame in the filter.
            frames(pa, entries).for_each(|frame| self.filter.add(frame << FRAME, FRAME));
            let Some(linked) = memory.table(pa, entries) else {
                frames(pa, entries).for_each(|frame| self.filter.remove(frame << FRAME, FRAME));
                moved.unknown += 1;
                return;
            };
            if linked.unordered != 0 {
                moved.unordered.push((pa, linked.unordered));
            }
            for frame in frames(pa, entries) {
                self.frames.entry(frame).or_default().push(pa);
            }
            self.tables.insert(pa, Table { words: linked.words, spots: Vec::new() });
        }
        let Some(table) = self.tables.get_mut(&pa) else { return };
        table.spots.push(spot);
        moved.tables.push((pa, spot));
        for slot in table.valid() {
            self.linked_slot(slot, &spot, format, memory, moved);
        }
    }

    /// Adds what one slot leads to.
    pub(super) fn linked_slot(
        &mut self,
        (index, word): (usize, u64),
        spot: &Spot,
        format: &Format,
        memory: &mut impl Memory,
        moved: &mut Moved,
    ) {
        if let Some((table, below)) = moved.slot(format, spot, index, word) {
            self.link(table, below, format, memory, moved);
        }
    }

    /// Takes out what one slot led to.
    pub(super) fn unlinked_slot(
        &mut self,
        (index, word): (usize, u64),
        spot: &Spot,
        format: &Format,
        moved: &mut Moved,
    ) {
        if let Some((table, below)) = moved.slot(format, spot, index, word) {
            self.unlink(table, below, format, moved);
        }
    }

    /// Takes a table out of a place, and all that it led to.
    pub(super) fn unlink(&mut self, pa: u64, spot: Spot, format: &Format, moved: &mut Moved) {
        let Some(table) = self.tables.get_mut(&pa) else { return };
        let Some(at) = table.spots.iter().position(|s| *s == spot) else {
            return;
        };
        let spot = table.spots.swap_remove(at);
        moved.tables.push((pa, spot));
        for slot in table.valid() {
            self.unlinked_slot(slot, &spot, format, moved);
        }
        if self.tables.get(&pa).is_some_and(|table| table.spots.is_empty())
            && let Some(table) = self.tables.remove(&pa)
        {
            for frame in frames(pa, table.words.len()) {
                self.filter.remove(frame << FRAME, FRAME);
                if let Some(here) = self.frames.get_mut(&frame) {
                    here.retain(|&other| other != pa);
                    if here.is_empty() {
                        self.frames.remove(&frame);
                    }
                }
            }
        }
    }
}
