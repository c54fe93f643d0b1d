//! Lines through points over two logarithmic axes, with a legend.

use super::svg::{Anchor, Page, short};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 270.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 56.0;
const PLOT: f64 = 400.0;
const ROW: f64 = 20.0;
/// The least distance of two labels of the lower axis.
const APART: f64 = 44.0;

/// The whole file. A value that is not above 0 has no place on it, and leaves a gap.
pub(crate) fn lines(title: &str, axes: (&str, &str), series: &[(String, Vec<(f64, f64)>)]) -> String {
    let points = || series.iter().flat_map(|(_, points)| points).filter(|point| has_place(point));
    let (right, bottom) = (WIDTH - RIGHT, TOP + PLOT);
    let x = Scale::new(Span::of(points().map(|(x, _)| *x)), LEFT, right);
    let y = Scale::new(Span::of(points().map(|(_, y)| *y)).to_powers(), bottom, TOP);
    let height = (bottom + BOTTOM).max(TOP + ROW * (series.len() + 1) as f64);
    let mut page = Page::new(title, (WIDTH, height));
    for value in spread(points().map(|(x, _)| *x).collect(), &x) {
        page.rule("grid", (x.at(value), TOP), (x.at(value), bottom));
        page.text((x.at(value), bottom + 18.0), Anchor::Middle, &short(value));
    }
    for value in y.span.powers() {
        page.rule("grid", (LEFT, y.at(value)), (right, y.at(value)));
        page.text((LEFT - 8.0, y.at(value) + 4.0), Anchor::End, &short(value));
    }
    page.rule("axis", (LEFT, bottom), (right, bottom));
    page.rule("axis", (LEFT, TOP), (LEFT, bottom));
    page.text((f64::midpoint(LEFT, right), bottom + 42.0), Anchor::Middle, axes.0);
    page.upright((18.0, f64::midpoint(TOP, bottom)), axes.1);
    for (number, (name, points)) in series.iter().enumerate() {
        for part in points.split(|point| !has_place(point)).filter(|part| !part.is_empty()) {
            let places: Vec<_> = part.iter().map(|(px, py)| (x.at(*px), y.at(*py))).collect();
            page.curve(number, &places);
        }
        let row = TOP + 12.0 + ROW * number as f64;
        page.curve(number, &[(right + 16.0, row), (right + 44.0, row)]);
        page.text((right + 54.0, row + 4.0), Anchor::Start, name);
    }
    page.end()
}

fn has_place((x, y): &(f64, f64)) -> bool {
    let positive = |value: f64| value > 0.0 && value.is_finite();
    positive(*x) && positive(*y)
}

/// What an axis covers, as powers of ten.
#[derive(Clone, Copy)]
struct Span {
    low: f64,
    high: f64,
}

impl Span {
    /// From the least to the most of the values, or around the only one.
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
        match (low, high) {
            _ if low > high => Self { low: 0.0, high: 1.0 },
            _ if high - low < 1e-9 => Self { low: low - 0.5, high: high + 0.5 },
            _ => Self { low, high },
        }
    }

    /// From a whole power to a whole power.
    fn to_powers(self) -> Self {
        let low = self.low.floor();
        Self { low, high: self.high.ceil().max(low + 1.0) }
    }

    /// The whole powers of ten, at most a dozen.
    fn powers(self) -> impl Iterator<Item = f64> {
        let step = ((self.high - self.low) / 12.0).ceil().max(1.0);
        let count = ((self.high - self.low) / step).floor() as u32;
        (0..=count).map(move |i| 10f64.powf(self.low + step * f64::from(i)))
    }
}

/// A span on a line of pixels.
struct Scale {
    span: Span,
    from: f64,
    to: f64,
}

impl Scale {
    fn new(span: Span, from: f64, to: f64) -> Self {
        Self { span, from, to }
    }

    fn at(&self, value: f64) -> f64 {
        let share = (value.log10() - self.span.low) / (self.span.high - self.span.low);
        self.from + share * (self.to - self.from)
    }
}

/// The values in ascending order, without those whose labels would be on the one before.
fn spread(mut values: Vec<f64>, scale: &Scale) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values.dedup_by(|value, before| scale.at(*value) - scale.at(*before) < APART);
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot(points: Vec<(f64, f64)>) -> String {
        lines("t", ("x", "y"), &[("a < b".to_owned(), points)])
    }

    #[test]
    fn a_decade_is_as_long_as_the_next() {
        let svg = plot(vec![(1.0, 10.0), (10.0, 100.0), (100.0, 1000.0)]);
        assert!(svg.contains("points=\"80.0,448.0 355.0,248.0 630.0,48.0\""), "{svg}");
        assert!(svg.contains("a &lt; b"));
    }

    #[test]
    fn a_zero_is_a_gap() {
        let curves = plot(vec![(1.0, 1.0), (2.0, 0.0), (4.0, 1.0)]).matches("<polyline").count();
        assert_eq!(curves, 3, "two parts, and the legend's");
    }

    #[test]
    fn labels_keep_apart() {
        let scale = Scale::new(Span { low: 0.0, high: 1.0 }, 0.0, 100.0);
        assert_eq!(spread(vec![10.0, 1.0, 1.1, 1.0], &scale), [1.0, 10.0]);
    }

    #[test]
    fn numbers_stay_numbers() {
        for points in [vec![], vec![(5.0, 5.0)], vec![(f64::NAN, 1.0)], vec![(1e-9, 1e18), (-1.0, 2.0)]] {
            let svg = plot(points);
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
