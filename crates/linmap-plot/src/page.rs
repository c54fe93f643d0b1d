//! The page of a plot: a title, a subtitle, and a legend on the right.

use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const WIDTH: u32 = 900;
const HEIGHT: u32 = 520;
const LEGEND: i32 = 230;
/// The rows of the title and the subtitle.
const TITLE: i32 = 56;
const ROW: i32 = 20;
/// Colours that also differ in brightness, for colour-blind readers.
const COLORS: [RGBColor; 6] = [
    RGBColor(0x1b, 0x6c, 0xa8),
    RGBColor(0xd1, 0x49, 0x5b),
    RGBColor(0x2e, 0x8b, 0x57),
    RGBColor(0x8a, 0x5a, 0x9e),
    RGBColor(0xc9, 0x8a, 0x00),
    RGBColor(0x55, 0x55, 0x55),
];
pub(crate) const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// The dashes of a line and the gaps between them, in pixels.
pub(crate) const DASH: (i32, i32) = (7, 4);

/// The values that can be drawn. Beyond, `plotters` draws no ticks.
pub(crate) const DRAWN: std::ops::RangeInclusive<f64> = 1e-15f64..=1e21f64;

/// The reason why a plot cannot be drawn.
#[derive(Debug)]
pub struct PlotError(String);

impl std::fmt::Display for PlotError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the plot cannot be drawn: {}", self.0)
    }
}

impl std::error::Error for PlotError {}

impl<E: std::error::Error + Send + Sync> From<DrawingAreaErrorKind<E>> for PlotError {
    fn from(error: DrawingAreaErrorKind<E>) -> Self {
        Self(error.to_string())
    }
}

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Returns the colour of a series. They repeat after six.
pub(crate) fn color(series: usize) -> RGBColor {
    COLORS[series % COLORS.len()]
}

/// Returns the style of text of a size in pixels, anchored at its centre line.
pub(crate) fn text(size: u32, horizontal: HPos) -> TextStyle<'static> {
    ("sans-serif", size).into_text_style(&(WIDTH, HEIGHT)).pos(Pos::new(horizontal, VPos::Center))
}

/// Draws the titles and the legend, and calls `plot` with the page and the area for the plot. Returns an SVG file.
pub(crate) fn page(
    (title, subtitle): (&str, &str),
    legend: &[(&str, usize, bool)],
    plot: impl FnOnce(&Area<'_>, &Area<'_>) -> Result<(), PlotError>,
) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
        root.fill(&WHITE)?;
        root.draw(&Text::new(title.to_owned(), (16i32, 20i32), text(17, HPos::Left)))?;
        root.draw(&Text::new(subtitle.to_owned(), (16i32, 42i32), text(12, HPos::Left)))?;
        let (left, _) = root.split_horizontally(WIDTH as i32 - LEGEND);
        let (_, area) = left.split_vertically(TITLE);
        plot(&root, &area)?;
        for (row, (name, series, dashed)) in legend.iter().enumerate() {
            let (x, y) = (WIDTH as i32 - LEGEND + 12i32, TITLE + 14i32 + row as i32 * ROW);
            let (ends, style) = ([(x, y), (x + 26i32, y)], color(*series).stroke_width(3));
            if *dashed {
                root.draw(&DashedPathElement::new(ends, DASH.0, DASH.1, style))?;
            } else {
                root.draw(&PathElement::new(ends, style))?;
            }
            root.draw(&Text::new((*name).to_owned(), (x + 34i32, y), text(12, HPos::Left)))?;
        }
        root.present()?;
    }
    Ok(svg)
}
