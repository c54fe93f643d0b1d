//! One operation on one map: measures a sample with one library, and checks the resulting leaves.

use std::hint::black_box;

use linmap::arch::Level;

use super::{Loop, Plan, Pool};
use crate::counters::{Cost, measured};
use crate::libraries::{Lacks, Leaves, Library, Map};

/// The addresses looked up in a sample.
pub(crate) const LOOK_UPS: usize = 1 << 16;

/// A measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Makes the map.
    Create,
    /// Makes the whole map read-only, then writable; these are two sweeps.
    Protect,
    /// Makes one page of each leaf read-only, in one call for each.
    ProtectParts,
    /// Splits all leaves into pages, in one call.
    Split,
    /// Collapses pages to the planned leaves, in one call.
    Collapse,
    /// Visits all leaves, one by one.
    Walk,
    /// Counts all leaves by a walk.
    Count,
    /// Looks up single addresses.
    LookUp,
}

/// The least bytes of tables that a sample writes.
const SAMPLE: usize = 16 << 20;
/// Bytes of tables between two readings of the clock, which takes time too: small maps are made several at once.
const AT_ONCE: usize = 256 << 10;

/// An operation on a map.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) plan: Plan,
    /// The number of maps made at once.
    pub(crate) copies: usize,
    /// The number of times that a sample makes them.
    pub(crate) turns: usize,
}

impl Case {
    pub(crate) fn new(operation: Operation, plan: Plan) -> Self {
        let once = Self { operation, plan, copies: 1, turns: 1 };
        if operation == Operation::LookUp {
            return once;
        }
        let bytes = once.tables() * plan.geometry.page_size() as usize;
        let copies = AT_ONCE.div_ceil(bytes);
        Self { copies, turns: SAMPLE.div_ceil(copies * bytes), ..once }
    }

    /// Returns the table pages of all maps made at once.
    pub(crate) fn pages(&self) -> usize {
        self.tables() * self.copies
    }

    /// Returns the most table pages that one map has during the operation.
    pub(crate) fn tables(&self) -> usize {
        use Operation::*;
        match self.operation {
            ProtectParts | Split | Collapse => self.plan.in_pages().tables() as usize,
            Create | Protect | Walk | Count | LookUp => self.plan.tables() as usize,
        }
    }

    /// Returns the loop that does the least possible work on each entry.
    pub(crate) fn ideal(&self) -> Loop {
        use Operation::*;
        match self.operation {
            Create | ProtectParts | Split => Loop::Fill,
            Protect => Loop::Change,
            Collapse | Walk | Count | LookUp => Loop::Read,
        }
    }

    /// Returns the map that the operation starts from.
    fn before(&self) -> Plan {
        if self.operation == Operation::Collapse { self.plan.in_pages() } else { self.plan }
    }

    /// Returns the leaves after the operation; after its first half for [`Operation::Protect`].
    fn after(&self) -> Leaves {
        let (mut leaves, plan) = (Leaves::default(), self.plan);
        let pages = plan.in_pages().leaves();
        let (at, last) = (&mut leaves, Level::PAGE.number() as usize);
        match self.operation {
            Operation::Protect => at[plan.level.number() as usize][1] = plan.leaves(),
            Operation::ProtectParts => at[last] = [pages - plan.leaves(), plan.leaves()],
            Operation::Split => at[last][0] = pages,
            _ => at[plan.level.number() as usize][0] = plan.leaves(),
        }
        leaves
    }
}

/// Measures the operation with a library. Returns its cost for one map. If `checked`, compares the leaves
/// afterwards with the plan.
pub(crate) fn sample<L: Library>(pool: &Pool, case: &Case, checked: bool) -> Result<Cost, Lacks> {
    let (plan, mut total) = (case.before(), Cost::default());
    for _ in 0..case.turns {
        let pages = L::pages(pool);
        let mut built = Vec::with_capacity(case.copies);
        let mut build = || {
            for _ in 0..case.copies {
                built.push(L::build(&pages, black_box(&plan))?);
            }
            Ok(())
        };
        match case.operation {
            Operation::Create => measured(&mut total, build)?,
            _ => build()?,
        }
        let mut maps: Vec<_> = built.into_iter().map(|built| L::map(&pages, built, &plan)).collect();
        // What changes take besides the tables would push these out of the caches before the next turn.
        if case.operation != Operation::Create || checked {
            maps.iter_mut().for_each(Map::begin);
        }
        run::<L>(&mut maps, case, &mut total)?;
        if checked {
            assert_eq!(maps[0].leaves(), case.after(), "{:?}", case.operation);
        }
        if case.operation == Operation::Protect {
            measured(&mut total, || maps.iter_mut().try_for_each(|map| map.protect(false)))?;
        }
    }
    let halves = if case.operation == Operation::Protect { 2 } else { 1 };
    Ok(total.part(case.turns * case.copies * halves))
}

/// Carries out the operation, or its first half, on existing maps.
fn run<L: Library>(maps: &mut [L::Map<'_>], case: &Case, total: &mut Cost) -> Result<(), Lacks> {
    match case.operation {
        Operation::Create => Ok(()),
        Operation::Protect => measured(total, || maps.iter_mut().try_for_each(|map| map.protect(true))),
        Operation::ProtectParts => measured(total, || maps.iter_mut().try_for_each(Map::protect_parts)),
        Operation::Split => measured(total, || maps.iter_mut().try_for_each(Map::split)),
        Operation::Collapse => measured(total, || maps.iter_mut().try_for_each(Map::collapse)),
        Operation::Walk | Operation::Count => {
            let walk = if case.operation == Operation::Walk { Map::walk } else { Map::count };
            let leaves = measured(total, || maps.iter().map(walk).sum::<Result<u64, _>>())?;
            assert_eq!(leaves, maps.len() as u64 * case.plan.leaves());
            Ok(())
        }
        Operation::LookUp => {
            let addresses = case.plan.addresses(LOOK_UPS);
            let sums =
                measured(total, || maps.iter().map(|map| map.look_up(&addresses)).sum::<Result<u64, _>>())?;
            let expected = addresses.iter().map(|a| a - super::OFFSET + case.plan.pa).sum::<u64>();
            assert_eq!(sums, maps.len() as u64 * expected);
            Ok(())
        }
    }
}
