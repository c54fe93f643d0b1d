//! What a kernel does to its linear map: the workloads by name, and what each goes through again and again.
//!
//! - `files`: page cache, ramdisk, encryption.  `service`: a hash table.  `fork`: page tables.

use clap::ValueEnum;
use rand_pcg::Pcg64Mcg;

use super::files::{Cached, Encrypt, Ramdisk};
use super::fork::Fork;
use super::memory::{Areas, Memory};
use super::service::Service;
use super::uniform::Uniform;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Workload {
    /// A large file is read from the page cache, from its start to its end
    PageCacheRead,
    /// 4K reads from a ramdisk at random places
    RamdiskRandom,
    /// 4K reads from a ramdisk, one behind the other
    RamdiskSequential,
    /// Pages are read, encrypted and written into new ones, as disk encryption does
    Encrypt,
    /// A service looks keys up in a hash table, some much more often than others
    HashService,
    /// Processes fork: their page tables are copied
    Fork,
    /// One line anywhere, again and again: no locality at all
    Uniform,
}

impl Workload {
    /// All that a kernel does; `uniform` is only for comparison.
    pub(crate) const USUAL: [Self; 6] = [
        Self::PageCacheRead,
        Self::RamdiskRandom,
        Self::RamdiskSequential,
        Self::Encrypt,
        Self::HashService,
        Self::Fork,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Its memory, of about so many bytes, and what to do with it.
    pub(crate) fn prepare(self, areas: &mut Areas, bytes: u64) -> Box<dyn Step> {
        match self {
            Self::PageCacheRead => Box::new(Cached::new(areas, bytes)),
            Self::RamdiskRandom => Box::new(Ramdisk::new(areas, bytes, true)),
            Self::RamdiskSequential => Box::new(Ramdisk::new(areas, bytes, false)),
            Self::Encrypt => Box::new(Encrypt::new(areas, bytes)),
            Self::HashService => Box::new(Service::new(areas, bytes)),
            Self::Fork => Box::new(Fork::new(areas, bytes)),
            Self::Uniform => Box::new(Uniform::new(areas, bytes)),
        }
    }
}

/// A workload under way.
pub(crate) trait Step {
    /// Does the next piece of work: a page, a read, a request, a fork of some tables.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg);
}
