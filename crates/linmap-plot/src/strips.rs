//! Memory as strips, one below the other: each column of a strip shows which classes it has, and its numbers on hover.
//!
//! `plotters` draws no tooltips, and a rectangle needs no scale, so this page is written as SVG directly.

use std::fmt::Write;

/// The width of a strip in pixels.
const STRIP: f64 = 1024.0;
/// The height of a strip, and the distance from one to the next.
const HEIGHT: f64 = 14.0;
const PITCH: f64 = 17.0;
/// The pixels to the left of the strips, for their labels.
const LEFT: f64 = 120.0;
const RIGHT: f64 = 20.0;
/// The baseline of the title, of the subtitle and of the first row of the legend.
const TITLE: f64 = 26.0;
const SUBTITLE: f64 = 46.0;
const LEGEND: f64 = 70.0;
/// The least width of one entry of the legend, of its colour, and of a letter; the height of its rows.
const ENTRY: f64 = 256.0;
const COLOR: f64 = 18.0;
const LETTER: f64 = 6.0;
const ROW: f64 = 20.0;
/// Whatever a column has is drawn at least so high, so that one page in gigabytes can be seen.
const LEAST: f64 = 2.0;

/// A picture of memory.
#[derive(Clone, Debug)]
pub struct Strips {
    /// The first row of the page.
    pub title: String,
    /// The second row, smaller; may be empty.
    pub subtitle: String,
    /// The classes, in the order of the legend and, from below, of a column.
    pub classes: Vec<Class>,
    /// The strips, from above.
    pub strips: Vec<Strip>,
}

/// One class of memory.
#[derive(Clone, Debug)]
pub struct Class {
    /// The name in the legend.
    pub name: String,
    /// The colour, as `0xrrggbb`.
    pub color: u32,
}

/// One strip.
#[derive(Clone, Debug)]
pub struct Strip {
    /// The text to its left.
    pub label: String,
    /// True if the strip before is not its neighbour in memory: a dotted line is drawn between them.
    pub gap: bool,
    /// The columns that have something, from the left.
    pub pieces: Vec<Piece>,
}

/// Neighbouring columns with the same shares.
#[derive(Clone, Debug)]
pub struct Piece {
    /// Where it begins and ends, as parts of the strip from 0 to 1.
    pub from: f64,
    /// See `from`.
    pub to: f64,
    /// The shares of the classes, by their number; what is left to 1 is empty.
    pub shares: Vec<(usize, f64)>,
    /// The text on hover.
    pub hover: String,
}

impl Strips {
    /// Draws the picture. Returns an SVG file.
    pub fn render(&self) -> String {
        self.render_in("c")
    }

    /// Draws the picture for an HTML page with several: the names of its styles begin with a prefix of its own, which
    /// is letters and digits, a letter last.
    pub fn render_in(&self, prefix: &str) -> String {
        let width = LEFT + STRIP + RIGHT;
        let letters = self.classes.iter().map(|class| class.name.chars().count()).max().unwrap_or(0);
        let entry = (COLOR + letters as f64 * LETTER).max(ENTRY);
        let columns = ((width - 16.0f64) / entry) as usize;
        let legend_rows = self.classes.len().div_ceil(columns.max(1));
        let top = LEGEND + legend_rows as f64 * ROW;
        let height = top + self.strips.len() as f64 * PITCH + 12.0f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"11\">\n<style>"
        );
        for (number, class) in self.classes.iter().enumerate() {
            let _ = write!(svg, ".{prefix}{number}{{fill:#{:06x}}}", class.color & 0xff_ffff);
        }
        svg += "g:hover rect{opacity:.7}</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n";
        text(&mut svg, (16.0f64, TITLE), "font-size=\"17\"", &self.title);
        text(&mut svg, (16.0f64, SUBTITLE), "font-size=\"12\"", &self.subtitle);
        for (number, class) in self.classes.iter().enumerate() {
            let (column, row) = (number % columns.max(1), number / columns.max(1));
            let (x, y) = (16.0f64 + column as f64 * entry, LEGEND + row as f64 * ROW);
            let _ = writeln!(
                svg,
                "<rect class=\"{prefix}{number}\" x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\"/>",
                y - 10.0f64
            );
            text(&mut svg, (x + COLOR, y), "", &class.name);
        }
        for (number, strip) in self.strips.iter().enumerate() {
            draw(&mut svg, prefix, strip, top + number as f64 * PITCH);
        }
        svg + "</svg>\n"
    }
}

/// Draws one strip, whose upper edge is at `y`.
fn draw(svg: &mut String, prefix: &str, strip: &Strip, y: f64) {
    if strip.gap {
        let (at, end) = (y - 1.5f64, LEFT + STRIP);
        let _ = writeln!(
            svg,
            "<path d=\"M16 {at}H{end}\" stroke=\"#999\" stroke-dasharray=\"2 4\" fill=\"none\"/>"
        );
    }
    text(svg, (LEFT - 8.0f64, y + HEIGHT - 3.0f64), "text-anchor=\"end\"", &strip.label);
    let _ = writeln!(
        svg,
        "<rect x=\"{LEFT}\" y=\"{y}\" width=\"{STRIP}\" height=\"{HEIGHT}\" fill=\"#f1f1f1\"/>"
    );
    for piece in &strip.pieces {
        let (x, end) = (LEFT + STRIP * unit(piece.from), LEFT + STRIP * unit(piece.to));
        svg.push_str("<g><title>");
        escape(svg, &piece.hover);
        svg.push_str("</title>");
        let mut bottom = y + HEIGHT;
        for (class, height) in heights(&piece.shares) {
            bottom -= height;
            let width = (end - x).max(0.0);
            let _ = write!(
                svg,
                "<rect class=\"{prefix}{class}\" x=\"{x:.2}\" y=\"{bottom:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>"
            );
        }
        svg.push_str("</g>\n");
    }
}

