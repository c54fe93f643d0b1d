//! What counts come to over several seeds: means and how far seeds are apart.

use super::experiment::Outcome;
use super::unit::Counts;
use linmap_plot::Spread;

/// What is counted: its names, and what it is of one run.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    of: fn(&Counts) -> f64,
}

/// For each 1,000 accesses.
pub(crate) const FIGURES: [Figure; 3] = [
    Figure { name: "L1 misses", key: "l1_misses", of: |c| per_thousand(c.l1_misses, c) },
    Figure { name: "L2 misses (walks)", key: "walks", of: |c| per_thousand(c.walks, c) },
    Figure { name: "reads of walks", key: "walk_reads", of: |c| per_thousand(c.walk_reads, c) },
];

fn per_thousand(count: u64, counts: &Counts) -> f64 {
    count as f64 * 1000.0 / counts.accesses.max(1) as f64
}

impl Figure {
    /// In pages and in large leaves.
    pub(crate) fn spreads(&self, outcome: &Outcome) -> [Spread; 2] {
        [0, 1].map(|map| spread(outcome.counts.iter().map(|counts| (self.of)(&counts[map]))))
    }

    /// How much less it is in large leaves, in percent; none where there is nothing to be less than.
    pub(crate) fn change(&self, outcome: &Outcome) -> Option<Spread> {
        let changes = outcome.counts.iter().map(|[pages, large]| {
            let (pages, large) = ((self.of)(pages), (self.of)(large));
            (large - pages) * 100.0 / pages
        });
        let all = spread(changes);
        all.mean.is_finite().then_some(all)
    }
}

/// Mean, least and most.
fn spread(values: impl Iterator<Item = f64> + Clone) -> Spread {
    let count = values.clone().count().max(1) as f64;
    Spread {
        mean: values.clone().sum::<f64>() / count,
        least: values.clone().fold(f64::INFINITY, f64::min),
        most: values.fold(f64::NEG_INFINITY, f64::max),
    }
}
