//! The costs of single uses of page tables, as in microbenchmarks of other kernels: single pages, pages of the vmalloc area and
//! their permissions, modules, the tables of a process, walks.

use super::tally::Tally;
use super::{churn, copies, costs, singles, walks};
use crate::area::Area;
use crate::system::System;

/// Counts all of it. Returns true if all went well and nothing is left.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("micro", system);
    let area = Area::of(system);
    singles::count(&tally, system);
    costs::count(&tally, area);
    churn::count(&tally, area);
    walks::count(&tally, system);
    copies::count(&tally, system);
    tally.conclude(format_args!("pages and tables came and went, and nothing of them is left"), &[])
}
