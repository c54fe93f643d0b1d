//! What is asked of each library: to make a map, to change it, to read it.

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

/// Why a library can not do what it is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lacks(pub(crate) &'static str);

/// Who can do no more than change whole leaves.
const KEEPS_LEAVES: Lacks = Lacks("does not split: a change is of whole leaves");

/// How many leaves a map has at each level, writable ones first, counted by reading its tables.
pub(crate) type Leaves = [[u64; 2]; 4];

/// A library that makes maps.
pub(crate) trait Library {
    /// What it takes table pages from.
    type Pages<'p>;
    /// A map of it.
    type Map<'m>: Map;

    /// The pages of a pool, all of them free.
    fn pages(pool: &Pool) -> Self::Pages<'_>;

    /// Makes a map as planned, of writable memory.
    fn create<'m>(pages: &'m Self::Pages<'_>, plan: &Plan) -> Result<Self::Map<'m>, Lacks>;
}

/// A map that can be changed and read.
pub(crate) trait Map {
    /// Its leaves.
    fn leaves(&self) -> Leaves;

    /// All of it becomes read-only, or writable.
    fn protect(&mut self, read_only: bool) -> Result<(), Lacks>;

    /// The first page of each leaf becomes read-only, by a call for each.
    fn protect_parts(&mut self) -> Result<(), Lacks> {
        Err(KEEPS_LEAVES)
    }

    /// All leaves become pages, by one call.
    fn split(&mut self) -> Result<(), Lacks> {
        Err(KEEPS_LEAVES)
    }

    /// Pages become the largest leaves again, by one call.
    fn collapse(&mut self) -> Result<(), Lacks> {
        Err(Lacks("makes no blocks of pages"))
    }

    /// Visits all leaves: how many there are.
    fn walk(&self) -> Result<u64, Lacks>;

    /// Looks these addresses up, one by one: the sum of what they translate to.
    fn look_up(&self, addresses: &[u64]) -> Result<u64, Lacks>;
}

/// All but linmap have one page size.
fn only_4k(plan: &Plan) -> Result<(), Lacks> {
    if plan.geometry.page_size() == 1 << 12 { Ok(()) } else { Err(Lacks("has pages of 4K alone")) }
}
