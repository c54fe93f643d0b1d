//! Compares times over two maps: how much more work large leaves do in the same time, and if that is more than the spread
//! of the turns.

use super::measurement::{Cell, Ns, Setting};

/// The comparison of two maps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Verdict {
    /// The work that is done more in the same time in large leaves, in percent.
    pub(crate) percent: f64,
    /// The middle halves of the turns overlap: the difference may be chance.
    pub(crate) within_spread: bool,
}

/// Compares the maps of a cell, if both were measured, on a CPU whose times mean something.
pub(crate) fn of(setting: &Setting, cell: &Cell) -> Option<Verdict> {
    if setting.emulated {
        return None;
    }
    let (pages, large) = (cell.pages.as_ref()?, cell.large.as_ref()?);
    between(&pages.ns, &large.ns)
}

fn between(pages: &Ns, large: &Ns) -> Option<Verdict> {
    let percent = (pages[2] as f64 / large[2] as f64 - 1.0f64) * 100.0f64;
    let within_spread = pages[1] <= large[3] && large[1] <= pages[3];
    percent.is_finite().then_some(Verdict { percent, within_spread })
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let spread = if self.within_spread { " (within the spread)" } else { "" };
        write!(f, "{:+.1}%{spread}", self.percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_time_is_twice_the_work() {
        let verdict = between(&[900, 950, 1000, 1050, 1100], &[450, 475, 500, 525, 550]);
        assert_eq!(verdict, Some(Verdict { percent: 100.0, within_spread: false }));
        assert_eq!(verdict.map(|v| v.to_string()).as_deref(), Some("+100.0%"));
    }

    #[test]
    fn what_overlaps_may_be_chance() {
        let verdict = between(&[80, 90, 100, 110, 200], &[80, 95, 105, 130, 140]).expect("times");
        assert!(verdict.within_spread && verdict.percent < 0.0);
        assert_eq!(verdict.to_string(), "-4.8% (within the spread)");
        assert_eq!(between(&[0; 5], &[0; 5]), None);
    }
}
