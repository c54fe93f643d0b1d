//! Live tables: what walkers can reach, and how it changes.
//!
//! # Locks
//!
//! The platform's locks cover the live tables by gigabyte (`lock_set.rs`). An operation takes the locks of its addresses,
//! at most [`HOLD`](crate::Sharing::HOLD) entries at a time, and holds them from the first read of the tables until the
//! last invalidation is complete (`call.rs`). A longer operation claims its range first (`claims.rs`), so that it
//! remains all or nothing, and goes through it piece by piece (`pieces.rs`). Its invalidations are complete before the
//! claim goes. So no caller sees a partial change of its own addresses, and none returns while a TLB holds an old
//! translation of them. A list of more ranges than a claim has is changed in groups of so many.
//!
//! Nothing is allocated, no CPU is waited for, and no callback is called while a lock is held. One exception: CPUs are
//! parked in a hold, after they have answered before it ([`Hardware::call`]).
//!
//! Readers hold no lock (`reader.rs`). For them and for the walkers of the CPUs each change is a single store. A table is
//! retired when walkers can no longer reach it (`retired.rs`), and given back when readers have left.
//!
//! A repaint ([`Live::repaint`]) copies the map in holds of one gigabyte's lock. Changes in between are marked
//! (`marks.rs`) and copied again. The CPUs switch to the second tree in a hold of all locks in which no mark is left.
//!
//! [`Hardware::call`]: crate::Hardware::call

use core::mem::MaybeUninit;
use core::ops::Deref;

use crate::build::{Changes, SplitCost, Tree};
use crate::edit::{Caller, Live, Tables};
use crate::format::{Geometry, Half, Pa};
use crate::plan::Stats;
use crate::platform::{Platform, Reason, all_locks, with_locks};
use crate::share::hold::{Hold, Owner};
use crate::share::map_state::MapState;

/// The live tables of one half of an address space, which any number of callers change at once.
///
/// [`on`](Self::on) leads to the [operations](Live). What is known of the tables, and the policy, are methods of [`Tables`], to which it
/// leads.
///
/// `LOCKS` is the most locks that its callers' platforms have ([`Sharing::LOCKS`](crate::Sharing::LOCKS)): a power of 2 up to 64. A platform with
/// more does not compile. With one lock it takes a kilobyte beside its tables, with 64 twelve.
#[derive(Debug)]
pub struct SharedSpace<const LOCKS: usize = 64> {
    state: MapState<LOCKS>,
}

/// With one lock it is at most a kilobyte.
const _: () = assert!(size_of::<SharedSpace<1>>() <= 1 << 10);

impl SharedSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller then executes a DSB ISHST and loads [`root`](Tables::root) into the TTBR of the tree's half; until then
    /// nothing translates by the tree. The caller is responsible for what the tree maps. The policy is
    /// [`Policy::Fixed`](crate::Policy::Fixed) until [`set_policy`](Tables::set_policy) changes it.
    ///
    /// It has the state of 64 locks, 12 KB. [`BlankSpace::adopt`](crate::BlankSpace::adopt) and [`adopt_in`](Self::adopt_in) make
    /// one for fewer: 1 KB for one lock.
    pub fn adopt(tree: Tree) -> Self {
        Self::of_tree(tree)
    }
}

impl<const LOCKS: usize> SharedSpace<LOCKS> {
    /// Makes a tree live as [`adopt`](SharedSpace::adopt) does, where the value will stay: with many locks it is larger than the stacks
    /// of some kernels.
    pub fn adopt_in(memory: &mut MaybeUninit<Self>, tree: Tree) -> &mut Self {
        let (geometry, half, stats) = (tree.geometry(), tree.half(), tree.stats());
        Self::over_in(memory, (tree.into_root().into_pa(), geometry, half), &stats)
    }

