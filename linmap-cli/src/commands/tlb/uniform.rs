//! One line anywhere in an area: what no TLB can help with but by its reach.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::memory::{Area, Areas, Memory};
use super::workload::Step;

/// An area.
pub(crate) struct Uniform(Area);

impl Uniform {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        Self(areas.area(bytes))
    }
}

impl Step for Uniform {
    /// Several at once: where the pages are is then looked up for all of them before the first access.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let mut at = [0; 64];
        at.iter_mut().for_each(|at| *at = random.random_range(0..self.0.bytes));
        for at in &mut at {
            *at = memory.address(self.0, *at);
        }
        at.into_iter().for_each(|at| memory.at(at, 1));
    }
}
