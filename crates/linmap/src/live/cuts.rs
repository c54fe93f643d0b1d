//! Cuts: the leaves and contiguous runs that contain an end of a span, so that a change of the span affects whole leaves only. All of
//! them are cut, or none.
//!
//! The replacement tables are built off line, one after the other, and noted. Nothing is stored in a live table before
//! the last one is complete. A leaf that is split at two places is noted once, and its replacement is split again. So
//! when table pages run out, the replacements are given back, and no live table has been touched. Finally all stores
//! are made together, or in one parking.
//!
//! The tables translate as the leaves do, or have the change of one span in them already. In that case TLBs may still hold a leaf,
//! which one invalidation drops, however many pages change.

use crate::build::tables_for_ends;
use crate::format::{Descriptor, LeafChange, Span};
use crate::live::attempt::Call;
use crate::live::error::ChangeError;
use crate::live::locked::Locked;
use crate::live::resize::Resize;
use crate::live::stop::{Needs, Stop};
use crate::live::tlb_batch::TlbBatch;
use crate::plan::Policy;
use crate::platform::{EntryUpdate, Platform};
use crate::read::Table;

/// The number of leaves that are cut in one hold, and so in one parking. Each needs at most two stores: one to
/// dissolve its run, one to replace it.
pub(crate) const MOST: usize = EntryUpdate::MOST / 2;

/// The number of leaves that one span can cut.
const OF_ONE: usize = 2;

/// The room for cuts.
pub(crate) type Room<const CUTS: usize> = [Option<Resize>; CUTS];

/// The pending stores.
pub(crate) struct Cuts<'a, P: Platform> {
    locked: &'a Locked<'a, P>,
    /// The change that the tables have in them.
    built: LeafChange,
    /// The changes that follow.
    later: [LeafChange; 2],
    cuts: &'a mut [Option<Resize>],
    used: usize,
}

/// The cuts of one span.
pub(crate) struct Cut {
    pub(crate) span: Span,
    /// The change of the span, for which leaves are cut.
    pub(crate) change: LeafChange,
    /// What else becomes of the leaves that are cut.
    pub(crate) besides: LeafChange,
    /// The first leaf in use that is cut.
    pub(crate) in_use: Option<u64>,
}

impl Cut {
    /// Cuts the leaves that contain an end of the span. With a batch, the change is made with the cut, and the batch gets what TLBs may
    /// hold of these leaves. Returns false if there is nothing to cut.
    ///
    /// # Errors
    ///
    /// The policy or the CPUs do not permit it, or it takes more locks or table pages. Nothing has changed.
    pub(crate) fn ends<P: Platform>(
        &self,
        locked: &Locked<'_, P>,
        built: Option<&mut TlbBatch>,
    ) -> Result<bool, Stop> {
        let &Self { span, change, besides, in_use } = self;
        let mut room: Room<OF_ONE> = [None; OF_ONE];
        let mut cuts = Cuts::new(locked, &mut room, [change, besides]);
        if built.is_some() {
            cuts.built = change;
        }
        cuts.find(change, span)?;
        if cuts.used == 0 {
            return Ok(false);
        }
        locked.may_resize(locked.policy, in_use)?;
        locked.settle(span);
        // Before any table is built: to give it back would make this hold long.
        locked.has_frames(cuts.frames(span))?;
        cuts.build(0, span).map_err(|error| cuts.undone(error))?;
        cuts.carry_out(in_use.is_some())?;
        if let Some(batch) = built {
            cuts.note(span, in_use.is_some(), batch);
        }
        Ok(true)
    }

    /// Does so in a hold of its own.
    ///
    /// # Errors
    ///
    /// The policy or the CPUs do not permit it; out of frames; a claim in the way.
    pub(crate) fn ends_in_hold<P: Platform>(
        &self,
        call: &mut Call<'_, P>,
        mut built: Option<&mut TlbBatch>,
    ) -> Result<(), ChangeError> {
        call.attempts_at_ends(self.span, |locked| {
            if !self.ends(locked, built.as_deref_mut())? {
                return Ok(());
            }
            if let Some(batch) = &mut built {
                batch.leave(locked);
            }
            // The next holder may change what is left of these leaves.
            locked.publish_barrier();
            Ok(())
        })
    }
}

impl<'a, P: Platform> Cuts<'a, P> {
    /// Returns none, of leaves that these changes are made to later.
    pub(crate) const fn new(
        locked: &'a Locked<'a, P>,
        room: &'a mut [Option<Resize>],
        later: [LeafChange; 2],
    ) -> Self {
        Self { locked, built: LeafChange::NONE, later, cuts: room, used: 0 }
    }

    /// Cuts the leaves that contain the ends of a span, if the change affects them.
    ///
    /// # Errors
    ///
    /// It takes more table pages or locks, or these are too many for one hold.
    pub(crate) fn add(&mut self, change: LeafChange, span: Span) -> Result<(), Stop> {
        let before = self.used;
        self.find(change, span)?;
        self.build(before, span)
    }

    /// Notes the leaves that contain the ends of a span, if the change affects them and they reach beyond it.
    pub(crate) fn find(&mut self, change: LeafChange, span: Span) -> Result<(), Stop> {
        let last = self.find_at(change, span, span.first)?;
        // The other end may be in the same leaf.
        if last < span.last {
            self.find_at(change, span, span.last)?;
        }
        Ok(())
    }

