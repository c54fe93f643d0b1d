//! Bars that lie below each other, each with its name and its value; and a limit, if there is one.

use super::svg::{Anchor, Page, short};

const WIDTH: f64 = 900.0;
const RIGHT: f64 = 90.0;
const TOP: f64 = 64.0;
const ROW: f64 = 26.0;
const BAR: f64 = 18.0;
/// How wide a character is, about.
const CHARACTER: f64 = 6.8;

/// The whole file. Bars start at 0; one whose value is not a number above that has no length.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, f64)], limit: Option<(String, f64)>) -> String {
    let longest = bars.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let left = (32.0 + longest as f64 * CHARACTER).min(WIDTH / 2.0);
    let most = bars.iter().map(|(_, value)| length(*value)).chain(limit.as_ref().map(|(_, v)| length(*v)));
    let most = most.fold(0.0, f64::max);
    let place = |value: f64| left + length(value) / most.max(f64::MIN_POSITIVE) * (WIDTH - RIGHT - left);
    let bottom = TOP + ROW * bars.len() as f64;
    let mut page = Page::new(title, (WIDTH, bottom + 40.0));
    let top = |row: usize| TOP + ROW * row as f64 + (ROW - BAR) / 2.0;
    for (row, (_, value)) in bars.iter().enumerate() {
        page.bar(0, (left, top(row)), (place(*value) - left, BAR));
    }
    page.rule("axis", (left, TOP), (left, bottom));
    page.text((left, bottom + 22.0), Anchor::Start, unit);
    if let Some((name, value)) = limit {
        page.rule("limit", (place(value), TOP), (place(value), bottom));
        let anchor = if place(value) > WIDTH / 2.0 { Anchor::End } else { Anchor::Start };
        page.text((place(value), TOP - 8.0), anchor, &format!("{name}: {}", short(value)));
    }
    for (row, (name, value)) in bars.iter().enumerate() {
        page.text((left - 10.0, top(row) + 13.0), Anchor::End, name);
        page.text((place(*value) + 6.0, top(row) + 13.0), Anchor::Start, &short(*value));
    }
    page.end()
}

/// What a value is drawn as.
fn length(value: f64) -> f64 {
    if value.is_finite() { value.max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let svg = bars("t", "u", &[("a".to_owned(), 10.0), ("b".to_owned(), 5.0)], None);
        let widths: Vec<&str> =
            svg.lines().filter(|l| l.contains("class=\"f0\"")).filter_map(|l| l.split('"').nth(7)).collect();
        assert_eq!(widths, ["771.2", "385.6"], "{svg}");
    }

    #[test]
    fn a_limit_has_its_value() {
        let svg = bars("t", "u", &[("a".to_owned(), 10.0)], Some(("most".to_owned(), 12.0)));
        assert!(svg.contains("class=\"limit\"") && svg.contains("most: 12"), "{svg}");
    }

    #[test]
    fn numbers_stay_numbers() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY, -1.0]] {
            let named: Vec<_> = values.into_iter().map(|value| ("n".to_owned(), value)).collect();
            let svg = bars("t", "u", &named, None);
            assert!(!svg.contains("\"NaN") && !svg.contains("\"inf"), "{svg}");
        }
    }
}
