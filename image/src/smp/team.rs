//! The CPUs other than the boot CPU: those that do not run, and those that may abort.

use arrayvec::ArrayVec;
use kernel_plan::admit::Refusal;
use linmap::cpu::BbmPromise;

use crate::cpu;

/// A CPU that does not run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RefusedCpu {
    /// Its number.
    pub(crate) cpu: usize,
    /// Its MIDR_EL1, if it has reported it.
    pub(crate) midr: Option<u64>,
    /// The reason.
    pub(crate) why: Refusal,
}

/// A CPU that may abort when block sizes change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MayAbort {
    /// Its number.
    pub(crate) cpu: usize,
    /// Its MIDR_EL1.
    pub(crate) midr: u64,
    /// The promise of the architecture and its model.
    pub(crate) promise: BbmPromise,
}

/// The CPUs other than the boot CPU.
#[derive(Debug, Default)]
pub(crate) struct Team {
    /// Those that do not run.
    pub(crate) refused: ArrayVec<RefusedCpu, { cpu::MAX }>,
    /// The first of those let in that may abort.
    pub(crate) may_abort: Option<MayAbort>,
    /// The pages of stacks, and of slots whose CPUs may still use them.
    pub(crate) pages: u64,
}
