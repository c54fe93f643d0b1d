//! The system once it is up: all that later code needs, as one value.

use kernel::crashkernel::Reserved;
use kernel_plan::bootargs::BootArgs;
use kernel_plan::machine::Machine;
use kernel_plan::plan::Plan;
use linmap::cpu::{BbmPromise, Features};
use linmap::policy::Decision;
use linmap::{Combined, Geometry, Pa, SharedSpace, Stats};
use spin::mutex::SpinMutex;

use crate::counters::{Counters, Window};
use crate::frames::Frames;
use crate::hardware::{HARDWARE, Kernel};
use crate::image::Image;
use crate::limbo;
use crate::lock::Guarded;
use crate::memory::Costs;
use crate::smp::team::Team;

/// The system.
pub(crate) struct System<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) args: &'a BootArgs<'a>,
    /// The features of the boot CPU.
    pub(crate) features: Features,
    pub(crate) decision: Decision,
    pub(crate) promise: BbmPromise,
    pub(crate) geometry: Geometry,
    pub(crate) memory: &'a Plan<'a>,
    pub(crate) image: &'a Image,
    pub(crate) frames: &'a Frames,
    /// The upper half.
    pub(crate) space: &'static SharedSpace,
    /// The counts of the linear map when all changes are undone.
    pub(crate) stats: SpinMutex<Stats>,
    /// The crash kernel's reservation, if there is one.
    pub(crate) crash: Guarded<Option<Reserved>>,
    pub(crate) costs: Costs,
    /// The costs of putting the map into pages, if that was done.
    pub(crate) repainted: Option<Repainted>,
    pub(crate) counters: &'a Counters,
    /// The table pages of the upper half outside the linear map, before anything is in the vmalloc area, and the empty
    /// one of the lower half.
    pub(crate) held_tables: u64,
    /// The table pages of the 1:1 map.
    pub(crate) identity_tables: u64,
    /// The end of all that is mapped, as a physical address.
    pub(crate) highest: Pa,
    /// The other CPUs.
    pub(crate) team: Team,
}

/// The costs of a repaint.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repainted {
    /// All of it.
    pub(crate) window: Window,
    /// The instructions of all CPUs from when they were asked to park until all were back.
    pub(crate) stopped: Option<u64>,
    /// The number of entries of the root that were stored meanwhile, if the root stays.
    pub(crate) stored: Option<u64>,
}

impl<'a> System<'a> {
    /// Returns the counts of the linear map.
    pub(crate) fn stats(&self) -> Stats {
        *self.stats.lock()
    }

    /// Returns the number of pages that are taken, without those that only waited for readers.
    pub(crate) fn pages_in_use(&self) -> u64 {
        limbo::drain(self.frames);
        self.frames.in_use()
    }

    /// Returns table pages and CPUs, as the library wants them.
    pub(crate) const fn platform(&self) -> Combined<'a, Frames, Kernel> {
        // SAFETY: all live tables are of this frame source, and locked through `HARDWARE` alone.
        unsafe { Combined::new(self.frames, &HARDWARE) }
    }
}
