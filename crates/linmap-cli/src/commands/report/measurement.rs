//! The values of a measurement, as the image wrote them.

use std::collections::BTreeMap;

use serde::Deserialize;

/// All of it, with the facts about the machine that it needs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Measurement {
    /// The file's name.
    pub(crate) name: String,
    pub(crate) machine: String,
    pub(crate) cpu: String,
    pub(crate) page_size: u64,
    pub(crate) va_bits: u32,
    pub(crate) policy: String,
    /// RAM as mapped: first address, and the address after the last.
    pub(crate) ram: Vec<(u64, u64)>,
    /// The physical address of the memory that is worked on.
    pub(crate) start: u64,
    pub(crate) setting: Setting,
    pub(crate) cells: Vec<Cell>,
    pub(crate) changes: Changes,
    /// The reason why the run did not come to its end, if it did not.
    pub(crate) cut_off: Option<String>,
    /// The number of other measurements before it in its file.
    pub(crate) earlier: usize,
}

/// The circumstances.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Setting {
    pub(crate) emulated: bool,
    pub(crate) effort: String,
    /// The memory that is worked on, in bytes.
    pub(crate) bytes: u64,
    /// The size of a leaf, by map.
    pub(crate) leaf_bytes: BTreeMap<String, u64>,
}

/// One work over one set on some CPUs.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Cell {
    pub(crate) work: String,
    pub(crate) bytes: u64,
    pub(crate) cpus: u64,
    /// Those of all CPUs in one turn.
    pub(crate) steps: u64,
    /// The bytes of a step.
    pub(crate) step_bytes: u64,
    pub(crate) wrong: u64,
    pub(crate) pages: Option<Turns>,
    pub(crate) large: Option<Turns>,
}

/// All turns over one map.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Turns {
    pub(crate) turns: u64,
    pub(crate) ns: Ns,
    /// Medians of what the PMU counted of a turn, by name.
    #[serde(flatten)]
    pub(crate) counts: BTreeMap<String, u64>,
}

/// The least time, the quartiles and the longest time, in nanoseconds.
pub(crate) type Ns = [u64; 5];

/// Times of changes of the map, with their names, in the order in which they were timed.
pub(crate) type Changes = Vec<(String, Change)>;

/// The times of one kind of change.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct Change {
    pub(crate) times: u64,
    pub(crate) ns: Ns,
}

impl Measurement {
    /// Returns the number of wrong results.
    pub(crate) fn wrong(&self) -> u64 {
        self.cells.iter().fold(0, |sum, cell| sum.saturating_add(cell.wrong))
    }

    /// Returns the cell of a work over a set on so many CPUs.
    pub(crate) fn cell(&self, (work, bytes, cpus): (&str, u64, u64)) -> Option<&Cell> {
        self.cells.iter().find(|cell| (&*cell.work, cell.bytes, cell.cpus) == (work, bytes, cpus))
    }
}

impl Cell {
    /// Returns true if its numbers can be divided by.
    pub(crate) const fn is_possible(&self) -> bool {
        self.cpus != 0 && self.steps >= self.cpus && self.step_bytes != 0
    }

    /// Returns the steps of one CPU in one turn.
    pub(crate) const fn own_steps(&self) -> u64 {
        self.steps / self.cpus
    }

    /// Returns the nanoseconds of a step, from the median of the turns.
    pub(crate) fn ns_of_step(&self, turns: &Turns) -> f64 {
        turns.ns[2] as f64 / self.own_steps() as f64
    }

    /// Returns an event for each 1,000 steps. Cycles are those of the slowest CPU, other events those of all CPUs.
    pub(crate) fn of_1000_steps(&self, turns: &Turns, event: &str) -> Option<f64> {
        let steps = if event == "cycles" { self.own_steps() } else { self.steps };
        turns.counts.get(event).map(|count| *count as f64 * 1000.0f64 / steps as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::tests::{parsed, smallest};

    #[test]
    fn cycles_are_of_one_cpu_and_other_events_of_all() {
        let mut value = smallest();
        let cell = &mut value["measure"]["cells"]["loads-1048576-1"];
        (cell["cpus"], cell["steps"]) = (4.into(), 4000.into());
        cell["pages"]["dtlb_walk"] = 2000.into();
        let measurement = parsed(&value).expect("a measurement");
        let cell = &measurement.cells[0];
        let pages = cell.pages.as_ref().expect("turns");
        // 3,000 cycles, of 1,000 steps on each CPU.
        let counts = ["cycles", "dtlb_walk", "none"].map(|event| cell.of_1000_steps(pages, event));
        assert_eq!(counts, [Some(3000.0), Some(500.0), None]);
    }
}
