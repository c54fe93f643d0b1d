//! Maps the linear map in pages while everything runs: a second tree beside the live one, and one switch to it.
//!
//! *Copy*: the second tree is brought into line with the live one piece by piece, each under the lock (`copy.rs`).
//! Changes of copied ranges are recorded (`dirty_ranges.rs`) and copied again. *Switch*: in the first hold of the lock
//! in which nothing is left to copy, all CPUs are parked and resume on the second root. *Give back* the old tables.
//! Until the switch the live tree is not touched.

use core::ops::Range;

use crate::build::{Counters, OutOfFrames, fill_holes, give_back};
use crate::format::{Descriptor, Span, Va};
use crate::live::{AddressSpace, Locked};
use crate::plan::{Policy, Stats};
use crate::platform::{Dsb, Frame, Platform, all_locks, with_locks};
use crate::repaint::copy::{Copy, Tally};
use crate::repaint::error::RepaintError;

impl AddressSpace {
    /// Maps everything from the first address of `range` to the last in single pages, although no live leaf changes its
    /// size: a second tree is built, and all CPUs switch to it. Returns the counts of the new tables of the range,
    /// including the root. From then on the policy is [`Policy::Pages`]. Translations stay as they are, present-invalid
    /// mappings included. Leaves or runs within one of the ranges of `keep` keep their size. The rest of the half is
    /// not touched.
    ///
    /// A map in large leaves needs this before it can be used by a CPU that may abort when a leaf is split live. Let
    /// that CPU use the map after this method has returned. The range must consist of whole entries of the root, like
    /// [`linear_range`](crate::linear_range). Code that loads a TTBR without the lock must read [`root`](Self::root)
    /// again afterwards.
    ///
    /// Other operations may change the map meanwhile. The lock is held for about 16,384 descriptors at a time, or one
    /// page table if that has more, and released in between. Changes of copied ranges are copied again, at least one
    /// page table each. The copying ends when nothing is left to copy in a hold of the lock. In that hold the CPUs are
    /// parked, once, for as long as it takes them to load the new root, whatever the size of RAM. If other operations
    /// change so much that this does not happen in as many holds as the first pass took, the rest is copied in a single
    /// hold.
    ///
    /// The cost is about two and a half instructions for each page, which is about the cost of creating the map in
    /// pages. The table pages of the new tree are needed in addition to those of the old one, which are given back
    /// after the switch. Until this method returns, [`stats`](Self::stats) may still count some of the old tables.
    ///
    /// # Errors
    ///
    /// A range outside the half, or with a part of an entry of the root; out of frames; CPUs that cannot be parked;
    /// tables that this library would not write; another repaint under way. All new tables have then been given back,
    /// and the map, the policy and the counts are as before.
    pub fn repaint<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        keep: &[(Va, Va)],
    ) -> Result<Stats, RepaintError> {
        let range = self.whole_entries(range)?;
        if !with_locks(platform, all_locks::<P>(), || self.state().dirty.begin()) {
            return Err(RepaintError::UnderWay);
        }
        let mut repaint = Repaint { space: self, platform, range, keep, counters: Counters::default() };
        let result = repaint.run();
        with_locks(platform, all_locks::<P>(), || self.state().dirty.end());
        result
    }

    /// Returns a range whose ends are those of entries of the root, or of contiguous runs of them.
    fn whole_entries(&self, (first, last): (Va, Va)) -> Result<Span, RepaintError> {
        let g = self.geometry();
        let all = (1u64 << g.va_bits()) - 1;
        let (from, to) =
            (first.0.wrapping_sub(self.state().base()), last.0.wrapping_sub(self.state().base()));
        if from > to || to > all {
            let pages = (last.0.wrapping_sub(first.0) >> g.page_shift()) + 1;
            return Err(RepaintError::OutsideHalf { va: first, pages });
        }
        let below = ((g.contiguous_entries(g.root()) as u64) << g.level_shift(g.root())) - 1;
        if from & below != 0 {
            return Err(RepaintError::PartOfEntry { va: first });
        }
        if to & below != below {
            return Err(RepaintError::PartOfEntry { va: last });
        }
        Ok(Span { first: first.0, last: last.0 })
    }
}

/// A repaint under way.
struct Repaint<'a, P> {
    space: &'a AddressSpace,
    platform: &'a P,
    range: Span,
    keep: &'a [(Va, Va)],
    /// The counts of the second tree.
    counters: Counters,
}

/// The progress of the copying.
struct Progress {
    /// The address at which the first pass continues, or `None` after its end.
    next: Option<u64>,
    /// The number of holds of the lock: during the first pass, those taken; after it, those that are left.
    holds: u64,
}

