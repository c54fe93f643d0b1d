//! A fully associative store: a hash table says where a key is, a linked list which was used least recently.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::core::Replacement;

/// No place.
const NONE: u32 = u32::MAX;

/// Keys with their places; the list goes from the most recently used to the least.
pub(crate) struct Full {
    slots: Vec<Slot>,
    used: usize,
    first: u32,
    last: u32,
    /// Places by the hash of their key, the next free entry where that is taken.
    table: Vec<u32>,
    random: Option<Pcg64Mcg>,
}

#[derive(Clone, Copy)]
struct Slot {
    key: u64,
    before: u32,
    after: u32,
}

impl Full {
    pub(crate) fn new(entries: usize, replacement: Replacement, seed: u64) -> Self {
        let random = (replacement == Replacement::Random).then(|| Pcg64Mcg::seed_from_u64(seed));
        let slots = vec![Slot { key: 0, before: NONE, after: NONE }; entries];
        let table = vec![NONE; (entries * 4).next_power_of_two()];
        Self { slots, used: 0, first: NONE, last: NONE, table, random }
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.table.len() - 1)
    }

    /// Where in the table a key is, or where it would be.
    #[inline]
    fn find(&self, key: u64) -> usize {
        let mut at = self.home(key);
        while self.table[at] != NONE && self.slots[self.table[at] as usize].key != key {
            at = (at + 1) & (self.table.len() - 1);
        }
        at
    }

    #[inline]
    pub(crate) fn touch(&mut self, key: u64) -> bool {
        let place = self.table[self.find(key)];
        if place == NONE {
            return false;
        }
        if place != self.first && self.random.is_none() {
            self.unlink(place);
            self.link_first(place);
        }
        true
    }

    pub(crate) fn insert(&mut self, key: u64) {
        let place = if self.used < self.slots.len() {
            self.used += 1;
            self.used as u32 - 1
        } else {
            let victim = match &mut self.random {
                Some(random) => random.random_range(0..self.slots.len()) as u32,
                None => self.last,
            };
            self.forget(self.slots[victim as usize].key);
            self.unlink(victim);
            victim
        };
        self.slots[place as usize].key = key;
        let at = self.find(key);
        self.table[at] = place;
        self.link_first(place);
    }

    /// Takes a key out of the table, and moves back those that stood behind it for want of room.
    fn forget(&mut self, key: u64) {
        let mask = self.table.len() - 1;
        let mut hole = self.find(key);
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            if self.table[at] == NONE {
                break;
            }
            let home = self.home(self.slots[self.table[at] as usize].key);
            // It may move if its home is not between the hole and itself.
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(hole) & mask) {
                self.table[hole] = self.table[at];
                hole = at;
            }
        }
        self.table[hole] = NONE;
    }

    fn unlink(&mut self, place: u32) {
        let Slot { before, after, .. } = self.slots[place as usize];
        match before {
            NONE => self.first = after,
            before => self.slots[before as usize].after = after,
        }
        match after {
            NONE => self.last = before,
            after => self.slots[after as usize].before = before,
        }
    }

    fn link_first(&mut self, place: u32) {
        let first = self.first;
        let slot = &mut self.slots[place as usize];
        (slot.before, slot.after) = (NONE, first);
        match first {
            NONE => self.last = place,
            first => self.slots[first as usize].before = place,
        }
        self.first = place;
    }
}
