//! The tables as the events so far say, for exporters: contents, roots, and the slot that answers for an address.

use std::collections::HashMap;

use linmap::arch::{Descriptor, Entry, Level, TableLimits};
use linmap::{Geometry, Half};

use super::error::Why;
use crate::pages::{POISON, Place};
use crate::space::Space;
use crate::{CpuId, Event, Register, Setup};

/// Table pages with their contents, and the roots that CPUs have loaded.
pub(super) struct Tables {
    pub(super) g: Geometry,
    /// True if all CPUs have TLBIs by range. Those without need not heed one.
    pub(super) range_tlbi: bool,
    first: u64,
    end: u64,
    words: HashMap<u64, Vec<u64>>,
    /// The place of each table that a loaded root leads to.
    linked: HashMap<u64, Place>,
    /// TTBR0 and TTBR1 of each CPU: the root and the ASID.
    loaded: HashMap<(CpuId, usize), (u64, u16)>,
}

/// The slot where the walk for an address ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Found {
    pub(super) table: u64,
    pub(super) index: usize,
    pub(super) level: Level,
    /// The first address that the slot translates.
    pub(super) va: u64,
    pub(super) word: u64,
}

impl Found {
    /// The last address that the slot translates.
    pub(super) fn last(&self, g: Geometry) -> u64 {
        self.va | ((1 << g.level_shift(self.level)) - 1)
    }
}

impl Tables {
    pub(super) fn new(setup: &Setup) -> Self {
        let bytes = (setup.tables as u64).saturating_mul(setup.geometry.page_size());
        let end = setup.tables_at.saturating_add(bytes);
        let (words, linked, loaded) = (HashMap::new(), HashMap::new(), HashMap::new());
        let range_tlbi = setup.cores.iter().all(|c| c.range_tlbi);
        Self { g: setup.geometry, range_tlbi, first: setup.tables_at, end, words, linked, loaded }
    }

    /// Returns the slots that a store writes, each with its value.
    pub(super) fn slots(
        &self,
        table: u64,
        index: usize,
        (value, count, step): (u64, usize, u64),
    ) -> Result<Vec<(usize, u64)>, Why> {
        let entries = 1usize << (self.g.page_shift() - 3);
        match index.checked_add(count) {
            Some(end) if end <= entries && self.is_page(table) => {
                let values = (0..).map(|n: u64| value.wrapping_add(step.wrapping_mul(n)));
                Ok((index..end).zip(values).collect())
            }
            _ => Err(Why::NotInMachine),
        }
    }

    fn is_page(&self, table: u64) -> bool {
        let aligned = table & (self.g.page_size() - 1) == 0;
        aligned && (self.first..self.end).contains(&table)
    }

    /// Carries out what an event changes in memory and in the table base registers.
    ///
    /// # Errors
    ///
    /// A table page or a slot that does not exist; a store that no exporter expresses.
    pub(super) fn apply(&mut self, event: &Event) -> Result<(), Why> {
        match *event {
            Event::Write { table, index, value, count, step, .. } => {
                let slots = self.slots(table, index, (value, count, step))?;
                let words = self.words.get_mut(&table).ok_or(Why::NotInMachine)?;
                for &(index, value) in &slots {
                    words[index] = value;
                }
                if self.linked.contains_key(&table) {
                    slots.iter().for_each(|&(index, _)| self.link_below(table, index));
                }
            }
            Event::Alloc { table, .. } if self.is_page(table) => {
                self.words.insert(table, vec![POISON; 1 << (self.g.page_shift() - 3)]);
            }
            Event::Free { table, .. } if self.is_page(table) => {
                self.words.remove(&table);
                self.linked.remove(&table);
            }
            Event::Alloc { .. } | Event::Free { .. } => return Err(Why::NotInMachine),
            Event::Msr { cpu, register, value } => {
                if let Some(half) = half_of(register) {
                    let root = Register::root(value, self.g.oa_format());
                    self.loaded.insert((cpu, half), (root, (value >> 48u32) as u16));
                    let half = if half == 0 { Half::Lower } else { Half::Upper };
                    let (level, va, space) = (self.g.root(), self.g.base(half), Space::HOME);
                    let limits = TableLimits::empty();
                    self.link(root, Place { root, level, va, space, limits });
                }
            }
            Event::Cas { .. } => return Err(Why::NoSuchEvent { lacks: "compare-and-swap of an entry" }),
            Event::Update { .. } => return Err(Why::NoSuchEvent { lacks: "updates of entries by walkers" }),
            Event::Reset { cpu } => self.loaded.retain(|of, _| of.0 != cpu),
            _ => {}
        }
        Ok(())
    }

    /// The root and the ASID with which a CPU translates an address, if it has loaded one.
    pub(super) fn loaded(&self, cpu: CpuId, va: u64) -> Option<(u64, u16)> {
        self.loaded.get(&(cpu, usize::from(va >> 63 == 1))).copied()
    }

    /// Returns true if some CPU has loaded a root.
    pub(super) fn is_live(&self, root: u64) -> bool {
        self.loaded.values().any(|l| l.0 == root)
    }

    /// The slot where the walk for an address ends: a leaf, or an invalid entry.
    pub(super) fn find(&self, root: u64, va: u64) -> Option<Found> {
        let (mut table, mut level) = (root, self.g.root());
        loop {
            let index = self.g.index(va, level);
            let word = *self.words.get(&table)?.get(index)?;
            match Descriptor(word).decode(self.g, level) {
                Entry::Table(child) if level != Level::PAGE => (table, level) = (child.0, level.next()),
                _ => {
                    let va = va & !((1 << self.g.level_shift(level)) - 1);
                    return Some(Found { table, index, level, va, word });
                }
            }
        }
    }

    /// Notes the place of a table, and of the tables below it. A table in two places keeps the first.
    fn link(&mut self, table: u64, place: Place) {
        if !self.words.contains_key(&table) || self.linked.contains_key(&table) {
            return;
        }
        self.linked.insert(table, place);
        (0..self.g.entries(place.level)).for_each(|index| self.link_below(table, index));
    }

    /// Notes the places of the tables below a slot.
    fn link_below(&mut self, table: u64, index: usize) {
        let Some(slot) = self.slot(table, index).filter(|s| s.level != Level::PAGE) else { return };
        if let (Entry::Table(child), Some(&place)) =
            (Descriptor(slot.word).decode(self.g, slot.level), self.linked.get(&table))
        {
            self.link(child.0, place.below(slot.word, slot.va));
        }
    }

    /// The root of the tree that a table is in, if a CPU has loaded it.
    pub(super) fn tree_of(&self, table: u64) -> Option<u64> {
        self.linked.get(&table).map(|place| place.root)
    }

    /// A slot of a table that is in a tree.
    pub(super) fn slot(&self, table: u64, index: usize) -> Option<Found> {
        let place = self.linked.get(&table)?;
        let word = *self.words.get(&table)?.get(index)?;
        let va = place.va.wrapping_add((index as u64) << self.g.level_shift(place.level));
        Some(Found { table, index, level: place.level, va, word })
    }
}

/// The half that a table base register translates: 0 for the lower one.
pub(super) const fn half_of(register: Register) -> Option<usize> {
    match register {
        Register::Ttbr0 => Some(0),
        Register::Ttbr1 => Some(1),
        _ => None,
    }
}