    /// Notes the leaf that contains one end. Returns the last address of that leaf.
    #[inline(always)]
    fn find_at(&mut self, change: LeafChange, span: Span, va: u64) -> Result<u64, Stop> {
        let locked = self.locked;
        let (table, index) = locked.entry_of(va);
        let (old, last) = (locked.load(&table, index), table.span_of(index).last);
        let members = locked.run(&table, old);
        let run = table.run_of(index, members.unwrap_or(1));
        let is_affected = change.of(old, table.level) != old && locked.state.is_leaf(old, table.level);
        if span.covers(run.first, run.last) || !is_affected {
            return Ok(last);
        }
        locked.state.owns(run)?;
        locked.covers(run)?;
        let place = self.cuts.get_mut(self.used).ok_or(Stop::TooLong)?;
        *place = Some(Resize { table, index, dissolves: members, link: None });
        self.used += 1;
        Ok(last)
    }

    /// Returns the number of table pages that it takes to cut what was found at the ends of a span, if no other end is in it.
    pub(crate) fn frames(&self, span: Span) -> u64 {
        let g = self.locked.geometry;
        let of = |Resize { table, index, .. }| tables_for_ends(g, table.level, table.span_of(index), span);
        self.all().map(of).sum()
    }

    /// Builds what replaces the leaves that were found from a place on, or adds to what replaces them already.
    fn build(&mut self, from: usize, span: Span) -> Result<(), Stop> {
        let found = core::mem::replace(&mut self.used, from);
        for place in from..found {
            if let Some(cut) = self.cuts[place] {
                self.build_one(cut, span)?;
            }
        }
        Ok(())
    }

    fn build_one(&mut self, mut cut: Resize, span: Span) -> Result<(), Stop> {
        let (locked, Resize { table, index, .. }) = (self.locked, cut);
        let at = table.span_of(index);
        let known = self.known(&table, index, table.run_of(index, cut.dissolves.unwrap_or(1)));
        if known.dissolved {
            cut.dissolves = None;
        }
        if !span.covers(at.first, at.last) {
            let old = locked.load(&table, index);
            // All cuts of a leaf get the same tables, whichever of the changes they are for.
            let [one, other] = self.later;
            let replacement = locked.replacement(self.built, span);
            let replacement = replacement.before(one, old, table.level).before(other, old, table.level);
            if let Some(link) = known.link {
                return Ok(replacement.cut_again(link, &table, at.first)?);
            }
            cut.link = Some(replacement.leaf(old, &table, at.first)?);
        } else if cut.dissolves.is_none() {
            return Ok(());
        }
        self.cuts[self.used] = Some(cut);
        self.used += 1;
        Ok(())
    }

    /// Returns the notes about an entry and its run.
    fn known(&self, table: &Table, index: usize, run: Span) -> Known {
        let mut known = Known { link: None, dissolved: false };
        for cut in self.all().filter(|cut| cut.table.pa == table.pa) {
            known.link = known.link.or(cut.link.filter(|_| cut.index == index));
            let va = table.va(cut.index);
            known.dissolved |= cut.dissolves.is_some() && run.covers(va, va);
        }
        known
    }

    fn all(&self) -> impl Iterator<Item = Resize> + Clone {
        self.cuts[..self.used].iter().flatten().copied()
    }

    /// Gives back all replacements, since a cut could not be added. Returns the reason, with the number of pages that all of them
    /// take.
    #[cold]
    pub(crate) fn undone(&self, error: Stop) -> Stop {
        self.all().for_each(|cut| cut.discard(self.locked));
        match error {
            Stop::Needs(Needs::Frames(_)) => {
                // All are in the reserve again. Cuts that share a leaf share tables, so the sum is not known.
                let had = self.locked.reserve.count();
                Needs::MoreFrames { least: had + 1, wish: 2 * had + 2 }.into()
            }
            other => other,
        }
    }

    /// Makes all stores.
    ///
    /// # Errors
    ///
    /// CPUs do not park. Nothing is stored, and all replacements are given back.
    pub(crate) fn carry_out(&self, in_use: bool) -> Result<(), Stop> {
        let (locked, how) = (self.locked, (self.locked.policy, in_use));
        if self.cuts.len() > OF_ONE {
            Resize::all::<P, { 2 * MOST }>(locked, how, self.all(), true)
        } else {
            Resize::all::<P, { 2 * OF_ONE }>(locked, how, self.all(), true)
        }
    }

    /// Notes the change of a span in the tables that replace these leaves: for a repaint under way, and what TLBs may hold.
    fn note(&self, span: Span, in_use: bool, batch: &mut TlbBatch) {
        let locked = self.locked;
        for Resize { table, index, dissolves, link } in self.all() {
            // In a long operation this hold is the only one that changes them.
            let at = table.run_of(index, dissolves.unwrap_or(1));
            locked.mark(Span { first: at.first.max(span.first), last: at.last.min(span.last) });
            if link.is_some() && in_use && locked.policy != Policy::Park {
                // One TLB entry held the leaf, so any of its addresses invalidates it (D8.17, RLGSCG).
                let leaf = table.span_of(index);
                batch.add(leaf.first.max(span.first), leaf.last.min(span.last), table.shift);
            }
        }
    }
}

/// The notes about an entry and its run.
struct Known {
    /// The tables that replace it.
    link: Option<Descriptor>,
    /// True if its run is dissolved.
    dissolved: bool,
}
