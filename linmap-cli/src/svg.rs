//! Plots as SVG: lines over logarithmic axes, and groups of bars with the spread of their values.
//!
//! A plot is a value; what it looks like is decided here alone. No text of a user gets in unescaped.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 520.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 230.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 60.0;
/// Colours that differ in brightness as well, for those who see fewer of them.
const COLORS: [&str; 6] = ["#1b6ca8", "#d1495b", "#2e8b57", "#8a5a9e", "#c98a00", "#555555"];
/// The most ticks of an axis.
const TICKS: u32 = 11;

/// Lines through points, both axes logarithmic to base 2.
pub(crate) struct Lines {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// What an axis counts.
pub(crate) struct Axis {
    pub(crate) label: String,
    /// How a power of two is written.
    pub(crate) tick: fn(u64) -> String,
}

/// One line, drawn solid or dashed. A value of 0 has no place on it, and leaves a gap.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) dashed: bool,
    /// Lines of one colour belong together.
    pub(crate) color: usize,
    pub(crate) points: Vec<(u64, u64)>,
}

/// Groups of bars over a linear axis.
pub(crate) struct Bars {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) y: String,
    /// The names of the bars of each group.
    pub(crate) series: Vec<String>,
    pub(crate) groups: Vec<Group>,
}

/// Some values that belong together.
pub(crate) struct Group {
    pub(crate) name: String,
    pub(crate) values: Vec<Spread>,
}

/// A value and how far it was off.
#[derive(Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
}

impl Lines {
    /// The whole file.
    pub(crate) fn render(&self) -> String {
        let points = || self.lines.iter().flat_map(|line| &line.points).filter(|(x, y)| *x > 0 && *y > 0);
        let x = Log::of(points().map(|(x, _)| *x));
        let y = Log::of(points().map(|(_, y)| *y));
        let mut page = Page::new(&self.title, &self.subtitle);
        for power in x.ticks() {
            let at = LEFT + x.share(1 << power) * plot_width();
            page.vertical(at, &(self.x.tick)(1 << power));
        }
        for power in y.ticks() {
            page.horizontal(
                HEIGHT - BOTTOM - y.share(1 << power) * plot_height(),
                &(self.y.tick)(1 << power),
            );
        }
        page.axes(&self.x.label, &self.y.label);
        for (row, line) in self.lines.iter().enumerate() {
            let place = |(px, py): &(u64, u64)| {
                (LEFT + x.share(*px) * plot_width(), HEIGHT - BOTTOM - y.share(*py) * plot_height())
            };
            page.line(line, place);
            page.legend(row, &line.name, COLORS[line.color % COLORS.len()], line.dashed);
        }
        page.end()
    }
}

impl Bars {
    /// The whole file.
    pub(crate) fn render(&self) -> String {
        let values = self.groups.iter().flat_map(|group| &group.values);
        let most = values.map(|value| value.most.max(value.mean)).fold(0.0, f64::max);
        let step = step(most);
        let top = (most / step).ceil().max(1.0) * step;
        let height = |value: f64| value / top * plot_height();
        let mut page = Page::new(&self.title, &self.subtitle);
        for tick in 0..=(top / step).round() as u32 {
            let value = f64::from(tick) * step;
            page.horizontal(HEIGHT - BOTTOM - height(value), &format!("{value}"));
        }
        page.axes("", &self.y);
        let group_width = plot_width() / self.groups.len().max(1) as f64;
        let bar = group_width * 0.8 / self.series.len().max(1) as f64;
        for (number, group) in self.groups.iter().enumerate() {
            let start = LEFT + (number as f64 + 0.1) * group_width;
            // Long names stand in two rows.
            let row = HEIGHT - BOTTOM + if number % 2 == 0 { 18.0 } else { 34.0 };
            page.text(start + group_width * 0.4, row, "middle", &group.name);
            for (index, value) in group.values.iter().enumerate() {
                let left = start + index as f64 * bar;
                page.bar(left, bar * 0.9, height(value.mean), COLORS[index % COLORS.len()]);
                page.whisker(left + bar * 0.45, height(value.least), height(value.most));
                page.above(left + bar * 0.45, height(value.most), &short(value.mean));
            }
        }
        for (row, name) in self.series.iter().enumerate() {
            page.legend(row, name, COLORS[row % COLORS.len()], false);
        }
        page.end()
    }
}

fn plot_width() -> f64 {
    WIDTH - LEFT - RIGHT
}

fn plot_height() -> f64 {
    HEIGHT - TOP - BOTTOM
}

/// A logarithmic scale between two powers of two.
struct Log {
    low: u32,
    high: u32,
}

impl Log {
    fn of(values: impl Iterator<Item = u64>) -> Self {
        let (low, high) = values.fold((u64::MAX, 1), |(low, high), v| (low.min(v), high.max(v)));
        let low = low.min(high).max(1).ilog2().min(62);
        Self { low, high: (64 - (high - 1).leading_zeros()).clamp(low + 1, 63) }
    }

