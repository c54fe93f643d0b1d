//! The report as a plot: the time of a dependent load by working set, on one CPU, in pages and in large leaves.

use kernel_plan::measure::Work;
use linmap_plot::{Axis, Line, Lines};

use super::measurement::{Cell, Turns};
use super::reported::Reported;
use crate::size::human;

/// Returns the plot.
pub(crate) fn of(reported: &[Reported]) -> Lines {
    let lines = reported.iter().enumerate().flat_map(|(color, one)| {
        let name = &one.measurement.name;
        let line = |map: &str, dashed, of: fn(&Cell) -> Option<&Turns>| {
            let loads = one.measurement.cells.iter().filter(|c| c.work == Work::Loads.name() && c.cpus == 1);
            let points = loads.filter_map(|c| Some((c.bytes as f64, c.ns_of_step(of(c)?)))).collect();
            Line { name: format!("{name}, {map}"), color, dashed, points }
        };
        [line("pages", false, |cell| cell.pages.as_ref()), line("large", true, |cell| cell.large.as_ref())]
    });
    let emulated = reported.iter().any(|one| one.measurement.setting.emulated);
    let subtitle =
        if emulated { "a CPU was emulated: its times mean nothing" } else { "medians of the turns" };
    Lines {
        title: "A dependent load, by working set".to_owned(),
        subtitle: subtitle.to_owned(),
        x: Axis { label: "working set".to_owned(), base: 2.0, tick: Box::new(|bytes| human(bytes as u64)) },
        y: Axis { label: "ns".to_owned(), base: 10.0, tick: Box::new(linmap_plot::short) },
        lines: lines.collect(),
    }
}
