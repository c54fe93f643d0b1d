//! Hardware whose changes are made for a reason, by which splits are counted.

use crate::format::{Geometry, Pa, Tlbi, Va};
use crate::platform::entry_update::EntryUpdate;
use crate::platform::hardware::{CannotPark, Dsb, Hardware, Promise};
use crate::platform::memory::{Frame, Memory};
use crate::platform::reason::Reason;

/// Hardware whose changes are made for a reason. All else is that of the hardware below.
///
/// ```
/// # use linmap::host::HostMemory;
/// use linmap::{AddressSpace, Change, Combined, Reason, Va, WithReason};
/// # use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Tree};
/// # let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// # let memory = HostMemory::new(g, 16);
/// # let hardware = memory.platform();
/// # let space = AddressSpace::adopt(Tree::build(&hardware, g, Half::Upper, core::iter::empty())?);
/// # space.set_policy(Policy::Live);
/// # let start = Va(g.base(Half::Upper));
/// # // SAFETY: no CPU uses these tables.
/// # unsafe { space.map(&hardware, start, 512, Pa(0), Attributes::RAM)? };
///
/// let for_module = WithReason::new(&hardware, Reason::MODULE);
/// // SAFETY: the locks of `hardware` are the only ones of these tables.
/// let platform = unsafe { Combined::new(&memory, &for_module) };
/// // SAFETY: no CPU uses these tables.
/// unsafe { space.protect(&platform, start, 1, Change::READ_ONLY)? };
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

// SAFETY: every method but `reason`, of which nothing is promised, is the hardware's own, which keeps its promises.
unsafe impl<H: Hardware> Hardware for WithReason<'_, H> {
    const LOCKS: usize = H::LOCKS;
    const HOLD: usize = H::HOLD;

    type Held<'h>
        = H::Held<'h>
    where
        Self: 'h;

    fn reason(&self) -> Reason {
        self.reason
    }

    #[inline]
    fn lock(&self, number: usize) -> Self::Held<'_> {
        self.hardware.lock(number)
    }

    fn wait(&self) -> bool {
        self.hardware.wait()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.hardware.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.hardware.retire(memory, frame);
    }

    #[inline]
    fn promise(&self) -> Promise {
        self.hardware.promise()
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.hardware.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.hardware.isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.hardware.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.hardware.sync_code(va, bytes);
    }

    fn call(&self) -> Result<(), CannotPark> {
        self.hardware.call()
    }

    fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        self.hardware.park(memory, root, updates)
    }
}
