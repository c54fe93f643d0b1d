//! The costs of pages that come and go, as by vmalloc and vfree: taken, mapped in the area, unmapped at once, given
//! back.
//!
//! One page stays mapped beside them, so that the area keeps its tables.

use super::counted::{counted, has_room};
use super::tally::Tally;
use crate::area::Area;
use crate::report;

/// The number of times that they come and go.
const ROUNDS: u64 = 100;

/// Counts this for some numbers of pages.
pub(crate) fn count(tally: &Tally<'_>, area: Area<'_>) {
    let Some(beside) = tally.done(area.allocate(1), "no page") else { return };
    for (name, pages) in [("churn_1", 1), ("churn_16", 16), ("churn_512", 512)] {
        // Pages, and tables for them.
        if has_room(area.system, (pages + 8) * area.system.geometry.page_size(), name) {
            count_rounds(tally, area, name, pages);
        }
    }
    area.free(beside);
}

/// Counts after one round without counting, so that table pages come from where they usually do.
fn count_rounds(tally: &Tally<'_>, area: Area<'_>, name: &str, pages: u64) {
    let round = || area.allocate(pages).map(|start| _ = area.free(start));
    let before = round();
    let (done, window) = counted(area.system, || (0..ROUNDS).try_for_each(|_| round()));
    if tally.done(before.and(done), "no pages").is_some() {
        report::window(name, &window, &[("rounds", Some(ROUNDS)), ("pages", Some(pages))]);
    }
}
