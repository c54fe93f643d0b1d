//! The live map as the MMU has it: pages are used, then changed, then probed.
//!
//! The pages of each case and their neighbours are read and written before the first change, so that TLBs may hold
//! their translations, and one that is not invalidated shows. Where the policy rules out a change of size, the case
//! expects a refusal that changes nothing.

mod case;
mod ranges;
mod refusals;
mod vmalloc;

use self::case::{Tally, Test, expect};
use super::scratch::scratch;
use crate::console::say;
use crate::report;
use crate::system::System;

/// Tries all cases. Whether each was as it should be, and the map is in the end what it was.
pub(super) fn run(system: &System<'_>) -> bool {
    let range = &system.memory.scratch.range;
    let Some(start) = scratch(system, "selftest", 1) else { return true };
    let test = Test { system, start, bytes: range.end.0 - range.start.0 };
    let before = test.stats();
    let mut tally = Tally::default();
    test.ranges(&mut tally);
    test.pages(&mut tally);
    test.vmalloc(&mut tally);
    test.refusals(&mut tally);
    tally.add("a collapse of it all", start, test.collapse(start, test.pages_of(test.bytes)));
    tally.add("the map as it was", start, expect(test.stats() == before, "other counts than before"));
    let (tried, wrong) = (tally.tried, tally.wrong);
    let ok = wrong == 0 && tried != 0;
    say!("selftest: {tried} cases tried, {wrong} wrong\n");
    say!("linmap: {{\"tests\":{{\"selftest\":{{\"ok\":{ok},\"tried\":{tried},\"wrong\":{wrong}}}}}}}");
    ok & report::check_frames(system) & report::check_map(system)
}
