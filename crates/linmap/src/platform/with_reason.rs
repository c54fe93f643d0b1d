//! Hardware whose changes are made for a reason, by which splits are counted.

use crate::platform::hardware::{Hardware, leave_to_hardware};
use crate::platform::memory::{Frame, Memory};
use crate::platform::reason::Reason;

/// Hardware whose changes are made for a reason. All else is that of the hardware below.
///
/// ```
/// # use linmap::host::HostMemory;
/// use linmap::{SharedSpace, Change, Combined, Reason, Va, WithReason};
/// # use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Tree};
/// # let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// # let memory = HostMemory::new(g, 16);
/// # let hardware = memory.platform();
/// # let space = SharedSpace::adopt(Tree::build(&hardware, g, Half::Upper, core::iter::empty())?);
/// # space.set_policy(Policy::Live);
/// # let start = Va(g.base(Half::Upper));
/// # // SAFETY: no CPU uses these tables.
/// # unsafe { space.on(&hardware).map(start, 512, Pa(0), Attributes::RAM)? };
///
/// let for_module = WithReason::new(&hardware, Reason::MODULE);
/// // SAFETY: the locks of `hardware` are the only ones of these tables.
/// let platform = unsafe { Combined::new(&memory, &for_module) };
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.on(&platform).protect(start, 1, Change::READ_ONLY)? };
/// // A block became a table: 31 runs of 16 pages, and 16 single ones.
/// let cost = space.split_cost(Reason::MODULE);
/// assert_eq!((cost.splits, cost.tlb_entries), (1, 31 + 16 - 1));
/// # Ok::<(), Box<dyn core::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct WithReason<'a, H> {
    hardware: &'a H,
    reason: Reason,
}

impl<'a, H: Hardware> WithReason<'a, H> {
    /// Combines hardware and a reason.
    pub const fn new(hardware: &'a H, reason: Reason) -> Self {
        Self { hardware, reason }
    }
}

// SAFETY: `reason` promises nothing. All other methods are the hardware's own, which keeps its promises.
unsafe impl<H: Hardware> Hardware for WithReason<'_, H> {
    leave_to_hardware!(H, self => self.hardware);

    fn reason(&self) -> Reason {
        self.reason
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.hardware.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.hardware.retire(memory, frame);
    }
}
