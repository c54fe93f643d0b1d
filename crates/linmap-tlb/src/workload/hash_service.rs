//! A service over a hash table, such as a cache of objects: buckets, items of several sizes in slabs, keys of uneven
//! popularity, and the network packets of each request.

use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

use super::access_pattern::AccessPattern;
use crate::memory::{Area, Areas, Memory, Slab};

/// Bytes of an item with header, key and value; there are as many items of each size.
const ITEMS: [u64; 5] = [128, 256, 512, 1024, 2048];
/// Bytes that are read of an item in the same bucket that is not the one looked for.
const HEADER: u64 = 64;
/// The exponent of Zipf's law for keys, as is usual for caches.
const EXPONENT: f64 = 0.99;
/// One request in so many is a store.
const STORES: u32 = 10;
/// Connections and bytes of a socket; packets, used in turn, and bytes of their descriptor and their content.
const CONNECTIONS: u64 = 1024;
const SOCKET: u64 = 2048;
const PACKETS: u64 = 4096;
const PACKET: u64 = 256;
const FRAGMENT: u64 = 2048;

/// The service's memory.
pub(crate) struct HashService {
    buckets: Area,
    items: [Slab; ITEMS.len()],
    count: u64,
    popularity: Option<Zipf<f64>>,
    sockets: Slab,
    packets: Slab,
    fragments: Slab,
    next: u64,
}

impl HashService {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let one_of_each: u64 = ITEMS.iter().sum();
        let rounds = (bytes / one_of_each).max(1);
        let count = rounds * ITEMS.len() as u64;
        Self {
            buckets: areas.area(count.next_power_of_two() * 8),
            items: ITEMS.map(|size| areas.slab(rounds, size)),
            count,
            popularity: Zipf::new(count as f64, EXPONENT).ok(),
            sockets: areas.slab(CONNECTIONS, SOCKET),
            packets: areas.slab(PACKETS, PACKET),
            fragments: areas.slab(PACKETS, FRAGMENT),
            next: 0,
        }
    }

    /// Accesses the first bytes of an item, and returns its size.
    fn item(&self, memory: &mut Memory, item: u64, bytes: u64) -> u64 {
        let kinds = ITEMS.len() as u64;
        let slab = &self.items[(item % kinds) as usize];
        memory.object(slab, item / kinds, bytes);
        slab.size
    }

    /// Accesses the next packet: its descriptor and so many bytes of its content.
    fn packet(&mut self, memory: &mut Memory, bytes: u64) {
        memory.object(&self.packets, self.next, PACKET);
        memory.object(&self.fragments, self.next, bytes);
        self.next += 1;
    }
}

impl AccessPattern for HashService {
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let rank = self.popularity.map_or(0, |zipf| zipf.sample(random) as u64);
        let hash = scrambled(rank);
        let item = hash % self.count;
        let is_store = random.random_range(0..STORES) == 0;
        self.packet(memory, if is_store { FRAGMENT } else { 64 });
        memory.object(&self.sockets, random.random_range(0..CONNECTIONS), 256);
        memory.touch(self.buckets, hash.wrapping_mul(8) % self.buckets.bytes, 8);
        // Buckets hold one item and a half on average.
        if hash >> 32u32 & 1 == 1 {
            self.item(memory, scrambled(hash) % self.count, HEADER);
        }
        let size = self.item(memory, item, u64::MAX);
        if is_store {
            // Its neighbours in the list of recently used items.
            for neighbour in [1, 2] {
                self.item(memory, scrambled(hash ^ neighbour) % self.count, HEADER);
            }
        } else {
            self.packet(memory, size);
        }
    }
}

/// Returns a hash of a number (SplitMix64).
const fn scrambled(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
