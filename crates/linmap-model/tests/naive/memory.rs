//! The slots that are watched, and what walkers may see in them.

use crate::descriptor::{Leaf, Meaning, meaning};
use crate::places::{L2, place};

/// A store that walkers may see, or will.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub(crate) value: u64,
    pub(crate) meaning: Meaning,
    /// The CPU that stored it, if no DSB of that CPU followed yet.
    pub(crate) by: Option<u8>,
}

/// A slot of a table.
pub(crate) type Slot = (u64, usize);

/// A table of level 2 or 3.
#[derive(Clone, Debug)]
struct Table {
    address: u64,
    /// For each watched slot of its level the values that walkers may see, in the order of the stores. None while its
    /// content is undefined.
    slots: Vec<Vec<Store>>,
}

/// Returns the level of a table.
pub(crate) fn level_of(table: u64) -> u8 {
    if table == L2 { 2 } else { 3 }
}

/// All tables, as far as they are watched.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    tables: Vec<Table>,
    /// The watched slots of tables of level 2 and 3.
    watched: [Vec<usize>; 2],
    /// The number of each slot among those that are watched.
    number: [Vec<Option<usize>>; 2],
}

impl Memory {
    pub(crate) fn new(watched: &[u64]) -> Self {
        let slots = |at: fn((usize, usize)) -> usize| {
            let mut slots: Vec<_> = watched.iter().map(|&va| at(place(va))).collect();
            slots.sort_unstable();
            slots.dedup();
            slots
        };
        let watched = [slots(|place| place.0), slots(|place| place.1)];
        let number = [0, 1].map(|i: usize| {
            let mut number = vec![None; 512];
            watched[i].iter().enumerate().for_each(|(n, &slot)| number[slot] = Some(n));
            number
        });
        Self { tables: Vec::new(), watched, number }
    }

    /// Returns the slots of a table that are watched.
    pub(crate) fn watched(&self, table: u64) -> &[usize] {
        &self.watched[usize::from(level_of(table) - 2)]
    }

    fn number(&self, (table, slot): Slot) -> Option<usize> {
        *self.number[usize::from(level_of(table) - 2)].get(slot)?
    }

    /// Returns what walkers may see in a slot.
    pub(crate) fn seen(&self, slot: Slot) -> &[Store] {
        let table = self.tables.iter().find(|t| t.address == slot.0);
        let seen = table.and_then(|table| table.slots.get(self.number(slot)?));
        seen.map_or(&[], Vec::as_slice)
    }

    pub(crate) fn visible(&self, slot: Slot) -> impl Iterator<Item = Meaning> {
        self.seen(slot).iter().map(|store| store.meaning)
    }

    /// Returns the value of the last store into a slot, and its meaning.
    pub(crate) fn newest(&self, slot: Slot) -> Option<(u64, Meaning)> {
        self.seen(slot).last().map(|store| (store.value, store.meaning))
    }

    /// Returns the leaf that the newest store into a slot made, if a walker may use it.
    pub(crate) fn newest_leaf(&self, slot: Slot) -> Option<Leaf> {
        self.newest(slot)?.1.translating()
    }

    /// Returns the level 3 table that a level 2 slot leads to.
    pub(crate) fn child(&self, slot: usize) -> Option<u64> {
        match self.newest((L2, slot))?.1 {
            Meaning::Table(child) => Some(child),
            _ => None,
        }
    }

    pub(crate) fn is_linked(&self, table: u64) -> bool {
        table == L2 || self.watched[0].iter().any(|&slot| self.child(slot) == Some(table))
    }

    /// Stores, by a CPU whose DSB must follow or by none.
    pub(crate) fn store(&mut self, (table, slot): Slot, value: u64, by: Option<u8>) {
        let Some(number) = self.number((table, slot)) else { return };
        let count = self.watched(table).len();
        let known = self.tables.iter().position(|t| t.address == table);
        let at = known.unwrap_or_else(|| {
            self.tables.push(Table { address: table, slots: vec![Vec::new(); count] });
            self.tables.len() - 1
        });
        let seen = &mut self.tables[at].slots[number];
        if by.is_none() {
            seen.clear();
        }
        seen.push(Store { value, meaning: meaning(value, level_of(table)), by });
    }

    /// Notes a CPU's DSB: what it stored is what walkers see, or something newer. Returns false if another CPU's store,
    /// which has had no DSB, is older by the order of the events: by that order alone it is not sure to be.
    pub(crate) fn settle(&mut self, cpu: u8) -> bool {
        let mut sure = true;
        for seen in self.tables.iter_mut().flat_map(|t| &mut t.slots) {
            if let Some(last) = seen.iter().rposition(|s| s.by == Some(cpu)) {
                sure &= seen[..last].iter().all(|s| s.by.is_none_or(|by| by == cpu));
                seen.drain(..last);
                seen[0].by = None;
            }
        }
        sure
    }

    /// Forgets a table that is given back.
    pub(crate) fn forget(&mut self, table: u64) {
        self.tables.retain(|t| t.address != table);
    }

    /// Returns true if walkers may miss a store of a CPU into a table that is in use.
    pub(crate) fn has_unseen(&self, cpu: u8) -> bool {
        let unseen = |t: &&Table| t.slots.iter().flatten().any(|s| s.by == Some(cpu));
        self.tables.iter().filter(unseen).any(|t| self.is_linked(t.address))
    }
}
