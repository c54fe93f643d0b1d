//! A fully associative memory: a hash table finds a key, and a linked list orders keys by their last use.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::cpu_core::Replacement;

/// The slot number that stands for no slot.
const NONE: u32 = u32::MAX;

/// Keys in slots. The list goes from the most recently used slot to the least recently used one.
pub(crate) struct FullyAssociative {
    slots: Vec<Slot>,
    /// The number of slots with a key.
    used: usize,
    /// The most recently used slot.
    first: u32,
    /// The least recently used slot.
    last: u32,
    /// Slot numbers by the hash of their key, with linear probing.
    table: Vec<u32>,
    random: Option<Pcg64Mcg>,
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    before: u32,
    after: u32,
}

impl FullyAssociative {
    /// Returns an empty memory. `seed` is for random replacement.
    pub(crate) fn new(entries: usize, replacement: Replacement, seed: u64) -> Self {
        let random = (replacement == Replacement::Random).then(|| Pcg64Mcg::seed_from_u64(seed));
        let slots = vec![Slot { key: 0, before: NONE, after: NONE }; entries];
        let table = vec![NONE; (entries * 4).next_power_of_two()];
        Self { slots, used: 0, first: NONE, last: NONE, table, random }
    }

    /// The table entry where the search for a key begins.
    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.table.len() - 1)
    }

    /// The table entry that has the key, or the free one where it belongs.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.table[at] != NONE && self.slots[self.table[at] as usize].key != key {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    /// Looks a key up and marks it as used; returns true if it is there.
    #[inline]
    pub(crate) fn touch(&mut self, key: u64) -> bool {
        let slot = self.table[self.find(key)];
        if slot == NONE {
            return false;
        }
        if slot != self.first && self.random.is_none() {
            self.unlink(slot);
            self.link_first(slot);
        }
        true
    }

    /// Adds a key that is not there, and evicts another one if all slots are used.
    pub(crate) fn insert(&mut self, key: u64) {
        let slot = if self.used < self.slots.len() {
            self.used += 1;
            self.used as u32 - 1
        } else {
            let victim = match &mut self.random {
                Some(random) => random.random_range(0..self.slots.len()) as u32,
                None => self.last,
            };
            self.remove_from_table(self.slots[victim as usize].key);
            self.unlink(victim);
            victim
        };
        self.slots[slot as usize].key = key;
        let at = self.find(key);
        self.table[at] = slot;
        self.link_first(slot);
    }

    /// Removes a key from the table, and moves later keys of the same probe sequence into the gap.
    fn remove_from_table(&mut self, key: u64) {
        let mask = self.table.len() - 1;
        let mut hole = self.find(key);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.table[at] == NONE {
                break;
            }
            let home = self.home(self.slots[self.table[at] as usize].key);
            // It can move unless its home lies after the hole.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.table[hole] = self.table[at];
                hole = at;
            }
        }
        self.table[hole] = NONE;
    }

    fn unlink(&mut self, slot: u32) {
        let Slot { before, after, .. } = self.slots[slot as usize];
        match before {
            NONE => self.first = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.slots[after as usize].before = before,
        }
    }

    fn link_first(&mut self, number: u32) {
        let first = self.first;
        let slot = &mut self.slots[number as usize];
        (slot.before, slot.after) = (NONE, first);
        match first {
            NONE => self.last = number,
            first => self.slots[first as usize].before = number,
        }
        self.first = number;
    }
}
