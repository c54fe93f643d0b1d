//! The guard: compares figures with the stored ones and decides which differences fail.

use super::counted::{Figures, is_compiled, is_lines};
use crate::report::{table, thousands};

/// The most that a figure may be, in hundredths of the stored one.
const MOST: u128 = 102;
/// The same for lines of memory, and the lines that are always permitted: where code moves, it lies in other lines.
const MOST_LINES: u128 = 110;
const FEW_LINES: u64 = 3;

/// A figure that differs from the stored one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    name: String,
    stored: Option<u64>,
    now: Option<u64>,
    /// The judgement.
    pub(crate) verdict: Verdict,
}

/// The judgement of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More than 2% above the stored figure, or more than 10% and three lines: fails.
    Grown,
    /// Stored, but no longer measured: fails.
    Gone,
    /// Measured, but not stored yet.
    New,
    /// Less than the stored figure.
    Less,
    /// At most so much above the stored figure.
    Within,
    /// Instructions or lines of code from another compiler: not judged.
    Compiler,
}

impl Verdict {
    pub(crate) fn fails(self) -> bool {
        matches!(self, Self::Grown | Self::Gone)
    }

    fn text(self) -> &'static str {
        match self {
            Self::Grown => "FAILS: grown too much",
            Self::Gone => "FAILS: stored, but not measured",
            Self::New => "new: to be stored",
            Self::Less => "less",
            Self::Within => "within what it may grow",
            Self::Compiler => "another compiler",
        }
    }
}

/// Returns all figures that differ from the stored ones. Instructions and lines are judged only if one compiler built both
/// images.
pub(crate) fn differences(stored: &Figures, now: &Figures, same_compiler: bool) -> Vec<Difference> {
    let judge = |name: &str, stored: Option<u64>, now: Option<u64>| match (stored, now) {
        (Some(before), Some(now)) if now < before => Verdict::Less,
        (Some(_), Some(_)) if is_compiled(name) && !same_compiler => Verdict::Compiler,
        (Some(before), Some(now)) if is_too_much(name, before, now) => Verdict::Grown,
        (Some(_), Some(_)) => Verdict::Within,
        (Some(_), None) => Verdict::Gone,
        (None, _) => Verdict::New,
    };
    let added = now.keys().filter(|name| !stored.contains_key(*name));
    let pairs = stored.keys().chain(added).map(|name| (name, stored.get(name), now.get(name)));
    let pairs = pairs.map(|(name, before, now)| (name, before.copied(), now.copied()));
    let differ = pairs.filter(|(_, before, now)| before != now);
    differ
        .map(|(name, stored, now)| Difference {
            name: name.clone(),
            stored,
            now,
            verdict: judge(name, stored, now),
        })
        .collect()
}

fn is_too_much(name: &str, stored: u64, now: u64) -> bool {
    let (most, few) = if is_lines(name) { (MOST_LINES, FEW_LINES) } else { (MOST, 0) };
    u128::from(now) * 100 > u128::from(stored) * most && now > stored.saturating_add(few)
}

/// Returns how many differences fail.
pub(crate) fn failed(differences: &[Difference]) -> usize {
    differences.iter().filter(|difference| difference.verdict.fails()).count()
}

/// Returns the differences as a table, failures first.
pub(crate) fn text(differences: &[Difference]) -> String {
    let mut sorted: Vec<&Difference> = differences.iter().collect();
    sorted.sort_by_key(|difference| !difference.verdict.fails());
    let or_none = |count: Option<u64>| count.map_or("none".to_owned(), thousands);
    let rows: Vec<Vec<String>> = sorted
        .into_iter()
        .map(|Difference { name, stored, now, verdict }| {
            let (name, verdict) = (name.clone(), verdict.text().to_owned());
            vec![name, or_none(*stored), or_none(*now), percent(*stored, *now), verdict]
        })
        .collect();
    table(&["figure", "stored", "now", "change", ""], &rows)
}

