//! What a TLB keeps: keys in sets, of which the least recently used or any goes when there is no room.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::core::Replacement;
use super::full::Full;

/// Fully associative stores have one set, and find a key by its hash.
pub(crate) enum Store {
    Sets(Sets),
    Full(Full),
}

impl Store {
    /// An empty one.
    pub(crate) fn new(entries: usize, ways: usize, replacement: Replacement, seed: u64) -> Self {
        // A few ways are found faster one by one.
        if ways == entries && ways > 8 {
            Self::Full(Full::new(entries, replacement, seed))
        } else {
            Self::Sets(Sets::new(entries / ways, ways, replacement, seed))
        }
    }

    /// Whether the key is there; it has then been used. Keys are not 0. `number` chooses the set.
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

/// Sets of few ways, most recently used first.
pub(crate) struct Sets {
    keys: Vec<u64>,
    ways: usize,
    sets: u64,
    /// Where the number of sets is a power of two: what of a number chooses the set.
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
        let by_use = self.random.is_none();
        let set = self.set(number);
        match set.iter().position(|kept| *kept == key) {
            Some(place) => {
                if by_use {
                    use_first(set, place, key);
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
            None => use_first(set, ways - 1, key),
        }
    }
}

/// Puts a key in front, and what was before `place` one further.
#[inline]
fn use_first(set: &mut [u64], place: usize, key: u64) {
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

    /// As simple as can be: a list for each set, most recently used first.
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
            let mut store = Store::new(entries, ways, Replacement::LeastRecentlyUsed, 0);
            let mut plain = Plain { sets: vec![VecDeque::new(); entries / ways], ways };
            for key in keys {
                let hit = store.touch(key, key);
                if !hit {
                    store.insert(key, key);
                }
                prop_assert_eq!(hit, plain.access(key, key));
            }
        }

        /// What was just inserted is there, and no more than there is room for.
        #[test]
        fn random_replacement_keeps_its_room(keys in prop::collection::vec(1u64..200, 1..600)) {
            for (entries, ways) in [(48, 48), (20, 5)] {
                let mut store = Store::new(entries, ways, Replacement::Random, 3);
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
