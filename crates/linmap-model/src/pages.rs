//! Table pages: their owners, their contents, and the stores that walkers may not see yet.

use std::ops::Range;

use linmap::Geometry;
use linmap::arch::{Descriptor, Entry, Level};

pub(crate) use crate::place::Place;
use crate::{CpuId, Setup, stage2};

/// The state of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Not taken.
    Free,
    /// Taken; no walker can reach it.
    Offline,
    /// Part of a tree.
    Linked(Place),
    /// Unlinked from a tree, and walk caches may still lead to it.
    Unlinked,
}

#[derive(Clone)]
pub(crate) struct Page {
    pub(crate) state: State,
    pub(crate) words: Vec<u64>,
    /// A bit for each CPU that stored into it and has not executed a DSB since.
    pub(crate) unseen: u8,
    /// The events after which walkers see the slots that became valid in a live tree; empty if none did.
    pub(crate) made_valid: Vec<usize>,
    /// The event at which it was unlinked from a tree, if it was since it was taken.
    pub(crate) live_until: Option<usize>,
}

/// All table pages there are.
pub(crate) struct Pages {
    base: u64,
    shift: u32,
    pages: Vec<Page>,
    /// Pages with unseen stores, each with the CPU.
    dirty: Vec<(CpuId, u64)>,
}

/// The contents of a page that was just taken. They would translate, so that a slot that is not written is noticed.
pub(crate) const POISON: u64 = 0x0060_0000_dead_0703;

/// A piece of a map: one entry of a tree, clipped to the requested addresses.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) va: u64,
    pub(crate) last: u64,
    /// The first address of the entry, at or before `va`.
    pub(crate) start: u64,
    pub(crate) level: Level,
    pub(crate) entry: Entry,
}

/// Returns true for a descriptor that is a valid member of a contiguous run.
pub(crate) const fn is_member(descriptor: u64) -> bool {
    const VALID_AND_CONTIGUOUS: u64 = 1 << 52 | 1;
    descriptor & VALID_AND_CONTIGUOUS == VALID_AND_CONTIGUOUS
}

impl Pages {
    pub(crate) fn new(setup: &Setup) -> Self {
        let free = Page {
            state: State::Free,
            words: Vec::new(),
            unseen: 0,
            made_valid: Vec::new(),
            live_until: None,
        };
        Self {
            base: setup.tables_at,
            shift: setup.geometry.page_shift(),
            pages: vec![free; setup.tables],
            dirty: Vec::new(),
        }
    }

    fn number(&self, table: u64) -> Option<usize> {
        let offset = table.checked_sub(self.base)?;
        let aligned = offset & ((1 << self.shift) - 1) == 0;
        let number = usize::try_from(offset >> self.shift).ok()?;
        (aligned && number < self.pages.len()).then_some(number)
    }

    /// The page at an address, if it is a table page at all.
    pub(crate) fn get(&self, table: u64) -> Option<&Page> {
        self.number(table).map(|n| &self.pages[n])
    }

    pub(crate) fn get_mut(&mut self, table: u64) -> Option<&mut Page> {
        self.number(table).map(|n| &mut self.pages[n])
    }

    /// Takes a page: whatever it held is poison now.
    pub(crate) fn take(&mut self, table: u64) {
        let words = 1 << (self.shift - 3);
        if let Some(page) = self.get_mut(table) {
            page.state = State::Offline;
            page.words.clear();
            page.words.resize(words, POISON);
            page.made_valid.clear();
            page.live_until = None;
        }
    }

    /// Gives a page back: no walker will see what was stored there.
    pub(crate) fn give_back(&mut self, table: u64) {
        if let Some(page) = self.get_mut(table) {
            page.state = State::Free;
            page.unseen = 0;
        }
        self.dirty.retain(|d| d.1 != table);
    }

    /// The addresses of all pages in a state.
    pub(crate) fn having(&self, mut wanted: impl FnMut(State) -> bool) -> impl Iterator<Item = u64> {
        let found = self.pages.iter().enumerate().filter(move |(_, p)| wanted(p.state));
        found.map(|(n, _)| self.base + ((n as u64) << self.shift))
    }

    /// Returns the first page from `first` to `last` that is taken.
    pub(crate) fn taken_in(&self, first: u64, last: u64) -> Option<u64> {
        let size = 1 << self.shift;
        let end = self.base + self.pages.len() as u64 * size;
        let within = (first.max(self.base) & !(size - 1)..end).step_by(size as usize);
        within
            .take_while(|&table| table <= last)
            .find(|&table| self.get(table).is_some_and(|p| p.state != State::Free))
    }

