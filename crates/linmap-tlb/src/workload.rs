//! Workloads: the kernel's own use of its linear map, each a pattern of accesses that repeats.
//!
//! - `files`: page cache, ramdisk, encryption.  `hash_service`: a hash table.  `fork`: page tables.  `uniform`: no locality.

mod access_pattern;
mod files;
mod fork;
mod hash_service;
mod uniform;

use crate::memory::Areas;
use access_pattern::AccessPattern;
use files::{Encrypt, PageCache, Ramdisk};
use fork::Fork;
use hash_service::HashService;
use uniform::Uniform;

/// An activity of a kernel that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Reads a large file from the page cache, from its start to its end.
    PageCacheRead,
    /// Reads 4K from a ramdisk at random places.
    RamdiskRandom,
    /// Reads 4K from a ramdisk in order of address.
    RamdiskSequential,
    /// Reads pages, encrypts them and writes them into new ones, as disk encryption does.
    Encrypt,
    /// Looks keys up in the hash table of a service, some of them much more often than others.
    HashService,
    /// Copies page tables, as processes fork.
    Fork,
    /// Accesses one line anywhere: no locality at all.
    Uniform,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::PageCacheRead,
        Self::RamdiskRandom,
        Self::RamdiskSequential,
        Self::Encrypt,
        Self::HashService,
        Self::Fork,
        Self::Uniform,
    ];

    /// Returns its name, such as `ramdisk-random`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PageCacheRead => "page-cache-read",
            Self::RamdiskRandom => "ramdisk-random",
            Self::RamdiskSequential => "ramdisk-sequential",
            Self::Encrypt => "encrypt",
            Self::HashService => "hash-service",
            Self::Fork => "fork",
            Self::Uniform => "uniform",
        }
    }

    /// Allocates its memory, about so many bytes, and returns its pattern of accesses.
    pub(crate) fn prepare(self, areas: &mut Areas, bytes: u64) -> Box<dyn AccessPattern> {
        match self {
            Self::PageCacheRead => Box::new(PageCache::new(areas, bytes)),
            Self::RamdiskRandom => Box::new(Ramdisk::new(areas, bytes, true)),
            Self::RamdiskSequential => Box::new(Ramdisk::new(areas, bytes, false)),
            Self::Encrypt => Box::new(Encrypt::new(areas, bytes)),
            Self::HashService => Box::new(HashService::new(areas, bytes)),
            Self::Fork => Box::new(Fork::new(areas, bytes)),
            Self::Uniform => Box::new(Uniform::new(areas, bytes)),
        }
    }
}
