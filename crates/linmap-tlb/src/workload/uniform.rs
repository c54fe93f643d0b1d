//! Accesses to one line anywhere in an area: only the reach of a TLB helps.

use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::access_pattern::AccessPattern;
use crate::memory::{Area, Areas, Memory};

/// The area.
pub(crate) struct Uniform(Area);

impl Uniform {
    pub(crate) fn new(areas: &mut Areas, bytes: u64) -> Self {
        Self(areas.area(bytes))
    }
}

impl AccessPattern for Uniform {
    /// Makes 64 accesses. Their pages are looked up first, so that the host's cache misses overlap.
    fn step(&mut self, memory: &mut Memory, random: &mut Pcg64Mcg) {
        let mut at = [0; 64];
        at.iter_mut().for_each(|at| *at = random.random_range(0..self.0.bytes));
        for at in &mut at {
            *at = memory.address(self.0, *at);
        }
        at.into_iter().for_each(|at| memory.access(at, 1));
    }
}