    /// Makes the owner of a map with these counts below a root.
    pub(crate) fn over_in<'s>(
        memory: &'s mut MaybeUninit<Self>,
        root: (Pa, Geometry, Half),
        stats: &Stats,
    ) -> &'s mut Self {
        let space = memory.write(Self { state: MapState::BLANK });
        space.state.begin(root, stats);
        space
    }

    /// Makes a tree live.
    pub(crate) fn of_tree(tree: Tree) -> Self {
        Self::of(MapState::of(tree))
    }

    /// Returns the owner of a map in that state.
    pub(crate) const fn of(state: MapState<LOCKS>) -> Self {
        Self { state }
    }

    /// Returns the operations on these tables, for one of the callers who share them, by this platform.
    #[inline(always)]
    pub const fn on<'a, P: Platform>(&'a self, platform: &'a P) -> Live<'a, Hold<'a, P, LOCKS>> {
        const { assert!(P::LOCKS <= LOCKS, "the platform has more locks than the space has the state of") };
        let owner = Owner { state: &self.state, reason: Reason::NONE };
        Live { caller: Caller { platform, owner } }
    }

    /// Returns what is known of the tables.
    #[inline(always)]
    pub(crate) const fn tables(&self) -> &Tables {
        &self.state.tables
    }

    /// Returns the state of the map, for tests of it.
    #[cfg(test)]
    pub(crate) const fn state(&self) -> &MapState<LOCKS> {
        &self.state
    }

    /// Returns the state of the map, for its maker.
    pub(crate) const fn state_mut(&mut self) -> &mut MapState<LOCKS> {
        &mut self.state
    }

    /// Lets the root stay where it is for ever: [`repaint`](Live::repaint) then stores its entries, instead of switching to
    /// a second root. One that is under way may still switch.
    pub fn fix_root(&self) {
        self.state.tables.fix_root();
    }

    /// Returns what splits for a reason have cost since the map was made. It takes no lock, and counts each split once its
    /// stores are made.
    ///
    /// A caller gives the reason by [`Live::because`]. What a collapse would bring back is the difference of
    /// [`count`](crate::Reader::count) and [`count_collapsed`](crate::Reader::count_collapsed).
    pub fn split_cost(&self, reason: Reason) -> SplitCost {
        self.state.split_costs.of(reason)
    }

    /// Returns true if changes with [`ChangeFlags::LATER`](crate::ChangeFlags::LATER) have left anything to invalidate.
    pub fn has_pending(&self) -> bool {
        self.state.attention.is_pending()
    }

    /// Returns true if a call is under way that has claimed addresses, or a repaint. Others may be refused meanwhile, if they
    /// cannot wait. A call that holds a lock is not meant.
    pub fn is_claimed(&self) -> bool {
        self.state.attention.is_needed_for_more()
    }
}

impl<const LOCKS: usize> Deref for SharedSpace<LOCKS> {
    type Target = Tables;

    #[inline(always)]
    fn deref(&self) -> &Tables {
        self.tables()
    }
}

impl<P: Platform, const LOCKS: usize> Live<'_, Hold<'_, P, LOCKS>> {
    /// Sets the reason of the change that follows. The leaves that it splits are counted by it ([`SharedSpace::split_cost`]).
    ///
    /// ```
    /// # use linmap::host::HostMemory;
    /// use linmap::{Change, Reason, SharedSpace, Va};
    /// # use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Tree};
    /// # let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
    /// # let memory = HostMemory::new(g, 16);
    /// # let platform = memory.platform();
    /// # let space = SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, core::iter::empty())?);
    /// # space.set_policy(Policy::Live);
    /// # let start = Va(g.base(Half::Upper));
    /// # // SAFETY: no CPU uses these tables.
    /// # unsafe { space.on(&platform).map(start, 512, Pa(0), Attributes::RAM)? };
    ///
    /// // SAFETY: no CPU uses these tables.
    /// unsafe { space.on(&platform).because(Reason::MODULE).protect(start, 1, Change::READ_ONLY)? };
    /// // A block became a table: 31 runs of 16 pages, and 16 single ones.
    /// let cost = space.split_cost(Reason::MODULE);
    /// assert_eq!((cost.splits, cost.tlb_entries), (1, 31 + 16 - 1));
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn because(mut self, reason: Reason) -> Self {
        self.caller.owner.reason = reason;
        self
    }

    /// Returns the counts of leaves and tables of the half. Takes all locks for a moment. While another caller unmaps whole tables they may
    /// still have these.
    pub fn stats(&self) -> Stats {
        let Caller { platform, owner } = self.caller;
        with_locks(platform, all_locks::<P>(), || owner.state.stats())
    }

    /// Returns the counts of operations on the map. Takes all locks for a moment.
    pub fn changes(&self) -> Changes {
        let Caller { platform, owner } = self.caller;
        with_locks(platform, all_locks::<P>(), || owner.state.changes())
    }
}
