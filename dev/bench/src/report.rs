//! Output of the benchmarks: Markdown tables, and plots as SVG.

mod table;

use linmap_plot::{Axis, Bars, Group, Line, Lines, Spread, short};

pub(crate) use table::{table, thousands};

/// Returns an SVG file with lines over two logarithmic axes.
pub(crate) fn lines(title: &str, (x, y): (&str, &str), series: &[(String, Vec<(f64, f64)>)]) -> String {
    let axis = |label: &str, base| Axis { label: label.to_owned(), base, tick: Box::new(short) };
    let lines = series.iter().enumerate().map(|(color, (name, points))| Line {
        name: name.clone(),
        color,
        dashed: false,
        points: points.clone(),
    });
    let (title, subtitle) = (title.to_owned(), String::new());
    let plot = Lines { title, subtitle, x: axis(x, 2.0f64), y: axis(y, 10.0f64), lines: lines.collect() };
    plot.render().expect("a page with room for its plot")
}

/// Returns an SVG file with a bar for each name, and a limit that no bar should exceed.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, f64)], limit: Option<(String, f64)>) -> String {
    let groups =
        bars.iter().map(|(name, value)| Group { name: name.clone(), values: vec![Spread::of(*value)] });
    let (title, subtitle, y) = (title.to_owned(), String::new(), unit.to_owned());
    let plot = Bars { title, subtitle, y, series: vec![String::new()], groups: groups.collect(), limit };
    plot.render().expect("a page with room for its plot")
}