    /// Stores descriptors. Walkers are sure to see them after the CPU's next DSB.
    pub(crate) fn store(&mut self, cpu: CpuId, table: u64, index: usize, values: impl Iterator<Item = u64>) {
        let mut new = false;
        if let Some(page) = self.get_mut(table) {
            for (slot, value) in page.words.iter_mut().skip(index).zip(values) {
                *slot = value;
            }
            new = page.unseen & 1 << cpu == 0;
            page.unseen |= 1 << cpu;
        }
        if new {
            self.dirty.push((cpu, table));
        }
    }

    /// Makes the stores of a CPU visible, at its DSB.
    pub(crate) fn settle(&mut self, cpu: CpuId) {
        let (mine, others): (Vec<_>, Vec<_>) = self.dirty.drain(..).partition(|d| d.0 == cpu);
        self.dirty = others;
        for &(_, table) in &mine {
            if let Some(page) = self.get_mut(table) {
                page.unseen &= !(1 << cpu);
            }
        }
    }

    /// Notes the event after which walkers see that a slot is valid.
    pub(crate) fn seen_valid(&mut self, (table, slot): (u64, usize), at: usize) {
        if let Some(page) = self.get_mut(table) {
            page.made_valid.resize(page.words.len(), 0);
            if let Some(made) = page.made_valid.get_mut(slot) {
                *made = at;
            }
        }
    }

    /// Returns the pages with stores that walkers may not see yet, each with the CPU that stored.
    pub(crate) fn dirty(&self) -> impl Iterator<Item = (CpuId, u64)> {
        self.dirty.iter().copied()
    }

    /// Returns true if a table has a valid entry.
    pub(crate) fn has_entries(&self, table: u64) -> bool {
        self.get(table).is_some_and(|p| p.words.iter().any(|w| w & 1 == 1))
    }

    /// The tables below the entries of a table at `level`, each with its place.
    pub(crate) fn children(&self, table: u64, place: Place, g: Geometry) -> Vec<(u64, Place)> {
        let (Some(page), true) = (self.get(table), place.level != Level::PAGE) else { return Vec::new() };
        let shift = g.level_shift(place.level);
        let words = page.words.iter().take(g.entries(place.level)).enumerate();
        let tables = words.filter_map(|(i, &word)| match Descriptor(word).decode(g, place.level) {
            Entry::Table(child) => {
                let va = place.va.wrapping_add((i as u64) << shift);
                Some((child.0, place.below(word, va)))
            }
            _ => None,
        });
        tables.collect()
    }

    /// Calls `each` for the entries of a table, and of the tables below it, that translate addresses
    /// from `first` to `last`: leaves, holes and reserved entries, in address order.
    pub(crate) fn walk<E>(
        &self,
        (table, place): (u64, Place),
        (first, last): (u64, u64),
        g: Geometry,
        each: &mut impl FnMut(Piece) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(page) = self.get(table) else { return Ok(()) };
        let shift = g.level_shift(place.level);
        let slot_of = |va: u64| va.checked_sub(place.va).map_or(0, |offset| (offset >> shift) as usize);
        let (mut next, end) = (slot_of(first), slot_of(last).min(g.entries(place.level) - 1));
        while next <= end {
            let index = next;
            let Some(&word) = page.words.get(index) else { break };
            // Empty slots in a row are one hole.
            let holes = page.words[index..=end].iter().take_while(|&&w| w == 0).count();
            next += holes.max(1);
            let start = place.va.wrapping_add((index as u64) << shift);
            let end = start + (((next - index) as u64) << shift).wrapping_sub(1);
            let (va, last) = (start.max(first), end.min(last));
            match stage2::decode(word, g, place) {
                Entry::Table(child) => {
                    self.walk((child.0, place.below(word, start)), (va, last), g, each)?;
                }
                entry => {
                    each(Piece { va, last, start, level: place.level, entry })?;
                }
            }
        }
        Ok(())
    }

    /// Calls `each` for a table, and for the tables below it that translate addresses from `first` to `last`, with
    /// the slots that do.
    pub(crate) fn tables<E>(
        &self,
        (table, place): (u64, Place),
        (first, last): (u64, u64),
        g: Geometry,
        each: &mut impl FnMut((u64, Place), Range<usize>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Some(page) = self.get(table) else { return Ok(()) };
        let shift = g.level_shift(place.level);
        let slot_of = |va: u64| va.checked_sub(place.va).map_or(0, |offset| (offset >> shift) as usize);
        let slots = slot_of(first)..slot_of(last).min(g.entries(place.level) - 1) + 1;
        each((table, place), slots.clone())?;
        if place.level == Level::PAGE {
            return Ok(());
        }
        for index in slots.filter(|&index| page.words.get(index).is_some_and(|w| w & 1 == 1)) {
            if let Entry::Table(child) = Descriptor(page.words[index]).decode(g, place.level) {
                let va = place.va.wrapping_add((index as u64) << shift);
                self.tables((child.0, place.below(page.words[index], va)), (first, last), g, each)?;
            }
        }
        Ok(())
    }
}
