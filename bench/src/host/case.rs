//! One operation on one map: a sample of what it takes with one library, and what must come of it.

use std::hint::black_box;

use linmap::Level;

use super::{Loop, Plan, Pool};
use crate::clock::timed;
use crate::libraries::{Lacks, Leaves, Library, Map};

/// How many addresses are looked up in a sample.
pub(crate) const LOOK_UPS: usize = 1 << 16;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// The map is made.
    Create,
    /// All of it becomes read-only; and writable again, which counts as a second time.
    Protect,
    /// A page of each leaf becomes read-only, by a call for each.
    ProtectParts,
    /// All leaves become pages, by one call.
    Split,
    /// Pages become the leaves that are planned, by one call.
    Collapse,
    /// All leaves are visited.
    Walk,
    /// Single addresses, one by one.
    LookUp,
}

/// Each sample writes at least so many bytes of tables.
const SAMPLE: usize = 16 << 20;
/// Small maps are made several at once, up to so many bytes of tables: reading the clock takes time too.
const AT_ONCE: usize = 256 << 10;

/// An operation on a map.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) operation: Operation,
    pub(crate) plan: Plan,
    /// How many maps there are at once.
    pub(crate) copies: usize,
    /// How often a sample makes them.
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

    /// How many table pages all maps at once take.
    pub(crate) fn pages(&self) -> usize {
        self.tables() * self.copies
    }

    /// How many table pages there are at most in one map.
    pub(crate) fn tables(&self) -> usize {
        use Operation::*;
        match self.operation {
            ProtectParts | Split | Collapse => self.plan.in_pages().tables() as usize,
            Create | Protect | Walk | LookUp => self.plan.tables() as usize,
        }
    }

    /// The least that has to be done to each entry of them.
    pub(crate) fn ideal(&self) -> Loop {
        use Operation::*;
        match self.operation {
            Create | ProtectParts | Split => Loop::Fill,
            Protect => Loop::Change,
            Collapse | Walk | LookUp => Loop::Read,
        }
    }

    /// What the operation finds.
    fn before(&self) -> Plan {
        if self.operation == Operation::Collapse { self.plan.in_pages() } else { self.plan }
    }

    /// The leaves that it leaves behind, in the middle where there are two halves of it.
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

/// Nanoseconds that the operation takes with a library. If `checked`, leaves are counted afterwards.
pub(crate) fn sample<L: Library>(pool: &Pool, case: &Case, checked: bool) -> Result<f64, Lacks> {
    let (plan, mut total) = (case.before(), 0);
    for _ in 0..case.turns {
        let pages = L::pages(pool);
        let mut maps = Vec::with_capacity(case.copies);
        let mut create = || {
            for _ in 0..case.copies {
                maps.push(L::create(&pages, black_box(&plan))?);
            }
            Ok(())
        };
        match case.operation {
            Operation::Create => timed(&mut total, create)?,
            _ => create()?,
        }
        run::<L>(&mut maps, case, &mut total)?;
        if checked {
            assert_eq!(maps[0].leaves(), case.after(), "{:?}", case.operation);
        }
        if case.operation == Operation::Protect {
            timed(&mut total, || maps.iter_mut().try_for_each(|map| map.protect(false)))?;
        }
    }
    let halves = if case.operation == Operation::Protect { 2 } else { 1 };
    Ok(total as f64 / (case.turns * case.copies * halves) as f64)
}

/// Carries the operation out on maps that are there, or the first half of it.
fn run<L: Library>(maps: &mut [L::Map<'_>], case: &Case, total: &mut i64) -> Result<(), Lacks> {
    match case.operation {
        Operation::Create => Ok(()),
        Operation::Protect => timed(total, || maps.iter_mut().try_for_each(|map| map.protect(true))),
        Operation::ProtectParts => timed(total, || maps.iter_mut().try_for_each(Map::protect_parts)),
        Operation::Split => timed(total, || maps.iter_mut().try_for_each(Map::split)),
        Operation::Collapse => timed(total, || maps.iter_mut().try_for_each(Map::collapse)),
        Operation::Walk => {
            let leaves = timed(total, || maps.iter().map(Map::walk).sum::<Result<u64, _>>())?;
            assert_eq!(leaves, maps.len() as u64 * case.plan.leaves());
            Ok(())
        }
        Operation::LookUp => {
            let addresses = case.plan.addresses(LOOK_UPS);
            let sums =
                timed(total, || maps.iter().map(|map| map.look_up(&addresses)).sum::<Result<u64, _>>())?;
            let expected = addresses.iter().map(|a| a - super::OFFSET + case.plan.pa).sum::<u64>();
            assert_eq!(sums, maps.len() as u64 * expected);
            Ok(())
        }
    }
}