impl<P: Platform> Repaint<'_, P> {
    /// The number of descriptors that are copied in one hold of the lock.
    const PIECE: usize = 1 << 14;

    fn run(&mut self) -> Result<Stats, RepaintError> {
        let mut root = self.platform.take().ok_or(OutOfFrames(0))?;
        self.counters.table();
        fill_holes(self.slots(&mut root));
        if let Err(error) = self.until_switched(&mut root) {
            // The new tables are not in the map's counts, so nothing is subtracted.
            self.give_back(root, |_| {});
            return Err(error);
        }
        // `root` is now the old root.
        self.give_old_back(root);
        Ok(self.counters.stats())
    }

    /// Returns the entries of a root.
    fn slots<'f>(&self, root: &'f mut Frame) -> &'f mut [u64] {
        let g = self.space.geometry();
        &mut self.platform.slots(root)[..g.entries(g.root())]
    }

    /// Copies piece by piece until nothing is left to copy, and switches in the same hold of the lock. `root` is the
    /// old root after that.
    fn until_switched(&mut self, root: &mut Frame) -> Result<(), RepaintError> {
        let mut progress = Progress { next: Some(self.range.first), holds: 0 };
        loop {
            let switched = with_locks(self.platform, all_locks::<P>(), || {
                Ok::<_, RepaintError>(self.piece(root, &mut progress)? && self.switch(root).map(|()| true)?)
            });
            if switched? {
                return Ok(());
            }
        }
    }

    /// Copies for as long as the lock may be held. Returns true if nothing is left to copy.
    fn piece(&self, root: &mut Frame, progress: &mut Progress) -> Result<bool, RepaintError> {
        let dirty = &self.space.state().dirty;
        let left = match (progress.next, progress.holds) {
            (None, 0) => usize::MAX,
            _ => Self::PIECE,
        };
        let locked = self.space.locked(self.platform);
        let live = locked.root();
        let mut copy = Copy { locked, keep: self.keep, counters: &self.counters, left };
        if let Some(next) = progress.next {
            progress.holds += 1;
            progress.next = copy.span(live, self.slots(root), Span { first: next, ..self.range })?;
            let last = progress.next.map_or(self.range.last, |next| next.wrapping_sub(1));
            if progress.next != Some(self.range.first) {
                dirty.copied(Span { last, ..self.range });
            }
            if progress.next.is_some() {
                return Ok(false);
            }
        } else {
            progress.holds = progress.holds.saturating_sub(1);
        }
        while let Some(stretch) = dirty.take() {
            if let Some(rest) = copy.span(live, self.slots(root), stretch)? {
                dirty.add(Span { first: rest, ..stretch });
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Switches all CPUs to the second tree. `root` is the old root after that.
    fn switch(&self, root: &mut Frame) -> Result<(), RepaintError> {
        let (space, platform) = (self.space, self.platform);
        let locked: Locked<'_, P> = space.locked(platform);
        let live = locked.root();
        let (slots, copied) = (self.slots(root), self.entries());
        for index in (0..slots.len()).filter(|index| !copied.contains(index)) {
            slots[index] = locked.load(&live, index).0;
        }
        platform.dsb(Dsb::Ishst);
        platform.park(platform, root.pa(), &[])?;
        // SAFETY: all CPUs use the second root and have dropped their TLB entries of the first. The next holder of the
        // lock finds the second.
        let old = unsafe { Frame::from_pa(space.root()) };
        space.state().switch(core::mem::replace(root, old).into_pa(), Policy::Pages);
        space.state().dirty.forget();
        space.state().counters.parked();
        space.state().counters.include(&self.counters.stats());
        Ok(())
    }

    /// Gives back the old tree, and subtracts it from the counts.
    fn give_old_back(&self, root: Frame) {
        self.give_back(root, |gone| {
            let exclude = || self.space.state().counters.exclude(&core::mem::take(gone));
            with_locks(self.platform, all_locks::<P>(), exclude);
        });
    }

    /// Gives back a root that no walker reaches, and the tables below its entries in the range. The other entries are
    /// shared with the live root. Calls `each` now and then, and at the end, with the counts of the tables given back
    /// since.
    fn give_back(&self, mut root: Frame, mut each: impl FnMut(&mut Stats)) {
        let g = self.space.geometry();
        let (mut gone, mut waiting) = (Stats { tables: 1, ..Stats::EMPTY }, 0);
        for entry in self.slots(&mut root)[self.entries()].iter().map(|&bits| Descriptor(bits)) {
            if entry.is_leaf(g, g.root()) {
                gone.add_leaves(g.root(), entry.is_contiguous(), 1);
            } else if entry.is_table(g.root()) {
                // SAFETY: no walker reaches the tree that contains the table, and that tree owned it.
                let table = unsafe { Frame::from_pa(entry.next_table(g)) };
                give_back(self.platform, g, g.root().next(), table, &mut |slots, level| {
                    let tally = Tally::of(slots, g, level);
                    gone.add_leaves(level, false, tally.plain as u64);
                    gone.add_leaves(level, true, tally.runs as u64);
                    gone.tables += 1;
                    waiting += slots.len();
                    if waiting >= Self::PIECE {
                        waiting = 0;
                        each(&mut gone);
                    }
                });
            }
        }
        each(&mut gone);
        self.platform.give(root);
    }

    /// Returns the entries of the root that are in the range.
    fn entries(&self) -> Range<usize> {
        let g = self.space.geometry();
        let shift = g.level_shift(g.root());
        let index = |va: u64| ((va - self.space.state().base()) >> shift) as usize;
        index(self.range.first)..index(self.range.last) + 1
    }
}
