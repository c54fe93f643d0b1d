//! The figures of a workload over several seeds: means, and the distance between seeds.

use linmap_plot::Spread;
use linmap_tlb::Counts;

use super::experiment::Outcome;

/// A figure: its names for people and programs, and its value for one run.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) key: &'static str,
    of: fn(&Counts) -> f64,
}

/// All figures, for each 1,000 accesses.
pub(crate) const FIGURES: [Figure; 3] = [
    Figure { name: "L1 misses", key: "l1_misses", of: |c| per_thousand(c.l1_misses, c) },
    Figure { name: "L2 misses (walks)", key: "walks", of: |c| per_thousand(c.walks, c) },
    Figure { name: "reads of walks", key: "walk_reads", of: |c| per_thousand(c.walk_reads, c) },
];

fn per_thousand(count: u64, counts: &Counts) -> f64 {
    count as f64 * 1000.0 / counts.accesses.max(1) as f64
}

impl Figure {
    /// Returns the figure in pages and in large leaves.
    pub(crate) fn spreads(&self, outcome: &Outcome) -> [Spread; 2] {
        let counts = outcome.counts.iter();
        [spread(counts.clone().map(|c| (self.of)(&c.pages))), spread(counts.map(|c| (self.of)(&c.large)))]
    }

    /// Returns the change from pages to large leaves in percent, or `None` if it is 0 in pages.
    pub(crate) fn change(&self, outcome: &Outcome) -> Option<Spread> {
        let changes = outcome.counts.iter().map(|counts| {
            let (pages, large) = ((self.of)(&counts.pages), (self.of)(&counts.large));
            (large - pages) * 100.0f64 / pages
        });
        let all = spread(changes);
        all.mean.is_finite().then_some(all)
    }
}

/// Returns mean, least and most.
fn spread(values: impl Iterator<Item = f64> + Clone) -> Spread {
    let count = values.clone().count().max(1) as f64;
    Spread {
        mean: values.clone().sum::<f64>() / count,
        least: values.clone().fold(f64::INFINITY, f64::min),
        most: values.fold(f64::NEG_INFINITY, f64::max),
    }
}
