//! The libraries behind one interface: make a map, change it, read it.

mod multiarch;
mod ours;
mod paging;
mod raw;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use multiarch::Multiarch;
pub(crate) use ours::Linmap;
pub(crate) use paging::Paging;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::X86;

use crate::host::{Plan, Pool};

/// The reason why a library cannot do an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lacks(pub(crate) &'static str);

/// The reason of libraries that only change whole leaves.
const KEEPS_LEAVES: Lacks = Lacks("does not split: it changes whole leaves");

/// The number of leaves at each level, writable and read-only, counted from the tables.
pub(crate) type Leaves = [[u64; 2]; 4];

/// A library that makes maps.
pub(crate) trait Library {
    /// The source of its table pages.
    type Pages<'p>;
    /// The tables of a map, as it returns them.
    type Built<'m>;
    /// A map made by it.
    type Map<'m>: Map;

    /// Returns the pages of a pool, all free.
    fn pages(pool: &Pool) -> Self::Pages<'_>;

    /// Builds the tables of writable memory as planned. Inlined, so that nothing is measured but the library.
    fn build<'m>(pages: &'m Self::Pages<'_>, plan: &Plan) -> Result<Self::Built<'m>, Lacks>;

    /// Returns the map that has these tables.
    fn map<'m>(pages: &'m Self::Pages<'_>, built: Self::Built<'m>, plan: &Plan) -> Self::Map<'m>;
}

/// A map that can be changed and read.
pub(crate) trait Map {
    /// Makes what it takes besides the tables to change or read them, before a measurement.
    fn begin(&mut self) {}

    /// Counts its leaves.
    fn leaves(&self) -> Leaves;

    /// Makes all of it read-only, or writable.
    fn protect(&mut self, read_only: bool) -> Result<(), Lacks>;

    /// Makes the first page of each leaf read-only, in one call for each.
    fn protect_parts(&mut self) -> Result<(), Lacks> {
        Err(KEEPS_LEAVES)
    }

    /// Splits all leaves into pages, in one call.
    fn split(&mut self) -> Result<(), Lacks> {
        Err(KEEPS_LEAVES)
    }

    /// Collapses pages to the largest leaves, in one call.
    fn collapse(&mut self) -> Result<(), Lacks> {
        Err(Lacks("does not collapse pages to blocks"))
    }

    /// Visits all leaves, one by one. Returns their number.
    fn walk(&self) -> Result<u64, Lacks>;

    /// Returns the number of all leaves, from a walk in the quickest way that it has.
    fn count(&self) -> Result<u64, Lacks> {
        self.walk()
    }

    /// Looks up each address. Returns the sum of the physical addresses.
    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks>;
}

/// Fails unless pages have 4K, the one page size of all libraries but linmap.
fn only_4k(plan: &Plan) -> Result<(), Lacks> {
    if plan.geometry.page_size() == 1 << 12 { Ok(()) } else { Err(Lacks("supports only 4K pages")) }
}
