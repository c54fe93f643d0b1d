//! The turns of one cell: the map changes, a warm-up, and then what is timed.

use core::cell::Cell as Value;

use arrayvec::ArrayVec;
use kernel::measure::spread::{median, spread};
use kernel_plan::measure::{Cell, MOST_TURNS, Map};
use linmap::Va;
use linmap::error::ChangeError;

use super::events;
use super::workers::{self, Sample};
use crate::console::{self, say};
use crate::exercises::tally::Tally;
use crate::leaf::Leaf;
use crate::parking;
use crate::system::System;

/// The samples of a cell over one map.
type Samples = ArrayVec<Sample, MOST_TURNS>;

/// Measures cells in the scratch memory.
pub(super) struct Bench<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    start: Va,
    maps: &'a [Map],
    /// The leaf at the start as it was before.
    leaf: Option<Leaf>,
    steps: Value<u64>,
    turns: Value<u64>,
}

impl<'a> Bench<'a> {
    pub(super) fn new(system: &'a System<'a>, tally: &'a Tally<'a>, start: Va, maps: &'a [Map]) -> Self {
        let leaf = Leaf::at(system, start);
        Self { system, tally, start, maps, leaf, steps: Value::new(0), turns: Value::new(0) }
    }

    /// Returns the number of steps that were timed, of all CPUs.
    pub(super) fn steps(&self) -> u64 {
        self.steps.get()
    }

    /// Returns the number of turns that were timed.
    pub(super) fn turns(&self) -> u64 {
        self.turns.get()
    }

    /// Measures a cell and prints the result. Then the map is as before.
    #[inline(never)]
    pub(super) fn measure(&self, cell: &Cell) {
        workers::fill(cell, self.start);
        let (mut samples, mut wrong) = ([Samples::new(), Samples::new()], 0);
        let mut current = None;
        for (pair, map) in cell.turns().filter(|(_, map)| self.maps.contains(map)) {
            if current != Some(map) && !self.switch(cell.bytes(), map) {
                break;
            }
            current = Some(map);
            wrong += self.turn(cell, pair, &mut samples[map as usize]);
        }
        let name = cell.work.name();
        self.tally.expect(wrong == 0, format_args!("{name}, {} bytes: {wrong} wrong results", cell.bytes()));
        self.print(cell, &samples, wrong);
        // The next set may be smaller, and its leaves larger than it.
        if let Some(largest) = self.maps.last() {
            self.switch(cell.bytes(), *largest);
        }
    }

    /// Warms up, and times a turn. Returns the number of wrong results.
    fn turn(&self, cell: &Cell, pair: usize, samples: &mut Samples) -> u64 {
        let (_, right) = workers::run(cell, self.start, cell.warm_up(pair));
        let wrong = cell.cpus - right;
        let (sample, right) = workers::run(cell, self.start, (cell.first_step(pair), cell.steps));
        samples.extend(sample);
        self.steps.set(self.steps.get() + cell.steps * cell.cpus);
        self.turns.set(self.turns.get() + 1);
        wrong + cell.cpus - right
    }

    /// Makes the map of the first so many bytes pages or large. Returns false after a mistake, which is reported.
    fn switch(&self, bytes: u64, map: Map) -> bool {
        let result = self.change(bytes, map);
        let leaf = Leaf::at(self.system, self.start);
        let right = match map {
            Map::Pages => leaf.is_some_and(|leaf| leaf.pages(self.system) == 1),
            Map::Large => leaf == self.leaf,
        };
        self.tally.done(result, "the map cannot be changed").is_some()
            && self.tally.expect(right, format_args!("for {}, the leaf is {leaf:?}", map.name()))
    }

    fn change(&self, bytes: u64, map: Map) -> Result<(), ChangeError> {
        let (space, platform) = (self.system.space, self.system.platform());
        let pages = bytes >> self.system.geometry.page_shift();
        parking::again(|| match map {
            Map::Pages => space.on(&platform).split_to_pages(self.start, pages),
            Map::Large => space.on(&platform).collapse(self.start, pages),
        })
    }

    /// Prints the result, for people and for programs.
    #[inline(never)]
    fn print(&self, cell: &Cell, samples: &[Samples; 2], wrong: u64) {
        let (name, steps) = (cell.work.name(), cell.steps * cell.cpus);
        console::write(format_args!(
            "measure: {name:10} {:>8} KiB, {:2} CPUs, ns a step:",
            cell.bytes() >> 10u32,
            cell.cpus
        ));
        for map in Map::ALL {
            if let Some(ns) = median(&mut values(&samples[map as usize], |sample| Some(sample.ns))) {
                let hundredths = (u128::from(ns) * 100 / u128::from(cell.steps)) as u64;
                console::write(format_args!(" {} {}.{:02}", map.name(), hundredths / 100, hundredths % 100));
            }
        }
        say!("");
        console::write(format_args!(
            "linmap: {{\"measure\":{{\"cells\":{{\"{name}-{}-{}\":{{\"work\":\"{name}\",\"bytes\":{},\"cpus\":{},\
             \"steps\":{steps},\"step_bytes\":{},\"wrong\":{wrong}",
            cell.bytes(),
            cell.cpus,
            cell.bytes(),
            cell.cpus,
            cell.work.step_bytes(),
        ));
        for map in Map::ALL {
            print_map(map, &samples[map as usize]);
        }
        say!("}}}}}}}}");
    }
}

/// Prints the samples over one map, if there are any: times in full, medians of what the PMU counts.
fn print_map(map: Map, samples: &Samples) {
    let Some(ns) = spread(&mut values(samples, |sample| Some(sample.ns))) else { return };
    let [least, lower, middle, upper, most] = ns;
    console::write(format_args!(
        ",\"{}\":{{\"turns\":{},\"ns\":[{least},{lower},{middle},{upper},{most}]",
        map.name(),
        samples.len()
    ));
    for (n, name) in events::names().enumerate() {
        if let Some(count) = median(&mut values(samples, |sample| sample.values[n])) {
            console::write(format_args!(",\"{name}\":{count}"));
        }
    }
    console::write(format_args!("}}"));
}

/// Returns one value of each sample that has it.
fn values(samples: &Samples, of: impl Fn(&Sample) -> Option<u64>) -> ArrayVec<u64, MOST_TURNS> {
    samples.iter().filter_map(of).collect()
}