/// Returns the change in percent, with its sign.
pub(crate) fn percent(before: Option<u64>, now: Option<u64>) -> String {
    match (before, now) {
        (Some(before), Some(now)) if before != 0 => {
            format!("{:+.1}%", (now as f64 / before as f64 - 1.0) * 100.0)
        }
        (Some(_), Some(now)) if now != 0 => "from 0".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(pairs: &[(&str, u64)]) -> Figures {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn verdict(name: &str, stored: u64, now: u64, same_compiler: bool) -> Option<Verdict> {
        let [stored, now] = [stored, now].map(|count| figures(&[(name, count)]));
        differences(&stored, &now, same_compiler).first().map(|difference| difference.verdict)
    }

    #[test]
    fn two_percent_are_the_limit() {
        assert_eq!(verdict("a/instructions", 1000, 1000, true), None);
        assert_eq!(verdict("a/instructions", 1000, 1020, true), Some(Verdict::Within));
        assert_eq!(verdict("a/instructions", 1000, 1021, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/instructions", 1000, 999, true), Some(Verdict::Less));
        assert_eq!(verdict("a/instructions", u64::MAX - 1, u64::MAX, true), Some(Verdict::Within));
    }

    #[test]
    fn lines_move_with_code() {
        assert_eq!(verdict("a/code_lines", 19, 22, true), Some(Verdict::Within));
        assert_eq!(verdict("a/code_lines", 19, 23, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/data_lines", 400, 440, true), Some(Verdict::Within));
        assert_eq!(verdict("a/data_lines", 400, 441, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/shared_lines", 4, 9, false), Some(Verdict::Compiler));
        assert_eq!(verdict("a/atomics", 4, 5, false), Some(Verdict::Grown));
    }

    #[test]
    fn one_more_of_few_fails() {
        assert_eq!(verdict("a/tlbi", 0, 1, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/tlbi", 1, 2, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/tlbi", 49, 50, true), Some(Verdict::Grown));
        assert_eq!(verdict("a/tlbi", 50, 51, true), Some(Verdict::Within));
    }

    #[test]
    fn another_compiler_is_not_blamed_on_the_code() {
        assert_eq!(verdict("a/instructions", 100, 200, false), Some(Verdict::Compiler));
        assert_eq!(verdict("a/stopped_instructions", 100, 200, false), Some(Verdict::Compiler));
        assert_eq!(verdict("a/dsb", 100, 200, false), Some(Verdict::Grown));
    }

    #[test]
    fn what_is_gone_fails_and_what_is_new_does_not() {
        let found = differences(&figures(&[("a", 1), ("b", 2)]), &figures(&[("b", 2), ("c", 3)]), true);
        let verdicts: Vec<_> = found.iter().map(|d| (d.name.as_str(), d.verdict)).collect();
        assert_eq!(verdicts, [("a", Verdict::Gone), ("c", Verdict::New)]);
        assert!(Verdict::Gone.fails() && !Verdict::New.fails());
    }

    #[test]
    fn the_text_has_what_fails_first() {
        let found = differences(
            &figures(&[("a/dsb", 3), ("b/isb", 1_000)]),
            &figures(&[("a/dsb", 2), ("b/isb", 1_100), ("c", 5)]),
            true,
        );
        let expected = "\
| figure | stored |   now | change |                       |
| ------ | -----: | ----: | -----: | --------------------: |
| b/isb  |  1,000 | 1,100 | +10.0% | FAILS: grown too much |
| a/dsb  |      3 |     2 | -33.3% |                  less |
| c      |   none |     5 |        |     new: to be stored |
";
        assert_eq!(text(&found), expected);
    }

    #[test]
    fn percent_of_nothing_is_none() {
        assert_eq!(percent(Some(0), Some(1)), "from 0");
        assert_eq!(percent(None, Some(1)), "");
    }
}
