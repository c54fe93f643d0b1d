//! Which leaves the linear map uses, and why: a decision from what CPUs promise.

use core::fmt;

use crate::plan::layout::Rodata;
use crate::plan::region::Leaves;

/// Which CPUs promise never to abort when a live entry changes its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All of them.
    All,
    /// Not the boot CPU.
    NotBoot,
    /// The boot CPU, but not all others.
    NotAll,
}

impl Mode {
    /// What follows from who promises.
    const fn of(boot: bool, all_others: bool) -> Self {
        match (boot, all_others) {
            (true, true) => Self::All,
            (false, _) => Self::NotBoot,
            (true, false) => Self::NotAll,
        }
    }

    /// The number that people call it by.
    pub const fn number(self) -> u8 {
        match self {
            Self::All => 1,
            Self::NotBoot => 2,
            Self::NotAll => 3,
        }
    }
}

/// What is done where leaves can not be split while they are in use: the boot argument `split=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SplitFallback {
    /// There is nothing to split: all RAM is in pages.
    #[default]
    Pages,
    /// The other CPUs are parked meanwhile.
    Park,
}

/// What is done with that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The largest leaves, split in place.
    Live,
    /// All RAM in pages, but for the alias of the kernel image.
    Pages,
    /// The largest leaves; a change that needs a split is refused.
    Fixed,
    /// The largest leaves; the other CPUs are parked while one changes its size.
    Park,
}

impl Policy {
    /// All of them, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::Live, Self::Pages, Self::Fixed, Self::Park];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Live => "live",
            Self::Pages => "pages",
            Self::Fixed => "fixed",
            Self::Park => "park",
        })
    }
}

/// A mode, the policy that follows, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// Which CPUs promise.
    pub mode: Mode,
    /// What follows.
    pub policy: Policy,
    /// Why this policy, as the end of a sentence about the mode.
    pub because: &'static str,
}

impl Decision {
    /// What the boot CPU leads to before another one runs: whether it promises never to abort when a live
    /// entry changes size, and what is asked for.
    ///
    /// Only `rodata=full` changes single pages of the linear map while the system runs; with anything
    /// less the leaves never change their size, and may be large on any CPU.
    pub const fn on_boot_cpu(promises: bool, rodata: Rodata, split: SplitFallback) -> Self {
        Self::when_all_reported(promises, true, rodata, split)
    }

    /// What all CPUs lead to: whether the boot CPU promises, and whether each of the others does.
    ///
    /// A map that was created for the boot CPU alone fits, but in mode 3 with [`SplitFallback::Pages`]: that one is
    /// in large leaves and has to become pages.
    ///
    /// ```
    /// use linmap::{Decision, Mode, Policy, Rodata, SplitFallback};
    ///
    /// let first = Decision::on_boot_cpu(true, Rodata::Full, SplitFallback::Park);
    /// let all = Decision::when_all_reported(true, false, Rodata::Full, SplitFallback::Park);
    /// assert_eq!((first.mode, first.policy), (Mode::All, Policy::Live));
    /// assert_eq!((all.mode, all.policy), (Mode::NotAll, Policy::Park));
    /// assert_eq!(first.leaves(), all.leaves());
    /// ```
    pub const fn when_all_reported(
        boot: bool,
        all_others: bool,
        rodata: Rodata,
        split: SplitFallback,
    ) -> Self {
        let mode = Mode::of(boot, all_others);
        let (policy, because) = match (rodata, mode, split) {
            (Rodata::Off | Rodata::On, ..) => {
                (Policy::Fixed, "rodata is not full, so no leaf ever changes its size")
            }
            (Rodata::Full, Mode::All, _) => (Policy::Live, "leaves can be split while they are in use"),
            (Rodata::Full, Mode::NotBoot | Mode::NotAll, SplitFallback::Pages) => {
                (Policy::Pages, "rodata=full changes single pages and leaves can not be split live")
            }
            (Rodata::Full, Mode::NotBoot | Mode::NotAll, SplitFallback::Park) => {
                (Policy::Park, "leaves are split while the other CPUs are parked")
            }
        };
        Self { mode, policy, because }
    }

    /// The leaves that the policy creates the map with.
    pub const fn leaves(&self) -> Leaves {
        match self.policy {
            Policy::Live | Policy::Fixed | Policy::Park => Leaves::Largest,
            Policy::Pages => Leaves::Pages,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [bool; 2] = [false, true];
    const RODATA: [Rodata; 3] = [Rodata::Off, Rodata::On, Rodata::Full];
    const SPLIT: [SplitFallback; 2] = [SplitFallback::Pages, SplitFallback::Park];

    #[test]
    fn who_promises_and_what_is_asked_for_make_the_policy() {
        let expected = |boot, others, rodata, split| match (boot, others, rodata, split) {
            (_, _, Rodata::Off | Rodata::On, _) => (Policy::Fixed, "rodata is not full"),
            (true, true, Rodata::Full, _) => (Policy::Live, "while they are in use"),
            (_, _, Rodata::Full, SplitFallback::Pages) => (Policy::Pages, "changes single pages"),
            (_, _, Rodata::Full, SplitFallback::Park) => (Policy::Park, "are parked"),
        };
        for (boot, others) in BOTH.into_iter().flat_map(|b| BOTH.map(|o| (b, o))) {
            let mode = [[2, 2], [3, 1]][usize::from(boot)][usize::from(others)];
            for (rodata, split) in RODATA.into_iter().flat_map(|r| SPLIT.map(|s| (r, s))) {
                let decision = Decision::when_all_reported(boot, others, rodata, split);
                let (policy, word) = expected(boot, others, rodata, split);
                assert_eq!((decision.mode.number(), decision.policy), (mode, policy), "{decision:?}");
                assert!(decision.because.contains(word), "{decision:?}");
                let leaves = if policy == Policy::Pages { Leaves::Pages } else { Leaves::Largest };
                assert_eq!(decision.leaves(), leaves, "{decision:?}");
            }
        }
    }

    #[test]
    fn the_map_made_for_the_boot_cpu_fits_all_but_mode_3_in_pages() {
        for (boot, others) in BOTH.into_iter().flat_map(|b| BOTH.map(|o| (b, o))) {
            for (rodata, split) in RODATA.into_iter().flat_map(|r| SPLIT.map(|s| (r, s))) {
                let first = Decision::on_boot_cpu(boot, rodata, split);
                let all = Decision::when_all_reported(boot, others, rodata, split);
                let repainted = (all.mode, all.policy) == (Mode::NotAll, Policy::Pages);
                assert_eq!(first.leaves() != all.leaves(), repainted, "{first:?} {all:?}");
            }
        }
    }
}
