//! Lines through points, both axes logarithmic.

use plotters::prelude::*;

use crate::page::{DASH, DRAWN, GRID, PlotError, color, page};

/// Lines through points, both axes logarithmic.
pub struct Lines {
    /// The first row of the page.
    pub title: String,
    /// The second row, smaller; may be empty.
    pub subtitle: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines, in the order of the legend.
    pub lines: Vec<Line>,
}

/// A logarithmic axis.
pub struct Axis {
    /// The name beside the axis.
    pub label: String,
    /// The base of the powers with a tick: 2 or 10.
    pub base: f64,
    /// Writes the value at a tick.
    pub tick: Box<dyn Fn(f64) -> String>,
}

/// One line. A point with a coordinate outside 1e-15 to 1e21 is left out, which leaves a gap.
#[derive(Debug)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// The number of its colour; lines of one colour belong together.
    pub color: usize,
    /// Dashed instead of solid.
    pub dashed: bool,
    /// The points, in the order of the line.
    pub points: Vec<(f64, f64)>,
}

impl Lines {
    /// Draws the plot. Returns an SVG file.
    ///
    /// # Errors
    ///
    /// The page has no room for the plot.
    pub fn render(&self) -> Result<String, PlotError> {
        let legend: Vec<_> = self.lines.iter().map(|l| (l.name.as_str(), l.color, l.dashed)).collect();
        page((&self.title, &self.subtitle), &legend, |_, area| {
            let points = || self.lines.iter().flat_map(|line| &line.points).filter(|point| has_place(point));
            let x = powers(points().map(|point| point.0), self.x.base);
            let y = powers(points().map(|point| point.1), self.y.base);
            let mut chart = ChartBuilder::on(area)
                .margin_left(14i32)
                .margin_right(24i32)
                .x_label_area_size(44i32)
                .y_label_area_size(78i32)
                .build_cartesian_2d(
                    (x.0..x.1).log_scale().base(self.x.base),
                    (y.0..y.1).log_scale().base(self.y.base),
                )?;
            chart
                .configure_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .x_labels(12)
                .y_labels(12)
                .x_label_formatter(&|value| (self.x.tick)(*value))
                .y_label_formatter(&|value| (self.y.tick)(*value))
                .x_desc(self.x.label.clone())
                .y_desc(self.y.label.clone())
                .draw()?;
            for line in &self.lines {
                let style = color(line.color).stroke_width(2);
                for part in line.points.split(|point| !has_place(point)).filter(|part| !part.is_empty()) {
                    let joined = part.iter().copied();
                    if line.dashed {
                        chart.draw_series(DashedLineSeries::new(joined, DASH.0, DASH.1, style))?;
                    } else {
                        chart.draw_series(LineSeries::new(joined, style))?;
                    }
                    chart.draw_series(part.iter().map(|at| Circle::new(*at, 3i32, style.filled())))?;
                }
            }
            Ok(())
        })
    }
}

fn has_place((x, y): &(f64, f64)) -> bool {
    DRAWN.contains(x) && DRAWN.contains(y)
}

/// Returns the powers of `base` that enclose all values: two different ones, even without values.
fn powers(values: impl Iterator<Item = f64>, base: f64) -> (f64, f64) {
    let (low, high) = values
        .map(|value| value.log(base))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return (1.0, base);
    }
    let low = low.floor();
    (base.powf(low), base.powf(high.ceil().max(low + 1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn plot(points: Vec<(f64, f64)>) -> String {
        let axis = |label: &str| Axis { label: label.into(), base: 10.0, tick: Box::new(crate::short) };
        let line = |dashed| Line { name: "a < b".into(), color: 7, dashed, points: points.clone() };
        let lines = vec![line(false), line(true)];
        let titles = ("t & u".into(), "s".into());
        Lines { title: titles.0, subtitle: titles.1, x: axis("x"), y: axis("y"), lines }.render().unwrap()
    }

    #[test]
    fn text_is_escaped() {
        let svg = plot(vec![(1.0, 1.0), (1024.0, 7.0)]);
        assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn a_zero_is_a_gap() {
        let lines = |points| plot(points).matches("stroke-width=\"2\" points").count();
        assert!(lines(vec![(1.0, 1.0), (2.0, 0.0), (4.0, 1.0)]) != lines(vec![(1.0, 1.0), (4.0, 1.0)]));
    }

    #[test]
    fn axes_end_at_whole_powers() {
        assert_eq!(powers([3.0, 70.0].into_iter(), 10.0), (1.0, 100.0));
        assert_eq!(powers([8.0].into_iter(), 2.0), (8.0, 16.0));
        assert_eq!(powers([].into_iter(), 2.0), (1.0, 2.0));
    }

    proptest! {
        /// Whatever is plotted, every coordinate is a number.
        #[test]
        fn numbers_stay_numbers(points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..6)) {
            let svg = plot(points);
            prop_assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{}", svg);
        }
    }
}
