//! Windows: what happened between two moments, counted exactly. Instructions come from the PMU; barriers and
//! invalidations are counted in software.

use linmap::arm64::Uses;
use linmap::cpu::Features;

use crate::cpus::Counted;
use crate::{marks, parking, pmu};

/// The counters, set up.
pub(crate) struct Counters {
    /// The count of an empty window.
    empty: u32,
}

/// The counts of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    /// Instructions, if they were counted.
    pub(crate) instructions: Option<u32>,
    /// Primitives used, by all CPUs.
    pub(crate) uses: Uses,
    /// Its number among all windows, if it has marks around it.
    pub(crate) number: Option<u32>,
}

impl Window {
    /// Returns the sums of several windows; instructions if all of them counted them.
    pub(crate) fn sum<'w>(windows: impl Iterator<Item = &'w Self>) -> Self {
        let nothing = Self { instructions: Some(0), uses: Uses::default(), number: None };
        windows.fold(nothing, |sum, window| Self {
            instructions: sum.instructions.zip(window.instructions).map(|(a, b)| a + b),
            uses: sum.uses.and(window.uses),
            number: None,
        })
    }
}

impl Counters {
    /// Starts the first event counter, if the CPU has any.
    pub(crate) fn start(features: &Features) -> Self {
        let present = pmu::start(features);
        let (begin, end) = (pmu::read(present), pmu::read(present));
        Self { empty: end.wrapping_sub(begin) }
    }

    /// Runs `work` and counts what it makes CPUs do: this one, and those that it parks. Ticks of other CPUs are not
    /// counted, nor the barriers that reading the clock and the counters takes.
    #[inline(always)]
    pub(crate) fn window<R>(&self, cpu: &Counted, work: impl FnOnce() -> R) -> (R, Window) {
        // CPUs that were parked count what they used when they are back: wait for those of before, and those of now.
        parking::settle();
        let uses = cpu.uses();
        let present = pmu::is_present();
        let begin = marks::begin(present);
        let result = work();
        let end = marks::end(present);
        let number = Some(marks::number());
        let instructions = end.wrapping_sub(begin);
        parking::settle();
        let after = cpu.uses();
        let uses =
            Uses { tlbi: after.tlbi - uses.tlbi, dsb: after.dsb - uses.dsb, isb: after.isb - uses.isb };
        (result, Window { instructions: self.counted(instructions), uses, number })
    }

    /// Returns the difference of two readings without what these cost; none where instructions are not counted.
    pub(crate) fn counted(&self, instructions: u32) -> Option<u32> {
        // An empty window without instructions means that nothing counts.
        (self.empty != 0).then(|| instructions.saturating_sub(self.empty))
    }
}
