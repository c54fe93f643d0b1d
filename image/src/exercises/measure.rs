//! How long work over RAM takes with the map in pages and in large leaves, on this CPU.
//!
//! The memory is the scratch range. It becomes pages by one call of `split_to_pages` and large leaves by one of
//! `collapse`, again and again: the same RAM, the same data, the same steps. Where the policy permits only one of the
//! two, that one is measured. Each result is compared with one that is calculated, so a translation that is wrong
//! shows as a wrong result, not as a good time.
//!
//! - `events`: what the PMU counts.  `workers`: CPUs that begin a step together.  `cell`: the turns of one cell.
//! - `changes`: what changes of the map take.

mod cell;
mod changes;
mod events;
mod workers;

use kernel::measure::emulation;
use kernel_plan::measure::{Effort, Map, cells};
use linmap::{Policy, Va};

use self::cell::Bench;
use self::changes::Changes;
use self::events::Events;
use super::scratch::scratch;
use super::tally::Tally;
use crate::clock::counter_frequency;
use crate::console::{self, say};
use crate::leaf::Leaf;
use crate::system::System;
use crate::warning::warn;
use crate::{cpu, psci};

/// Measures. Returns true if each result was right and the map is as before.
#[inline(never)]
pub(super) fn run(system: &System<'_>, effort: Effort) -> bool {
    let range = &system.memory.scratch.range;
    let Some(start) = scratch(system, "measure", 1) else { return true };
    if counter_frequency() == 0 {
        warn(format_args!("run=measure: CNTFRQ_EL0 is 0: the firmware has not set the counter's frequency"));
        return false;
    }
    let uid = system.machine.conduit.and_then(|_| psci::vendor_uid());
    let emulated = emulation::is_emulated(&system.machine.model, system.features.midr, uid);
    let effort = effort.on(emulated);
    let bytes = range.end.0 - range.start.0;
    let tally = Tally::start("measure", system);
    let maps = maps(system.space.policy());
    begin(system, (start, bytes), (effort, emulated), maps);
    let bench = Bench::new(system, &tally, start, maps);
    let cpus = cpu::running().count() as u64;
    let mut all = 0;
    for cell in cells(effort, bytes, cpus) {
        bench.measure(&cell);
        all += 1;
    }
    Changes { system, tally: &tally, effort }.measure();
    tally.conclude(
        format_args!("{all} works over RAM in turns, and {} steps", bench.steps()),
        &[("cells", all), ("steps", bench.steps()), ("turns", bench.turns())],
    )
}

/// Returns the maps that a policy permits.
const fn maps(policy: Policy) -> &'static [Map] {
    match policy {
        Policy::Live | Policy::Park => &Map::ALL,
        Policy::Pages => &[Map::Pages],
        Policy::Fixed => &[Map::Large],
    }
}

/// Prints the circumstances.
fn begin(system: &System<'_>, (start, bytes): (Va, u64), (effort, emulated): (Effort, bool), maps: &[Map]) {
    if emulated {
        say!("measure: this CPU is emulated: its times mean nothing");
    }
    let large = Leaf::at(system, start).filter(|_| maps.contains(&Map::Large));
    console::write(format_args!(
        "linmap: {{\"measure\":{{\"emulated\":{emulated},\"effort\":\"{effort}\",\"start\":\"{}\",\"bytes\":{bytes},\
         \"counter_hz\":{},\"leaf_bytes\":{{",
        system.memory.scratch.range.start,
        counter_frequency()
    ));
    for (n, map) in maps.iter().enumerate() {
        let leaf = match map {
            Map::Pages => system.geometry.page_size(),
            Map::Large => large.map_or(0, |leaf| leaf.size.bytes()),
        };
        console::write(format_args!("{}\"{}\":{leaf}", if n == 0 { "" } else { "," }, map.name()));
    }
    console::write(format_args!("}},\"events\":["));
    for (n, name) in Events::of_this_cpu().names().enumerate() {
        console::write(format_args!("{}\"{name}\"", if n == 0 { "" } else { "," }));
    }
    say!("]}}}}");
}
