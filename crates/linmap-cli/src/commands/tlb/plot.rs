//! The result as bars: all figures of one workload, or the misses of several.

use super::experiment::Experiment;
use super::figures::{FIGURES, Figure};
use super::options::Options;
use crate::commands::plan::granule_name;
use crate::size::human;
use linmap_plot::{Bars, Group};

/// Returns the plot.
pub(crate) fn of(options: &Options, experiment: &Experiment) -> Bars {
    let [l1, walks, _] = &FIGURES;
    let (title, series, groups) = match &experiment.outcomes[..] {
        [one] => {
            let groups = FIGURES
                .iter()
                .map(|figure| Group { name: figure.name.to_owned(), values: figure.spreads(one).to_vec() });
            let series = ["in pages", "in large leaves"].map(str::to_owned).to_vec();
            (format!("TLB misses: {}", one.name), series, groups.collect())
        }
        several => {
            let groups = several.iter().map(|outcome| Group {
                name: outcome.name.clone(),
                values: [l1, walks].iter().flat_map(|figure| figure.spreads(outcome)).collect(),
            });
            let names = |figure: &Figure| ["pages", "large"].map(|map| format!("{}, {map}", figure.name));
            ("TLB misses".to_owned(), [names(l1), names(walks)].concat(), groups.collect())
        }
    };
    Bars {
        title,
        subtitle: format!(
            "{}, {}, {} in {} placement, {} seeds",
            experiment.core.name,
            granule_name(experiment.geometry),
            human(options.footprint.0),
            options.placement.name(),
            options.seeds
        ),
        y: "for each 1,000 accesses".to_owned(),
        series,
        groups,
        limit: None,
    }
}
