//! The result of a run: counts, the survivors that nobody has judged, and the judgements that are out of date.

use std::fmt;

use crate::mutant::Mutant;
use crate::outcome::{Outcome, Outcomes};
use crate::survivors::{Survivor, Survivors, Verdict};

/// The result of a run.
#[derive(Default)]
pub(crate) struct Report {
    population: usize,
    sample: usize,
    caught: usize,
    timeouts: usize,
    unviable: usize,
    equivalent: usize,
    speed: usize,
    /// Survivors that are not in the list: tests are missing.
    holes: Vec<String>,
    /// Rows of mutants that do not exist any more.
    gone: Vec<Survivor>,
    /// Rows of mutants that a test has caught.
    dead: Vec<(Survivor, Outcome)>,
}

impl Report {
    /// Counts the outcomes of a sample, and compares the survivors with the list of those that are known.
    pub(crate) fn new(
        population: &[Mutant],
        sample: &[&Mutant],
        outcomes: &Outcomes,
        known: &Survivors,
    ) -> Self {
        let gone = known.all.iter().filter(|row| !population.iter().any(|mutant| row.is(mutant)));
        let mut report = Self { population: population.len(), sample: sample.len(), ..Self::default() };
        report.gone = gone.cloned().collect();
        for mutant in sample {
            if let Some(outcome) = outcomes.of(mutant) {
                report.count(mutant, outcome, known.of(mutant));
            }
        }
        report
    }

    fn count(&mut self, mutant: &Mutant, outcome: &Outcome, row: Option<&Survivor>) {
        match (outcome, row.map(|row| row.verdict)) {
            (Outcome::Caught(_), _) => self.caught += 1,
            (Outcome::Timeout(_), _) => self.timeouts += 1,
            (Outcome::Unviable, _) => self.unviable += 1,
            (Outcome::Survived, Some(Verdict::Equivalent)) => self.equivalent += 1,
            (Outcome::Survived, Some(Verdict::Speed)) => self.speed += 1,
            (Outcome::Survived, None) => {
                self.holes.push(format!("{}\n    {}", mutant.name, mutant.code));
            }
        }
        if let (Some(row), false) = (row, *outcome == Outcome::Survived) {
            self.dead.push((row.clone(), outcome.clone()));
        }
    }

    /// True if every survivor is in the list, and every row of it is of a mutant that exists.
    pub(crate) fn is_fine(&self) -> bool {
        self.holes.is_empty() && self.gone.is_empty()
    }

    /// The share of caught mutants, in percent, of those that a test can tell from the library.
    fn percentage(&self) -> f64 {
        let caught = self.caught + self.timeouts;
        let all = caught + self.speed + self.holes.len();
        if all == 0 { 100.0 } else { 100.0 * caught as f64 / all as f64 }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for hole in &self.holes {
            writeln!(f, "survives, and is not in the list: {hole}")?;
        }
        for row in &self.gone {
            writeln!(f, "in the list, and no such mutant exists: {row}")?;
        }
        for (row, outcome) in &self.dead {
            writeln!(f, "in the list, and {outcome}: {row}")?;
        }
        writeln!(f, "{} of {} mutants:", self.sample, self.population)?;
        writeln!(f, "  {:5} caught, {} more by time", self.caught, self.timeouts)?;
        writeln!(f, "  {:5} unviable", self.unviable)?;
        writeln!(f, "  {:5} equivalent", self.equivalent)?;
        writeln!(f, "  {:5} speed alone", self.speed)?;
        writeln!(f, "  {:5} holes", self.holes.len())?;
        write!(f, "{:.1}% of those that a test can tell from the library are caught", self.percentage())
    }
}
