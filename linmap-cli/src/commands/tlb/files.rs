//! Files in memory: read from the page cache, read from a ramdisk, encrypted on their way to a disk.
//!
//! A file's pages are found through a tree of nodes (Linux's xarray: 64 slots, 576 bytes). What is read goes to
//! user space through other addresses than the linear map's, but for a ramdisk: it copies into the pages of a
//! request, which the kernel reaches through the linear map as well.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::memory::{Area, Areas, Memory, Slab};
use super::workload::Step;

/// What a read asks for.
const READ: u64 = 4096;
/// Slots of a node, and its size.
const SLOTS: u64 = 64;
const NODE: u64 = 576;
/// What a request is made of, and how many of it are in turn: a bio and what hangs on it.
const REQUEST: u64 = 256;
const REQUESTS: u64 = 128;

/// The pages of a file and the tree that finds them.
struct File {
    data: Area,
    page: u64,
    /// From the lowest level up to the one that has one node.
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

    /// Finds the page with this number: one slot of each node on the way down.
    fn find(&self, memory: &mut Memory, page: u64) {
        for (level, nodes) in self.nodes.iter().enumerate().rev() {
            memory.object(nodes, page / SLOTS.pow(level as u32 + 1), 8);
        }
    }
}

/// A file read from the page cache, page by page.
pub(crate) struct Cached {
    file: File,
    next: u64,
}

impl Cached {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        Self { file: File::new(areas, bytes), next: 0 }
    }
}

impl Step for Cached {
    fn step(&mut self, memory: &mut Memory, _: &mut Pcg64Mcg) {
        let page = self.file.page;
        self.file.find(memory, self.next);
        memory.touch(self.file.data, self.next * page, page);
        self.next = (self.next + 1) % (self.file.data.bytes / page);
    }
}

/// 4K reads from a ramdisk into the pages of requests.
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

impl Step for Ramdisk {
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

/// Pages of a file, encrypted sector by sector into pages of a pool, which go to the disk by DMA.
pub(crate) struct Encrypt {
    file: File,
    requests: Slab,
    /// The schedule of keys and the state of the cipher.
    context: Area,
    pool: Area,
    next: u64,
}

/// What disk encryption works on.
const SECTOR: u64 = 512;
/// Pages of the pool that are in turn.
const POOL: u64 = 1024;
/// The expanded key of AES-256, and an initial vector.
const CONTEXT: u64 = 15 * 16 + 16;

impl Encrypt {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        let file = File::new(areas, bytes);
        let (requests, context) = (areas.slab(REQUESTS, REQUEST), areas.area(CONTEXT));
        let pool = areas.area(POOL * file.page);
        Self { file, requests, context, pool, next: 0 }
    }
}

impl Step for Encrypt {
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