    /// Where a value lies, from 0 to 1.
    fn share(&self, value: u64) -> f64 {
        ((value.max(1) as f64).log2() - f64::from(self.low)) / f64::from(self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = u32> {
        let step = (self.high - self.low).div_ceil(TICKS).max(1);
        (self.low..=self.high).step_by(step as usize)
    }
}

/// A round distance between ticks.
fn step(most: f64) -> f64 {
    let rough = (most / 8.0).max(f64::MIN_POSITIVE);
    let power = 10f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0, 10.0].into_iter().find(|m| m * power >= rough).unwrap_or(10.0) * power;
    if most > 0.0 { round } else { 1.0 }
}

/// A number in a few characters.
fn short(value: f64) -> String {
    match value {
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        0.0 => "0".to_owned(),
        v => format!("{v:.3}"),
    }
}

/// The file under way.
struct Page(String);

impl Page {
    fn new(title: &str, subtitle: &str) -> Self {
        let mut page = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" \
             height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
            escaped(title)
        ));
        page.add(format_args!("<text x=\"{LEFT}\" y=\"26\" font-size=\"17\">{}</text>", escaped(title)));
        page.add(format_args!("<text x=\"{LEFT}\" y=\"46\" fill=\"#555555\">{}</text>", escaped(subtitle)));
        page
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }

    fn text(&mut self, x: f64, y: f64, anchor: &str, text: &str) {
        let text = escaped(text);
        self.add(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    fn rule(&mut self, (x1, y1): (f64, f64), (x2, y2): (f64, f64), color: &str) {
        self.add(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{color}\"/>"
        ));
    }

    fn vertical(&mut self, x: f64, label: &str) {
        self.rule((x, TOP), (x, HEIGHT - BOTTOM), "#e4e4e4");
        self.below(x, label);
    }

    fn horizontal(&mut self, y: f64, label: &str) {
        self.rule((LEFT, y), (WIDTH - RIGHT, y), "#e4e4e4");
        self.text(LEFT - 8.0, y + 4.0, "end", label);
    }

    fn below(&mut self, x: f64, label: &str) {
        self.text(x, HEIGHT - BOTTOM + 18.0, "middle", label);
    }

    fn above(&mut self, x: f64, height: f64, label: &str) {
        let (y, label) = (HEIGHT - BOTTOM - height - 6.0, escaped(label));
        self.add(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\" font-size=\"9\">{label}</text>"
        ));
    }

    fn axes(&mut self, x: &str, y: &str) {
        self.rule((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), "black");
        self.rule((LEFT, TOP), (LEFT, HEIGHT - BOTTOM), "black");
        self.text(LEFT + plot_width() / 2.0, HEIGHT - 14.0, "middle", x);
        let (at, label) = (TOP + plot_height() / 2.0, escaped(y));
        self.add(format_args!(
            "<text transform=\"translate(18 {at:.1}) rotate(-90)\" text-anchor=\"middle\">{label}</text>"
        ));
    }

    fn line(&mut self, line: &Line, place: impl Fn(&(u64, u64)) -> (f64, f64)) {
        let color = COLORS[line.color % COLORS.len()];
        let dash = if line.dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        for part in line.points.split(|(x, y)| *x == 0 || *y == 0) {
            let path: Vec<String> = part.iter().map(&place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            self.add(format_args!(
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dash}/>",
                path.join(" ")
            ));
            for (x, y) in part.iter().map(&place) {
                self.add(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>"));
            }
        }
    }

    fn bar(&mut self, x: f64, width: f64, height: f64, color: &str) {
        let y = HEIGHT - BOTTOM - height;
        self.add(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{color}\"/>"
        ));
    }

    fn whisker(&mut self, x: f64, low: f64, high: f64) {
        let base = HEIGHT - BOTTOM;
        self.rule((x, base - low), (x, base - high), "black");
    }

    fn legend(&mut self, row: usize, name: &str, color: &str, dashed: bool) {
        let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 10.0 + row as f64 * 20.0);
        let dash = if dashed { " stroke-dasharray=\"7 4\"" } else { "" };
        let to = x + 26.0;
        self.add(format_args!(
            "<line x1=\"{x:.1}\" y1=\"{y:.1}\" x2=\"{to:.1}\" y2=\"{y:.1}\" stroke=\"{color}\" \
             stroke-width=\"3\"{dash}/>"
        ));
        self.text(to + 8.0, y + 4.0, "start", name);
    }

    fn end(mut self) -> String {
        self.0.push_str("</svg>\n");
        self.0
    }
}

/// Text as XML has it.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c if c.is_control() => safe.push('\u{fffd}'),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(points: Vec<(u64, u64)>) -> Lines {
        let axis = |label: &str| Axis { label: label.to_owned(), tick: |n| n.to_string() };
        let line = Line { name: "a < b".into(), dashed: true, color: 7, points };
        Lines {
            title: "t & u".into(),
            subtitle: "\x1b".into(),
            x: axis("x"),
            y: axis("y"),
            lines: vec![line],
        }
    }

    fn bars(values: Vec<f64>) -> Bars {
        let values = values.into_iter().map(|v| Spread { mean: v, least: v, most: v }).collect();
        let groups = vec![Group { name: "g".into(), values }];
        Bars { title: "t".into(), subtitle: String::new(), y: "y".into(), series: vec!["s".into()], groups }
    }

    #[test]
    fn text_is_escaped() {
        let svg = lines(vec![(1, 1), (1024, 7)]).render();
        assert!(svg.contains("a &lt; b") && svg.contains("t &amp; u") && !svg.contains('\x1b'), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn a_zero_is_a_gap() {
        assert_eq!(lines(vec![(1, 1), (2, 0), (4, 1)]).render().matches("<polyline").count(), 2);
    }

    #[test]
    fn bars_stand_on_round_numbers() {
        let svg = bars(vec![37.0, 0.25]).render();
        assert!(svg.contains(">40</text>") && svg.contains(">0.250</text>"), "{svg}");
        assert!(bars(vec![0.0]).render().contains("</svg>"));
    }

    proptest! {
        /// Whatever is plotted, every coordinate is a number.
        #[test]
        fn numbers_stay_numbers(points: Vec<(u64, u64)>, values in prop::collection::vec(0.0..1e12, 0..5)) {
            for svg in [lines(points).render(), bars(values).render()] {
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
            }
        }
    }
}