/// Returns a number from 0 to 1; anything else becomes the nearer of them, and what is no number 0.
fn unit(value: f64) -> f64 {
    if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) }
}

/// Returns the heights of the classes of a column, together at most that of a strip.
fn heights(shares: &[(usize, f64)]) -> Vec<(usize, f64)> {
    let present = shares.iter().filter(|share| unit(share.1) > 0.0f64);
    let heights: Vec<(usize, f64)> =
        present.map(|(class, share)| (*class, (unit(*share) * HEIGHT).max(LEAST))).collect();
    let sum: f64 = heights.iter().map(|height| height.1).sum();
    // The tall ones give what the small ones take beyond their share.
    let (over, tall) = (sum - HEIGHT, heights.iter().map(|height| height.1 - LEAST).sum::<f64>());
    if over <= 0.0f64 {
        return heights;
    }
    if tall < over {
        let each = HEIGHT / heights.len() as f64;
        return heights.into_iter().map(|(class, _)| (class, each)).collect();
    }
    let less = |height: f64| height - (height - LEAST) * over / tall;
    heights.into_iter().map(|(class, height)| (class, less(height))).collect()
}

fn text(svg: &mut String, (x, y): (f64, f64), more: &str, text: &str) {
    let _ = write!(svg, "<text x=\"{x}\" y=\"{y}\" {more}>");
    escape(svg, text);
    svg.push_str("</text>\n");
}

/// Appends text with the characters of XML escaped; control characters other than the line break are left out, as no
/// XML may have them.
fn escape(svg: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '<' => svg.push_str("&lt;"),
            '>' => svg.push_str("&gt;"),
            '&' => svg.push_str("&amp;"),
            '"' => svg.push_str("&quot;"),
            '\n' => svg.push('\n'),
            _ if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {}
            _ => svg.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::prelude::*;

    fn strips(pieces: Vec<Piece>) -> Strips {
        let class = |name: &str, color| Class { name: name.into(), color };
        Strips {
            title: "a < b".into(),
            subtitle: "c & d".into(),
            classes: vec![class("large", 0x1b_6ca8), class("small", 0xd1_495b)],
            strips: vec![Strip { label: "1G".into(), gap: true, pieces }],
        }
    }

    #[test]
    fn text_is_escaped_and_on_hover() {
        let piece = Piece { from: 0.0, to: 1.0, shares: vec![(0, 1.0)], hover: "<0x0>\u{1b}\n2M".into() };
        let svg = strips(vec![piece]).render();
        assert!(svg.contains("a &lt; b") && svg.contains("c &amp; d"), "{svg}");
        assert!(svg.contains("<title>&lt;0x0&gt;\n2M</title>"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("dasharray"));
    }

    /// The places of entries of the legend do not overlap, however long their names are.
    #[test]
    fn long_names_have_room() {
        let places = |name: &str| {
            let class = Class { name: name.into(), color: 0 };
            let svg = Strips { classes: vec![class; 4], ..strips(Vec::new()) }.render();
            let entries = svg.lines().filter(|line| line.contains("width=\"12\" height=\"12\""));
            let place = |line: &str, key: &str| {
                let value = line.split_once(&format!(" {key}=\"")).and_then(|(_, rest)| rest.split_once('"'));
                value.map(|(value, _)| value.parse::<f64>().expect("a number")).expect("a key")
            };
            entries.map(|line| (place(line, "x"), place(line, "y"))).collect::<Vec<_>>()
        };
        assert_eq!(places("short"), [16.0, 272.0, 528.0, 784.0].map(|x| (x, 60.0)));
        let long = "x".repeat(60);
        assert_eq!(places(&long), [(16.0, 60.0), (394.0, 60.0), (772.0, 60.0), (16.0, 80.0)]);
        assert!(places(&"x".repeat(500)).iter().all(|place| place.0 == 16.0));
    }

    #[test]
    fn one_page_in_gigabytes_is_seen() {
        let heights = heights(&[(0, 0.999_999), (1, 0.000_001)]);
        assert_eq!(heights[1], (1, LEAST));
        assert!((heights[0].1 + heights[1].1 - HEIGHT).abs() < 1e-9, "{heights:?}");
        assert_eq!(super::heights(&[(0, 0.5), (1, 0.0)]), [(0, HEIGHT / 2.0)]);
    }

    proptest! {
        /// Whatever is drawn, every coordinate is a number, and no column is higher than its strip.
        #[test]
        fn numbers_stay_numbers(from: f64, to: f64, shares: Vec<f64>, hover: String) {
            let sum: f64 = heights(&shares.iter().copied().enumerate().collect::<Vec<_>>()).iter().map(|h| h.1).sum();
            prop_assert!(sum <= HEIGHT + 1e-6, "{sum}");
            let svg = strips(vec![Piece { from, to, shares: shares.into_iter().enumerate().collect(), hover }]).render();
            prop_assert!(!svg.contains("\"NaN") && !svg.contains("\"inf") && !svg.contains("=\"-"), "{}", svg);
        }
    }
}
