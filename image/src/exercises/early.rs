//! Reports the splits during the boot (`early.rs` of the kernel), which has ended.

use linmap::Policy;

use super::tally::Tally;
use crate::cpu;
use crate::early::{self, Moment};
use crate::system::System;

/// Returns true if no split was refused, and there was one at each moment.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("early", system);
    let others = cpu::running().count() as u64 - 1;
    let fixed = system.space.policy() == Policy::Fixed;
    for (moment, name) in Moment::ALL {
        let least = if moment == Moment::Created { 1 } else { others };
        let splits = early::splits(moment);
        tally.expect(fixed || splits >= least, format_args!("{splits} splits at the moment '{name}'"));
    }
    tally.expect(early::failed() == 0, "a split during the boot failed");
    let numbers = Moment::ALL.map(|(moment, name)| (name, early::splits(moment)));
    tally.conclude(format_args!("a leaf was split at each moment of the boot"), &numbers)
}
