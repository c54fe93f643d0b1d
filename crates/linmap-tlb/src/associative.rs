//! An associative memory: keys in sets of some ways. A full set evicts its least recently used key, or any.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::cpu_core::Replacement;
use crate::fully_associative::FullyAssociative;

/// Keys in sets; a fully associative memory has one set.
pub(crate) enum Associative {
    Sets(Sets),
    Full(FullyAssociative),
}

impl Associative {
    /// Returns an empty memory. `seed` is for random replacement.
    pub(crate) fn new(entries: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        // A few ways are searched one by one, which is faster than a hash table.
        if ways == entries && ways > 8 {
            Self::Full(FullyAssociative::new(entries, replacement, seed))
        } else {
            Self::Sets(Sets::new(entries / ways, ways, replacement, seed))
        }
    }

    /// Looks a key up and marks it as used; returns true if it is there. Keys are not 0. `number` chooses the set.
    #[inline]
    pub(crate) fn touch(&mut self, key: u64, number: u64) -> bool {
        match self {
            Self::Sets(sets) => sets.touch(key, number),
            Self::Full(full) => full.touch(key),
        }
    }

    /// Adds a key that is not there.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, number: u64) {
        match self {
            Self::Sets(sets) => sets.insert(key, number),
            Self::Full(full) => full.insert(key),
        }
    }
}

/// Sets of few ways. Each set has its most recently used key first; 0 is a free way.
pub(crate) struct Sets {
    keys: Vec<u64>,
    ways: usize,
    sets: u64,
    /// The bits of a number that choose the set, if the number of sets is a power of two.
    mask: Option<u64>,
    random: Option<Pcg64Mcg>,
}

impl Sets {
    fn new(sets: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        let random = (replacement == Replacement::Random).then(|| Pcg64Mcg::seed_from_u64(seed));
        let mask = sets.is_power_of_two().then(|| sets as u64 - 1);
        Self { keys: vec![0; sets * ways], ways, sets: sets as u64, mask, random }
    }

    #[inline]
    fn set(&mut self, number: u64) -> &mut [u64] {
        let set = match self.mask {
            Some(mask) => number & mask,
            None => number % self.sets,
        } as usize;
        &mut self.keys[set * self.ways..][..self.ways]
    }

    #[inline]
    fn touch(&mut self, key: u64, number: u64) -> bool {
        let by_age = self.random.is_none();
        let set = self.set(number);
        match set.iter().position(|kept| *kept == key) {
            Some(place) => {
                if by_age {
                    move_first(set, place, key);
                }
                true
            }
            None => false,
        }
    }

    fn insert(&mut self, key: u64, number: u64) {
        let ways = self.ways;
        let victim = self.random.as_mut().map(|random| random.random_range(0..ways));
        let set = self.set(number);
        match victim {
            Some(victim) => {
                let place = set.iter().position(|kept| *kept == 0).unwrap_or(victim);
                set[place] = key;
            }
            None => move_first(set, ways - 1, key),
        }
    }
}

/// Puts a key first and moves the keys before `place` back by one; the key at `place` is overwritten.
#[inline]
fn move_first(set: &mut [u64], place: usize, key: u64) {
    let mut carried = key;
    for slot in set.iter_mut().take(place + 1) {
        std::mem::swap(slot, &mut carried);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use test_support::prelude::*;

    /// The same in the simplest form: a list for each set, most recently used first.
    struct Plain {
        sets: Vec<VecDeque<u64>>,
        ways: usize,
    }

    impl Plain {
        fn access(&mut self, key: u64, number: u64) -> bool {
            let count = self.sets.len() as u64;
            let set = &mut self.sets[(number % count) as usize];
            let found = set.iter().position(|kept| *kept == key);
            match found {
                Some(place) => drop(set.remove(place)),
                None => set.truncate(self.ways - 1),
            }
            set.push_front(key);
            found.is_some()
        }
    }

    proptest! {
        #[test]
        fn agrees_with_lists(
            shape in prop::sample::select(vec![(1, 1), (4, 4), (12, 12), (48, 48), (15, 5), (16, 2), (7, 1)]),
            keys in prop::collection::vec(1u64..80, 0..600),
        ) {
            let (entries, ways) = shape;
            let mut store = Associative::new(entries, ways, Replacement::LeastRecentlyUsed, 0);
            let mut plain = Plain { sets: vec![VecDeque::new(); entries / ways], ways };
            for key in keys {
                let hit = store.touch(key, key);
                if !hit {
                    store.insert(key, key);
                }
                prop_assert_eq!(hit, plain.access(key, key));
            }
        }

        /// An inserted key is found at once, and no more keys are kept than there are entries.
        #[test]
        fn random_replacement_keeps_as_many_keys_as_entries(keys in prop::collection::vec(1u64..200, 1..600)) {
            for (entries, ways) in [(48, 48), (20, 5)] {
                let mut store = Associative::new(entries, ways, Replacement::Random, 3);
                for key in &keys {
                    if !store.touch(*key, *key) {
                        store.insert(*key, *key);
                    }
                    prop_assert!(store.touch(*key, *key));
                }
                let kept = (1..200).filter(|key| store.touch(*key, *key)).count();
                prop_assert!(kept <= entries);
            }
        }
    }
}
