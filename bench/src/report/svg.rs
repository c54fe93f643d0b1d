//! A page of SVG: what plots are drawn on. Its colours follow the reader's choice of light or dark.

use std::fmt::Write;

/// How many colours series have before they repeat, dashed.
pub(crate) const COLORS: usize = 6;

/// Colours that differ in brightness as well, for those who see fewer of them; on a light page, on a dark one.
const LIGHT: [&str; COLORS] = ["#1b6ca8", "#d1495b", "#2e8b57", "#8a5a9e", "#b37400", "#555555"];
const DARK: [&str; COLORS] = ["#6cb6ff", "#ff8b98", "#6bd69a", "#cda4e0", "#e8b34b", "#b0b0b0"];

/// Which end of a text its place is.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// The file under way.
pub(crate) struct Page(String);

impl Page {
    /// An empty page of so many pixels, with its title.
    pub(crate) fn new(title: &str, (width, height): (f64, f64)) -> Self {
        let mut page = Self(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n<title>{}</title>\n{}\
             <rect class=\"page\" width=\"100%\" height=\"100%\"/>\n",
            escaped(title),
            style()
        ));
        page.element(format_args!("<text x=\"16\" y=\"26\" font-size=\"16\">{}</text>", escaped(title)));
        page
    }

    pub(crate) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escaped(text);
        self.element(format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"));
    }

    /// Text that is read from below.
    pub(crate) fn upright(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escaped(text);
        self.element(format_args!(
            "<text transform=\"translate({x:.1} {y:.1}) rotate(-90)\" text-anchor=\"middle\">{text}</text>"
        ));
    }

    /// A straight line of one of the classes `grid`, `axis` and `limit`.
    pub(crate) fn rule(&mut self, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        self.element(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A bar in the colour of a series.
    pub(crate) fn bar(&mut self, series: usize, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let color = series % COLORS;
        self.element(format_args!(
            "<rect class=\"f{color}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
        ));
    }

    /// The line of a series through points, each marked.
    pub(crate) fn curve(&mut self, series: usize, points: &[(f64, f64)]) {
        let color = series % COLORS;
        let dash = if series < COLORS { "" } else { " stroke-dasharray=\"7 4\"" };
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.element(format_args!("<polyline class=\"s{color}\" points=\"{}\"{dash}/>", path.join(" ")));
        for (x, y) in points {
            self.element(format_args!("<circle class=\"f{color}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"/>"));
        }
    }

    /// The whole file.
    pub(crate) fn end(self) -> String {
        self.0 + "</svg>\n"
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.0, "{element}");
    }
}

/// The colours of a light page, and those that a dark one has instead.
fn style() -> String {
    let light = colors("#ffffff", "#1f2328", "#e4e4e4", &LIGHT);
    let dark = colors("#0d1117", "#e6edf3", "#30363d", &DARK);
    format!(
        "<style>\npolyline {{ fill: none; stroke-width: 2 }}\ntext {{ paint-order: stroke; stroke-width: 3 }}\n\
         .limit {{ stroke-dasharray: 5 4 }}\n\
         {light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n</style>\n"
    )
}

fn colors(page: &str, ink: &str, grid: &str, series: &[&str; COLORS]) -> String {
    let mut css = format!(
        ".page {{ fill: {page} }}\ntext {{ fill: {ink}; stroke: {page} }}\n.axis, .limit {{ stroke: {ink} }}\n\
         .grid {{ stroke: {grid} }}\n"
    );
    for (i, color) in series.iter().enumerate() {
        css += &format!(".f{i} {{ fill: {color} }}\n.s{i} {{ stroke: {color} }}\n");
    }
    css
}

/// A number in a few characters: `950`, `1.5 k`, `28 M`.
pub(crate) fn short(value: f64) -> String {
    let units = [(1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (scale, unit) = units.into_iter().find(|(scale, _)| value >= *scale).unwrap_or((1.0, ""));
    let digits = match value / scale {
        v if v >= 100.0 || v == 0.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 4,
    };
    let text = format!("{:.digits$}", value / scale);
    let text = if digits == 0 { &text } else { text.trim_end_matches('0').trim_end_matches('.') };
    format!("{text}{unit}")
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

    #[test]
    fn text_is_escaped() {
        let svg = Page::new("a < b & \x1b", (10.0, 10.0)).end();
        assert!(svg.contains("a &lt; b &amp; \u{fffd}") && svg.ends_with("</svg>\n"), "{svg}");
    }

    #[test]
    fn numbers_are_short() {
        let texts = [0.0, 0.25, 1.0, 12.34, 950.0, 1_500.0, 28_000_000.0, 2.1e9].map(short);
        assert_eq!(texts, ["0", "0.25", "1", "12.3", "950", "1.5 k", "28 M", "2.1 G"]);
    }
}
