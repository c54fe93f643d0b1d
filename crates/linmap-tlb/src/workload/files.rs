//! Files in memory: reads from the page cache, reads from a ramdisk, encryption on the way to a disk.
//!
//! A file's pages are found through a tree of nodes (Linux's xarray: 64 slots, 576 bytes). Reads of the page cache go to
//! user space, which has addresses of its own. A ramdisk copies into the pages of a request instead, through the linear
//! map.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::access_pattern::AccessPattern;
use crate::memory::{Area, Areas, Memory, Slab};

/// Bytes of a read.
const READ: u64 = 4096;
/// Slots of a node, and its size in bytes.
const SLOTS: u64 = 64;
const NODE: u64 = 576;
/// Bytes of a request (a bio and its parts), and how many requests are used in turn.
const REQUEST: u64 = 256;
const REQUESTS: u64 = 128;

/// The pages of a file, and its tree.
struct File {
    data: Area,
    page: u64,
    /// The nodes of each level, the lowest first; the last has one node.
    nodes: Vec<Slab>,
}

impl File {
    fn new(areas: &mut Areas, bytes: u64) -> Self {
        let data = areas.area(bytes);
        let page = areas.page();
        let mut nodes = Vec::new();
        let mut count = data.bytes / page;
        while count > 1 {
            count = count.div_ceil(SLOTS);
            nodes.push(areas.slab(count, NODE));
        }
        Self { data, page, nodes }
    }

    /// Finds a page by its number: reads one slot of each node on the way down.
    fn find(&self, memory: &mut Memory, page: u64) {
        for (level, nodes) in self.nodes.iter().enumerate().rev() {
            memory.object(nodes, page / SLOTS.pow(level as u32 + 1), 8);
        }
    }
}

/// Reads a file from the page cache, page by page.
pub(crate) struct PageCache {
    file: File,
    next: u64,
}

impl PageCache {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        Self { file: File::new(areas, bytes), next: 0 }
    }
}

impl AccessPattern for PageCache {
    fn step(&mut self, memory: &mut Memory, _: &mut Pcg64Mcg) {
        let page = self.file.page;
        self.file.find(memory, self.next);
        memory.touch(self.file.data, self.next * page, page);
        self.next = (self.next + 1) % (self.file.data.bytes / page);
    }
}

/// Reads 4K at a time from a ramdisk into the pages of requests.
pub(crate) struct Ramdisk {
    file: File,
    requests: Slab,
    buffers: Area,
    random: bool,
    next: u64,
}

impl Ramdisk {
    pub(crate) fn new(areas: &mut Areas, bytes: u64, random: bool) -> Self {
        let file = File::new(areas, bytes);
        Self {
            file,
            requests: areas.slab(REQUESTS, REQUEST),
            buffers: areas.area(REQUESTS * READ),
            random,
            next: 0,
        }
    }
}

impl AccessPattern for Ramdisk {
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let reads = self.file.data.bytes / READ;
        let read = if self.random { random.random_range(0..reads) } else { self.next % reads };
        let at = read * READ;
        memory.object(&self.requests, self.next, REQUEST);
        self.file.find(memory, at / self.file.page);
        memory.touch(self.file.data, at, READ);
        memory.touch(self.buffers, self.next * READ, READ);
        self.next += 1;
    }
}

/// Encrypts the pages of a file sector by sector into pages of a pool, which go to the disk by DMA.
pub(crate) struct Encrypt {
    file: File,
    requests: Slab,
    /// The key schedule and the initial vector.
    context: Area,
    pool: Area,
    next: u64,
}

/// Bytes that disk encryption handles at a time.
const SECTOR: u64 = 512;
/// Pages of the pool, used in turn.
const POOL: u64 = 1024;
/// Bytes of the expanded key of AES-256 and of an initial vector.
const CONTEXT: u64 = 15 * 16 + 16;

impl Encrypt {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let file = File::new(areas, bytes);
        let (requests, context) = (areas.slab(REQUESTS, REQUEST), areas.area(CONTEXT));
        let pool = areas.area(POOL * file.page);
        Self { file, requests, context, pool, next: 0 }
    }
}

impl AccessPattern for Encrypt {
    fn step(&mut self, memory: &mut Memory, _: &mut Pcg64Mcg) {
        let page = self.file.page;
        memory.object(&self.requests, self.next, REQUEST);
        self.file.find(memory, self.next % (self.file.data.bytes / page));
        for sector in 0..page / SECTOR {
            let at = self.next * page + sector * SECTOR;
            memory.touch(self.context, 0, CONTEXT);
            memory.touch(self.file.data, at, SECTOR);
            memory.touch(self.pool, at, SECTOR);
        }
        self.next += 1;
    }
}
