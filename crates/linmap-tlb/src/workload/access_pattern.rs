//! A workload in progress, as all workloads are run.

use rand_pcg::Pcg64Mcg;

use crate::memory::Memory;

/// A workload in progress.
pub(crate) trait AccessPattern {
    /// Makes the accesses of one piece of work: a page, a read, a request, the tables of one area.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg);
}
