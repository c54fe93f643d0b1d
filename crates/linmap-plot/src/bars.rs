//! Groups of bars over a linear axis, each with the spread of its value.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use crate::page::{DASH, DRAWN, GRID, PlotError, color, page, text};
use crate::short;

/// Groups of bars over a linear axis that begins at 0.
#[derive(Debug)]
pub struct Bars {
    /// The first row of the page.
    pub title: String,
    /// The second row, smaller; may be empty.
    pub subtitle: String,
    /// The unit of the vertical axis.
    pub y: String,
    /// The names of the bars of each group. A bar without a name is not in the legend.
    pub series: Vec<String>,
    /// The groups, from the left.
    pub groups: Vec<Group>,
    /// The name and value of a limit, drawn as a dashed line.
    pub limit: Option<(String, f64)>,
}

/// Bars that stand together.
#[derive(Debug)]
pub struct Group {
    /// The name below the bars.
    pub name: String,
    /// One value for each series.
    pub values: Vec<Spread>,
}

/// The mean of several values, with the least and the largest of them.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The least value.
    pub least: f64,
    /// The largest value.
    pub most: f64,
}

impl Spread {
    /// A single value.
    pub const fn of(value: f64) -> Self {
        Self { mean: value, least: value, most: value }
    }

    /// Returns the heights to draw: values outside 1e-15 to 1e21 have none.
    fn drawn(self) -> Self {
        let height = |value: f64| if DRAWN.contains(&value) { value } else { 0.0f64 };
        Self { mean: height(self.mean), least: height(self.least), most: height(self.most) }
    }
}

impl Bars {
    /// Draws the plot. Returns an SVG file.
    ///
    /// # Errors
    ///
    /// The page has no room for the plot.
    pub fn render(&self) -> Result<String, PlotError> {
        let named = self.series.iter().enumerate().filter(|(_, name)| !name.is_empty());
        let legend: Vec<_> = named.map(|(number, name)| (name.as_str(), number, false)).collect();
        page((&self.title, &self.subtitle), &legend, |root, area| {
            let mut chart = ChartBuilder::on(area)
                .margin_left(14i32)
                .margin_right(24i32)
                .margin_top(16i32)
                .x_label_area_size(52i32)
                .y_label_area_size(78i32)
                .build_cartesian_2d(0.0f64..self.groups.len().max(1) as f64, 0.0f64..self.top())?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .light_line_style(TRANSPARENT)
                .bold_line_style(GRID)
                .x_labels(0)
                .y_label_formatter(&|value| short(*value))
                .y_desc(self.y.clone())
                .draw()?;
            let plot = chart.plotting_area();
            let width = 0.8f64 / self.series.len().max(1) as f64;
            for (number, group) in self.groups.iter().enumerate() {
                for (series, value) in group.values.iter().map(|value| value.drawn()).enumerate() {
                    let left = number as f64 + 0.1f64 + series as f64 * width;
                    let (right, middle) = (left + width * 0.9f64, left + width * 0.45f64);
                    plot.draw(&Rectangle::new(
                        [(left, 0.0f64), (right, value.mean)],
                        color(series).filled(),
                    ))?;
                    plot.draw(&PathElement::new([(middle, value.least), (middle, value.most)], BLACK))?;
                    let (x, y) = plot.map_coordinate(&(middle, value.most.max(value.mean)));
                    root.draw(&Text::new(short(value.mean), (x, y - 8i32), text(10, HPos::Center)))?;
                }
                // More than three names are written in two rows.
                let (x, y) = plot.map_coordinate(&(number as f64 + 0.5f64, 0.0f64));
                let row = y + 14i32 + if self.groups.len() > 3 { number as i32 % 2i32 * 16i32 } else { 0i32 };
                root.draw(&Text::new(group.name.clone(), (x, row), text(12, HPos::Center)))?;
            }
            if let Some((name, value)) = &self.limit {
                let value = Spread::of(*value).drawn().mean;
                let ends = [(0.0f64, value), (self.groups.len().max(1) as f64, value)];
                chart.draw_series(DashedLineSeries::new(ends, DASH.0, DASH.1, BLACK.stroke_width(1)))?;
                let (x, y) = chart.plotting_area().map_coordinate(&ends[1]);
                let label = format!("{name}: {}", short(value));
                root.draw(&Text::new(label, (x, y - 8i32), text(12, HPos::Right)))?;
            }
            Ok(())
        })
    }

    /// Returns the end of the vertical axis.
    fn top(&self) -> f64 {
        let values = self.groups.iter().flat_map(|group| &group.values).map(|value| value.drawn());
        let most = values.map(|value| value.most.max(value.mean));
        let most = most.chain(self.limit.as_ref().map(|limit| Spread::of(limit.1).drawn().mean));
        match most.fold(0.0, f64::max) {
            most if most > 0.0 => most * 1.08,
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn bars(values: Vec<f64>, limit: Option<f64>) -> String {
        let group = Group { name: "g < h".into(), values: values.iter().copied().map(Spread::of).collect() };
        let series = (0..values.len()).map(|n| format!("series {n}")).collect();
        let limit = limit.map(|limit| ("at most".into(), limit));
        let title = "t".into();
        Bars { title, subtitle: String::new(), y: "y".into(), series, groups: vec![group], limit }
            .render()
            .unwrap()
    }

    /// Returns the heights of the bars, in pixels.
    fn heights(svg: &str) -> Vec<f64> {
        let bars = svg.lines().filter(|line| line.starts_with("<rect") && !line.contains("#FFFFFF"));
        bars.map(|line| {
            let height = line.split("height=\"").nth(1).and_then(|rest| rest.split('"').next());
            height.expect("a height").parse().expect("a number")
        })
        .collect()
    }

    #[test]
    fn bars_are_as_high_as_their_values() {
        let heights = heights(&bars(vec![10.0, 5.0], None));
        assert!((heights[0] / heights[1] - 2.0).abs() < 0.02, "{heights:?}");
    }

    #[test]
    fn a_limit_has_its_value_and_names_are_escaped() {
        let svg = bars(vec![10.0], Some(12.0));
        assert!(svg.contains("at most: 12") && svg.contains("g &lt; h"), "{svg}");
    }

    proptest! {
        /// Whatever is plotted, every coordinate is a number.
        #[test]
        fn numbers_stay_numbers(values: Vec<f64>, limit: Option<f64>) {
            let svg = bars(values.into_iter().take(6).collect(), limit);
            prop_assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{}", svg);
        }
    }
}
