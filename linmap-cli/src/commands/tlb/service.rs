//! A service over a hash table, as a cache of objects is one: buckets, items of several sizes in slabs, keys of
//! which some are asked for much more often than others, and what the network takes for each request.

use rand::RngExt;
use rand_distr::{Distribution, Zipf};
use rand_pcg::Pcg64Mcg;

use super::memory::{Area, Areas, Memory, Slab};
use super::workload::Step;

/// Sizes of items, as many of each; with header, key and value.
const ITEMS: [u64; 5] = [128, 256, 512, 1024, 2048];
/// What is read of an item that is passed on the way to another.
const HEADER: u64 = 64;
/// How uneven keys are: the exponent that is usual for caches.
const EXPONENT: f64 = 0.99;
/// One request in so many stores.
const STORES: u32 = 10;
/// Connections, and packets that are in turn.
const CONNECTIONS: u64 = 1024;
const SOCKET: u64 = 2048;
const PACKETS: u64 = 4096;
const PACKET: u64 = 256;
const FRAGMENT: u64 = 2048;

/// The service.
pub(crate) struct Service {
    buckets: Area,
    items: [Slab; ITEMS.len()],
    count: u64,
    popularity: Option<Zipf<f64>>,
    sockets: Slab,
    packets: Slab,
    fragments: Slab,
    next: u64,
}

impl Service {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let a_round: u64 = ITEMS.iter().sum();
        let rounds = (bytes / a_round).max(1);
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

    /// The first bytes of an item.
    fn item(&self, memory: &mut Memory, item: u64, bytes: u64) -> u64 {
        let kinds = ITEMS.len() as u64;
        let slab = &self.items[(item % kinds) as usize];
        memory.object(slab, item / kinds, bytes);
        slab.size
    }

    /// A packet: its descriptor and so much of what it carries.
    fn packet(&mut self, memory: &mut Memory, bytes: u64) {
        memory.object(&self.packets, self.next, PACKET);
        memory.object(&self.fragments, self.next, bytes);
        self.next += 1;
    }
}

impl Step for Service {
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let rank = self.popularity.map_or(0, |zipf| zipf.sample(random) as u64);
        let hash = scrambled(rank);
        let item = hash % self.count;
        let stores = random.random_range(0..STORES) == 0;
        self.packet(memory, if stores { FRAGMENT } else { 64 });
        memory.object(&self.sockets, random.random_range(0..CONNECTIONS), 256);
        memory.touch(self.buckets, hash.wrapping_mul(8) % self.buckets.bytes, 8);
        // Buckets hold one item and a half on average.
        if hash >> 32 & 1 == 1 {
            self.item(memory, scrambled(hash) % self.count, HEADER);
        }
        let size = self.item(memory, item, u64::MAX);
        if stores {
            // The list of what was used last.
            for neighbour in [1, 2] {
                self.item(memory, scrambled(hash ^ neighbour) % self.count, HEADER);
            }
        } else {
            self.packet(memory, size);
        }
    }
}

/// A number that looks random and is always the same.
const fn scrambled(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}
