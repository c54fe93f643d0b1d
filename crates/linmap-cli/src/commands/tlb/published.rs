//! Measurements on hardware of workloads like these, to be read beside the model's figures.

use linmap_tlb::Workload;

/// A measurement that was published with patches to Linux.
pub(crate) struct Published {
    /// The figure, in percent.
    pub(crate) change: f64,
    pub(crate) what: &'static str,
    pub(crate) source: &'static str,
    /// Why the model's figures differ.
    pub(crate) difference: &'static str,
}

/// From 1,818,320,693 to 438,729,774 misses.
const RAMDISK: Published = Published {
    change: -75.9,
    what: "dTLB load misses of fio, sequential 4K reads from a ramdisk",
    source: "patches for block mappings beside a crash kernel, 2022",
    difference: "the measurement is of another core, which was not named with it, with another ramdisk, and has \
                 all loads of fio and the kernel in it; the model has those through the linear map alone, and \
                 its first level breaks blocks of 1G down to 512M",
};

const MEMCACHED: Published = Published {
    change: -28.5,
    what: "TLB misses of the kernel for each instruction, memcached",
    source: "patches for large leaves with rodata=full, 2025; AmpereOne, 256 GB",
    difference: "nothing is published of the AmpereOne's TLBs; the kernel's code, stacks, struct pages and \
                 copies to and from users are not in the linear map, miss as before, and are left out here",
};

/// Returns the measurement for a workload like this one.
pub(crate) const fn of(workload: Workload) -> Option<&'static Published> {
    match workload {
        Workload::RamdiskSequential => Some(&RAMDISK),
        Workload::HashService => Some(&MEMCACHED),
        _ => None,
    }
}
