//! The costs of walks: addresses are translated one by one, as a kernel does to find out what is mapped somewhere.

use kernel::stress::Random;
use linmap::{Pa, SharedSpace, Va};

use super::counted::counted;
use super::tally::Tally;
use crate::report;
use crate::system::System;
use crate::warning::warn;

/// The number of addresses.
const ADDRESSES: usize = 1000;

/// Counts this for addresses of the linear map, in the longest range of RAM.
pub(crate) fn count(tally: &Tally<'_>, system: &System<'_>) {
    let layout = &system.memory.layout;
    let bytes = |start: Pa, end: Pa| end.min(layout.mapped().end).0.saturating_sub(start.0);
    let longest = layout.ram().iter().max_by_key(|range| bytes(range.start, range.end));
    let Some((start, range)) = longest.and_then(|range| Some((layout.va(range.start)?, range))) else {
        return warn(format_args!("walk: not counted, as there is no RAM where the linear map starts"));
    };
    let backing = |va: Va| Pa(va.0.wrapping_sub(layout.offset()));
    count_in(tally, system, "walk", system.space, (start, bytes(range.start, range.end)), backing);
}

/// Counts this for addresses of a range, chosen at random, the same in every run. `backing` returns the expected memory of
/// each.
pub(crate) fn count_in(
    tally: &Tally<'_>,
    system: &System<'_>,
    name: &str,
    space: &SharedSpace,
    (start, bytes): (Va, u64),
    backing: impl Fn(Va) -> Pa,
) {
    let mut random = Random::from(1);
    // Chosen before, so that the window has little but the look-ups.
    let addresses: [Va; ADDRESSES] =
        core::array::from_fn(|_| Va(start.0 + random.below(bytes as usize) as u64));
    let expected = addresses.iter().fold(0, |sum: u64, &va| sum.wrapping_add(backing(va).0));
    let (sum, window) = counted(system, || {
        let found = |&va: &Va| translate(system, space, va);
        addresses.iter().try_fold(0, |sum: u64, va| Some(sum.wrapping_add(found(va)?.0)))
    });
    tally.expect(sum == Some(expected), format_args!("{name}: {ADDRESSES} addresses are translated"));
    report::window(name, &window, &[("addresses", Some(ADDRESSES as u64))]);
}

/// Returns the memory that an address is mapped to.
fn translate(system: &System<'_>, space: &SharedSpace, va: Va) -> Option<Pa> {
    space.on(&system.platform()).read(|reader| reader.translate(va))
}
