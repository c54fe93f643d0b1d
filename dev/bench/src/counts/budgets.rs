//! Budgets: the most that figures may ever be. People write them, and `--update` leaves them alone.

use super::counted::{Figures, is_compiled};
use crate::report::{table, thousands};

/// The file of budgets.
pub(crate) const FILE: &str = "docs/benchmarks/budgets.txt";

/// The most that one figure may be.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Budget {
    figure: String,
    at_most: Most,
    reason: String,
}

/// The most that something may be.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Most {
    Count(u64),
    /// More than another figure, in percent of that.
    Percent(f64),
}

/// Reads the text of the file: a figure, the most that it may be, and the reason, on each line that is no comment.
pub(crate) fn read(text: &str) -> Result<Vec<Budget>, String> {
    let lines = (1usize..).zip(text.lines().map(str::trim));
    let mut budgets = Vec::<Budget>::new();
    for (n, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let budget = budget(line).ok_or_else(|| {
            format!("{FILE}:{n}: a figure, the most that it may be, and a reason should be here: {line}")
        })?;
        if budgets.iter().any(|other| other.figure == budget.figure) {
            return Err(format!("{FILE}:{n}: {} has a budget already", budget.figure));
        }
        budgets.push(budget);
    }
    Ok(budgets)
}

fn budget(line: &str) -> Option<Budget> {
    let (figure, rest) = line.split_once(char::is_whitespace)?;
    let (at_most, reason) = rest.trim_start().split_once(char::is_whitespace)?;
    let at_most = match at_most.strip_suffix('%') {
        Some(percent) => Most::Percent(percent.parse().ok()?),
        None => Most::Count(at_most.replace(',', "").parse().ok()?),
    };
    Some(Budget { figure: figure.to_owned(), at_most, reason: reason.trim_start().to_owned() })
}

/// Figures beside their budgets.
#[derive(Debug, PartialEq)]
pub(crate) struct Judged<'b> {
    /// Budgets with the most that they permit, and the figures that are above that.
    above: Vec<(&'b Budget, u64, u64)>,
    /// Budgets whose figures do not exist.
    missing: Vec<&'b Budget>,
}

/// Compares figures with their budgets; those that depend on the compiler only if it is the one that the budgets were made with.
pub(crate) fn judge<'b>(budgets: &'b [Budget], now: &Figures, same_compiler: bool) -> Judged<'b> {
    let judged = |figure: &str| same_compiler || !is_compiled(figure);
    let (mut above, mut missing) = (vec![], vec![]);
    for budget in budgets {
        let Most::Count(at_most) = budget.at_most else { continue };
        match now.get(&budget.figure) {
            None => missing.push(budget),
            Some(&count) if count > at_most && judged(&budget.figure) => above.push((budget, at_most, count)),
            Some(_) => {}
        }
    }
    Judged { above, missing }
}

/// Returns by how many percent a figure may be above another one.
///
/// # Errors
///
/// It has no budget in percent.
pub(crate) fn percent(budgets: &[Budget], figure: &str) -> Result<f64, String> {
    let found = budgets.iter().find(|budget| budget.figure == figure);
    match found.map(|budget| budget.at_most) {
        Some(Most::Percent(percent)) => Ok(percent),
        _ => Err(format!("{FILE}: {figure} should have a budget in percent")),
    }
}

impl Judged<'_> {
    /// Returns how many figures are above their budgets.
    pub(crate) fn failed(&self) -> usize {
        self.above.len()
    }

    /// Returns what is to be said; nothing if all is well.
    pub(crate) fn text(&self) -> String {
        let row = |(budget, at_most, count): &(&Budget, u64, u64)| {
            vec![budget.figure.clone(), thousands(*count), thousands(*at_most), budget.reason.clone()]
        };
        let mut text = match self.above.as_slice() {
            [] => String::new(),
            above => {
                let rows: Vec<_> = above.iter().map(row).collect();
                format!("{}\n", table(&["above its budget", "now", "at most", "reason"], &rows))
            }
        };
        for budget in &self.missing {
            text += &format!("{FILE}: no figure has the name {}\n", budget.figure);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# a comment\n\na/instructions  1,000  the reason of a\nb/dsb 2 of b\n";

    fn figures(pairs: &[(&str, u64)]) -> Figures {
        pairs.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    #[test]
    fn a_line_is_a_figure_a_number_and_a_reason() {
        let budgets = read(TEXT).unwrap();
        let numbers: Vec<_> = budgets.iter().map(|b| (b.figure.as_str(), b.at_most)).collect();
        assert_eq!(numbers, [("a/instructions", Most::Count(1000)), ("b/dsb", Most::Count(2))]);
        assert_eq!(budgets[0].reason, "the reason of a");
        for (wrong, line) in [("a 1", 1), ("a\n", 1), ("#\na b c", 2), ("a 1 x\na 2 y", 2), ("a -1 x", 1)] {
            assert!(read(wrong).unwrap_err().starts_with(&format!("{FILE}:{line}: ")), "{wrong}");
        }
    }

    #[test]
    fn what_is_above_fails_and_what_is_missing_is_said() {
        let budgets = read(TEXT).unwrap();
        let judged = judge(&budgets, &figures(&[("a/instructions", 1000), ("b/dsb", 2)]), true);
        assert_eq!((judged.failed(), judged.text().as_str()), (0, ""));
        let judged = judge(&budgets, &figures(&[("a/instructions", 1001), ("b/dsb", 3)]), true);
        assert_eq!(judged.failed(), 2);
        assert!(judged.text().contains("| a/instructions   | 1,001 |   1,000 | the reason of a |"));
        let judged = judge(&budgets, &figures(&[("a/instructions", 1)]), true);
        assert_eq!((judged.failed(), judged.text()), (0, format!("{FILE}: no figure has the name b/dsb\n")));
    }

    /// They are not those of a boot.
    #[test]
    fn percentages_are_asked_for_by_name() {
        let budgets = read("sizes/text 1.5% of the text\na/dsb 2 of a\n").unwrap();
        assert_eq!(percent(&budgets, "sizes/text"), Ok(1.5));
        assert!(percent(&budgets, "a/dsb").unwrap_err().contains("in percent"));
        assert_eq!(judge(&budgets, &figures(&[("a/dsb", 2)]), true).text(), "");
    }

    #[test]
    fn another_compiler_is_not_blamed_on_the_code() {
        let budgets = read(TEXT).unwrap();
        let now = figures(&[("a/instructions", 2000), ("b/dsb", 3)]);
        assert_eq!(judge(&budgets, &now, false).failed(), 1);
    }
}
