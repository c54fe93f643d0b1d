//! The map in pages, while everything runs: a second tree beside the live one, and one switch to it.
//!
//! *Copy*: piece by piece, each under the lock, the second tree is brought into line with the live one
//! (`copy.rs`); what changes meanwhile where that has been is noted (`dirty.rs`), and done again. *Switch*:
//! in the first hold of the lock in which nothing is left to do, all CPUs are parked and return on the second
//! root. *Give back*: the old tables go. Until the switch the live tree is not touched.

use core::ops::Range;

use crate::build::{Counters, OutOfFrames, fill_holes, give_back};
use crate::format::{Descriptor, Span, Va};
use crate::live::{AddressSpace, Locked};
use crate::plan::{Policy, Stats};
use crate::platform::{Dsb, Frame, Platform};
use crate::repaint::copy::{Copy, Tally};
use crate::repaint::error::RepaintError;

impl AddressSpace {
    /// Puts everything from the first address of `range` to the last into single pages, without a live leaf
    /// ever changing its size: a second tree is built, and all CPUs go over to it. The policy is
    /// [`Policy::Pages`] from then on. Translations stay as they are, and so do mappings that are kept and not
    /// valid. Leaves, or runs, that lie within one of the ranges of `keep` keep their size; the rest of the half
    /// is not touched. What the new tables of the range are made of, the root included.
    ///
    /// It is what a map in large leaves needs before a CPU uses it that may abort where a leaf is split live:
    /// that CPU comes to the map when this has returned. The range is whole entries of the root, as
    /// [`linear_range`](crate::linear_range) is. Whoever loads a TTBR without the lock takes the address from
    /// [`root`](Self::root) when it has returned, not before.
    ///
    /// Others change the map meanwhile. The lock is held for some 16,384 descriptors at a time, or one page
    /// table where that has more, and given to them in between; what they change after it was copied is
    /// copied again, a page table at the least. This ends when in one hold of the lock nothing is left to copy:
    /// then the CPUs are parked in the same hold, once, for as long as it takes them to load the new root,
    /// whatever the size of RAM. If others change so much that this does not come about in as many holds as the
    /// first pass took, the rest is copied in one.
    ///
    /// The cost: two instructions and a half for each page, which is about that of creating the map in pages.
    /// Table pages: those of the new tree, beside the old one's until those are given back, after the switch.
    /// Until it returns, [`stats`](Self::stats) may count some of the old ones still.
    ///
    /// # Errors
    ///
    /// A range outside the half, or that has a part of an entry of the root; out of frames; CPUs that can not be
    /// parked; tables that this library would not write; another repaint, which has not returned yet. Then
    /// everything built has been given back, and the map, the policy and the counts are as before.
    pub fn repaint<P: Platform>(
        &self,
        platform: &P,
        range: (Va, Va),
        keep: &[(Va, Va)],
    ) -> Result<Stats, RepaintError> {
        let range = self.whole_entries(range)?;
        {
            let _held = platform.lock();
            if !self.state().dirty.begin() {
                return Err(RepaintError::UnderWay);
            }
        }
        let mut repaint = Repaint { space: self, platform, range, keep, counters: Counters::default() };
        let result = repaint.run();
        let _held = platform.lock();
        self.state().dirty.end();
        result
    }

    /// A range that begins and ends with entries of the root, or with contiguous runs of them.
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
    /// What the second tree is made of.
    counters: Counters,
}

/// How far the copying has come.
struct Progress {
    /// Where the first pass goes on, if it does.
    next: Option<u64>,
    /// How many holds of the lock it took, and then, how many there may still be.
    holds: u64,
}

impl<P: Platform> Repaint<'_, P> {
    /// How many descriptors are copied while the lock is held.
    const PIECE: usize = 1 << 14;

    fn run(&mut self) -> Result<Stats, RepaintError> {
        let mut root = self.platform.take().ok_or(OutOfFrames(0))?;
        self.counters.table();
        fill_holes(self.slots(&mut root));
        if let Err(error) = self.until_switched(&mut root) {
            // Not counted in the map, so nothing is taken out of its counts.
            self.give_back(root, |_| {});
            return Err(error);
        }
        // The root has been given up for the one that was there.
        self.give_old_back(root);
        Ok(self.counters.stats())
    }

    /// The entries of a root.
    fn slots<'f>(&self, root: &'f mut Frame) -> &'f mut [u64] {
        let g = self.space.geometry();
        &mut self.platform.slots(root)[..g.entries(g.root())]
    }

    /// Copies piece by piece until nothing is left to copy, and switches in the same hold of the lock: from
    /// then on `root` is the old one.
    fn until_switched(&mut self, root: &mut Frame) -> Result<(), RepaintError> {
        let mut progress = Progress { next: Some(self.range.first), holds: 0 };
        loop {
            let _held = self.platform.lock();
            if self.piece(root, &mut progress)? {
                return self.switch(root);
            }
        }
    }

    /// Copies for as long as the lock may be held. Whether nothing is left.
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

    /// All CPUs go over to the second tree, and `root` is the old one.
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
        // SAFETY: all CPUs are on the second root, and have dropped what they held of the first; who has the
        // lock next finds the second.
        let old = unsafe { Frame::from_pa(space.root()) };
        space.state().switch(core::mem::replace(root, old).into_pa(), Policy::Pages);
        space.state().dirty.forget();
        space.state().counters.parked();
        space.state().counters.include(&self.counters.stats());
        Ok(())
    }

    /// Gives back the old tree, and takes it out of the counts.
    fn give_old_back(&self, root: Frame) {
        self.give_back(root, |gone| {
            let _held = self.platform.lock();
            self.space.state().counters.exclude(&core::mem::take(gone));
        });
    }

    /// Gives back a root that no walker reaches, and the tables below the entries that are in the range: the
    /// other entries are those of the live root too. Now and then, and at last, says what has gone.
    fn give_back(&self, mut root: Frame, mut each: impl FnMut(&mut Stats)) {
        let g = self.space.geometry();
        let (mut gone, mut waiting) = (Stats { tables: 1, ..Stats::EMPTY }, 0);
        for entry in self.slots(&mut root)[self.entries()].iter().map(|&bits| Descriptor(bits)) {
            if entry.is_leaf(g, g.root()) {
                gone.add_leaves(g.root(), entry.is_contiguous(), 1);
            } else if entry.is_table(g.root()) {
                // SAFETY: no walker reaches the tree that the table is of, which owned it.
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

    /// The entries of the root that are in the range.
    fn entries(&self) -> Range<usize> {
        let g = self.space.geometry();
        let shift = g.level_shift(g.root());
        let index = |va: u64| ((va - self.space.state().base()) >> shift) as usize;
        index(self.range.first)..index(self.range.last) + 1
    }
}
