//! Whole trees, moved into a live map where its root has holes.

use crate::build::Tree;
use crate::format::{Descriptor, Span, Va};
use crate::live::address_space::AddressSpace;
use crate::live::attempt::Call;
use crate::live::error::{ChangeError, GraftError};
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::plan::Stats;
use crate::platform::{Dsb, Platform};
use crate::read::Table;

impl AddressSpace {
    /// Moves a tree of the same geometry and half into this address space, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store; everything below it is in its final state
    /// before a walker can see it. The cost is two DSB ISHST and an ISB, without a TLBI. The tree's own root page goes
    /// back to the memory. Returns the counts of what was added. On return this CPU uses the new entries; another CPU
    /// does so after its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// A tree of another geometry or half; memory that is both writable and executable; a used slot of the live root
    /// between the first and the last slot that the tree uses; a claim in the way. The tree is then discarded, and nothing has changed.
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
    pub unsafe fn graft<P: Platform>(&self, platform: &P, mut tree: Tree) -> Result<Stats, GraftError> {
        let grafted = self.may_graft(&tree).and_then(|span| self.publish(platform, &mut tree, span));
        settled(platform, tree, grafted)
    }

    /// Moves a tree into this address space as [`graft`](Self::graft) does, for a caller who has it alone: no lock is taken.
    ///
    /// # Errors
    ///
    /// As for [`graft`](Self::graft).
    ///
    /// # Safety
    ///
    /// As for [`map`](Self::map), for everything that the tree maps.
    #[inline(always)]
    pub unsafe fn graft_alone<P: Platform>(
        &mut self,
        platform: &P,
        mut tree: Tree,
    ) -> Result<Stats, GraftError> {
        let grafted = self.may_graft(&tree).and_then(|span| self.publish_alone(platform, &mut tree, span));
        settled(platform, tree, grafted)
    }

    /// Checks a tree. Returns the addresses of the entries of the root that its entries may take; those of one if it has none.
    fn may_graft(&self, tree: &Tree) -> Result<Span, GraftError> {
        if (tree.geometry(), tree.half()) != (self.geometry(), self.state().half()) {
            return Err(GraftError::OtherGeometry);
        }
        let span = self.touched_by(tree);
        if !tree.used().is_empty()
            && let Err(ChangeError::NotOwned { va }) = self.state().owns(span)
        {
            return Err(GraftError::NotOwned { va });
        }
        match tree.write_execute() {
            Some(va) if !self.state().allows_write_execute() => Err(GraftError::WriteExecute { va }),
            _ => Ok(span),
        }
    }

    /// Moves the entries of the tree's root into the live root.
    fn publish<P: Platform>(&self, platform: &P, tree: &mut Tree, span: Span) -> Result<(), GraftError> {
        let published = Call::new(self.state(), platform).attempts(span, |locked| {
            let root = locked.root();
            is_free(locked, &root, tree)?;
            locked.mark(span);
            store_root(locked, &root, tree);
            Ok(())
        });
        match published {
            Err(ChangeError::Occupied { va }) => Err(GraftError::Occupied { va }),
            Err(_) => Err(GraftError::Busy { va: Va(span.first) }),
            Ok(_) => Ok(()),
        }
    }

    /// Does the same without locks: the borrow excludes all other users, and with them claims and repaints.
    #[inline(always)]
    fn publish_alone<P: Platform>(
        &mut self,
        platform: &P,
        tree: &mut Tree,
        span: Span,
    ) -> Result<(), GraftError> {
        let call = Call::new(self.state(), platform);
        let locked = call.locked(LockSet::of::<P>(span));
        let root = locked.root();
        if let Err(ChangeError::Occupied { va }) = is_free(&locked, &root, tree) {
            return Err(GraftError::Occupied { va });
        }
        locked.settle(span);
        store_root(&locked, &root, tree);
        Ok(())
    }

    #[inline(always)]
    fn touched_by(&self, tree: &Tree) -> Span {
        let (used, state) = (tree.used(), self.state());
        let at = |index: usize| state.base() + ((index as u64) << state.root_shift());
        let last = used.end.max(used.start + 1) - 1;
        Span { first: at(used.start), last: at(last) + ((1 << state.root_shift()) - 1) }
    }
}

/// Gives the root of a tree that was grafted back, or all of a tree that was not.
#[inline(always)]
fn settled<P: Platform>(
    platform: &P,
    tree: Tree,
    grafted: Result<(), GraftError>,
) -> Result<Stats, GraftError> {
    match grafted {
        Ok(()) => {
            let stats = tree.stats();
            platform.give(tree.into_root());
            Ok(stats)
        }
        Err(error) => {
            tree.discard(platform);
            Err(error)
        }
    }
}

/// Checks that the live root has holes where a tree may have entries.
///
/// # Errors
///
/// It has something there.
fn is_free<P: Platform>(locked: &Locked<'_, P>, root: &Table, tree: &Tree) -> Result<(), ChangeError> {
    match tree.used().find(|&n| locked.load(root, n) != Descriptor::HOLE) {
        Some(index) => Err(ChangeError::Occupied { va: Va(root.va(index)) }),
        None => Ok(()),
    }
}

/// Stores the entries of a tree's root, which are holes in the live root, and counts the tree.
#[inline(always)]
fn store_root<P: Platform>(locked: &Locked<'_, P>, root: &Table, tree: &mut Tree) {
    let (used, stats) = (tree.used(), tree.stats());
    locked.publish_barrier();
    tree.with_root_entries(locked.platform, |entries| {
        for (index, &bits) in used.clone().zip(&entries[used]) {
            if bits != 0 {
                locked.store(root, index, Descriptor(bits));
            }
        }
    });
    locked.platform.dsb(Dsb::Ishst);
    locked.platform.isb();
    // The tree's own root is given back.
    locked.counters().include(&Stats { tables: stats.tables - 1, ..stats });
}
