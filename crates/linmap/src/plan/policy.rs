//! The decision which leaves the linear map uses, from the promises of the CPUs.

use core::fmt;

use crate::plan::layout::Rodata;
use crate::plan::region::Leaves;

/// The CPUs that promise never to abort when a live entry changes its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// All CPUs.
    All,
    /// Not the boot CPU.
    NotBoot,
    /// The boot CPU, but not all others.
    NotAll,
}

impl Mode {
    /// Returns the mode for the promise of the boot CPU and the common promise of the others.
    const fn of(boot: bool, all_others: bool) -> Self {
        match (boot, all_others) {
            (true, true) => Self::All,
            (false, _) => Self::NotBoot,
            (true, false) => Self::NotAll,
        }
    }

    /// Returns the number of the mode in documents and messages, 1 to 3.
    pub const fn number(self) -> u8 {
        match self {
            Self::All => 1,
            Self::NotBoot => 2,
            Self::NotAll => 3,
        }
    }
}

/// The fallback for CPUs on which leaves cannot be split while in use: the boot argument `split=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum SplitFallback {
    /// All RAM is mapped in pages, so there is nothing to split.
    #[default]
    Pages,
    /// The other CPUs are parked during a split.
    Park,
}

/// The treatment of leaves in use that would have to change their size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The largest leaves, split in place.
    Live,
    /// All RAM in pages, except for the alias of the kernel image.
    Pages,
    /// The largest leaves; a change that needs a split is refused.
    Fixed,
    /// The largest leaves; the other CPUs are parked while one changes its size.
    Park,
}

impl Policy {
    /// All policies, in the order of their declaration.
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

/// A mode, the policy that follows from it, and the reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The CPUs that promise.
    pub mode: Mode,
    /// The policy that follows.
    pub policy: Policy,
    /// The reason for this policy, as the end of a sentence about the mode.
    pub because: &'static str,
}

impl Decision {
    /// Returns the decision before a second CPU runs. `promises` is true if the boot CPU never aborts when a live entry
    /// changes its size.
    ///
    /// Only `rodata=full` changes single pages of the linear map while the system runs. With `on` or `off` the leaves
    /// never change their size, and may be large on any CPU.
    pub const fn on_boot_cpu(promises: bool, rodata: Rodata, split: SplitFallback) -> Self {
        Self::when_all_reported(promises, true, rodata, split)
    }

    /// Returns the decision once all CPUs are known: `boot` is the promise of the boot CPU, `all_others` that of every
    /// other CPU.
    ///
    /// A map that was created for the boot CPU alone is still right, except in mode 3 with [`SplitFallback::Pages`]:
    /// that map has large leaves and must become pages.
    ///
    /// ```
    /// use linmap::policy::{Decision, Mode, SplitFallback};
    /// use linmap::{Policy, Rodata};
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
                (Policy::Pages, "rodata=full changes single pages and leaves cannot be split live")
            }
            (Rodata::Full, Mode::NotBoot | Mode::NotAll, SplitFallback::Park) => {
                (Policy::Park, "leaves are split while the other CPUs are parked")
            }
        };
        Self { mode, policy, because }
    }

    /// Returns the leaf sizes with which the policy creates the map.
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
