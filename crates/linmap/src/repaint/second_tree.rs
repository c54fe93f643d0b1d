//! Maps the linear map in pages while everything runs: a second tree beside the live one, and one switch to it.
//!
//! *Copy*: the second tree is brought into line with the live one piece by piece, each in a hold of the lock of one
//! gigabyte (`copy.rs`). Changes are marked meanwhile (`share/marks.rs`) and copied again. *Switch*: in a hold of
//! all locks in which there is no mark, all CPUs are parked and resume on the second root. *Retire* the old tables
//! (`edit/retired.rs`). Until the switch the live tree is not touched.
//!
//! There may always be a mark, so the patience of a repaint has an end: then it claims its range, and nobody marks
//! anything any more. While others have claimed a part of it, it does not switch: a long operation ends on the tree on
//! which it began.

use core::iter::once;
use core::ops::Range;

use crate::build::{Counters, FILLED, OutOfFrames, fill, give_back};
use crate::edit::{AdoptError, Call, Caller, ChangeError, Cover, Editor, GIGABYTE, Guard, Live, retire};
use crate::format::{Descriptor, Geometry, Level, Pa, Span, Va};
use crate::plan::{Policy, Stats};
use crate::platform::{CannotPark, EntryUpdate, Frame, Hardware, Memory, Platform, with_locks};
use crate::repaint::copy::{Copy, Detached};
use crate::repaint::error::RepaintError;
use crate::share::marks::{self, Parts};
use crate::share::{Claim, Hold, whole_entries};

impl<'a, P: Platform, const LOCKS: usize> Live<'a, Hold<'a, P, LOCKS>> {
    /// Maps everything from the first address of `range` to the last in single pages, although no live leaf changes its
    /// size: a second tree is built, and all CPUs switch to it. Returns the counts of the new tables of the range,
    /// including the root. From then on the policy is [`Policy::Pages`]. Translations stay as they are, present-invalid
    /// mappings included. Leaves or runs within one of the ranges of `keep` keep their size. The rest of the half is
    /// not touched.
    ///
    /// A map in large leaves needs this before it can be used by a CPU that may abort when a leaf is split live. Let
    /// that CPU use the map after this method has returned. The range must consist of whole entries of the root, like
    /// [`linear_range`](crate::layout::linear_range). Code that loads a TTBR without a lock must read [`root`](crate::Tables::root)
    /// again afterwards.
    ///
    /// Other operations may change the map meanwhile. A lock is held for [`HOLD`](crate::Sharing::HOLD) descriptors at a
    /// time, or one table if that has more, and released in between. What changes meanwhile is copied again, in
    /// parts of 16 MB. The copying ends when nothing is left to copy in a hold of all locks. In that hold the CPUs are
    /// parked, once, for as long as it takes them to load the new root, whatever the size of RAM. If the root
    /// [stays where it is](crate::SharedSpace::fix_root), they are parked for the stores to its entries instead, one for each that is in use.
    /// If other operations change so much that this does not happen in as many holds as the first pass took, the repaint
    /// claims the range as a long operation does: others wait, or are told [`Busy`](crate::error::ChangeError::Busy), until the rest is copied.
    ///
    /// The cost is about two and a half instructions for each page, which is about the cost of creating the map in
    /// pages. The table pages of the new tree are needed in addition to those of the old one, which are given back
    /// after the switch. Until this method returns, [`stats`](Self::stats) may still count some of the old tables.
    ///
    /// # Errors
    ///
    /// A range outside the half, or with a part of an entry of the root; out of frames; CPUs that cannot be parked;
    /// tables that this library would not write; another repaint under way; claims of others in the way for as long as
    /// the copying took, if this context cannot [`wait`](crate::Sharing::wait). All new tables have then been given back,
    /// and the map, the policy and the counts are as before.
    pub fn repaint(&mut self, range: (Va, Va), keep: &[(Va, Va)]) -> Result<Stats, RepaintError> {
        let (range, state) = (self.whole_entries(range)?, self.caller.owner.state);
        if !state.attention.repaint_begins() {
            return Err(RepaintError::UnderWay);
        }
        state.copied.set(range);
        // From here on, every holder of a lock sees that changes are to be marked.
        marks::clear(state, self.caller.platform);
        let result = Repaint::run(self.caller, (range, keep), &mut Detached::new());
        state.copied.forget();
        state.attention.repaint_ends();
        result
    }

    /// Returns a range whose ends are those of entries of the root, or of contiguous runs of them.
    fn whole_entries(&self, range: (Va, Va)) -> Result<Span, RepaintError> {
        let (g, tables) = (self.caller.tables().geometry(), self.caller.tables());
        let span = whole_entries(g, tables.half(), range).map_err(|error| match error {
            AdoptError::PartOfEntry { va } => RepaintError::PartOfEntry { va },
            _ => {
                let pages = (range.1.0.wrapping_sub(range.0.0) >> g.page_shift()) + 1;
                RepaintError::OutsideHalf { va: range.0, pages }
            }
        })?;
        match tables.owns(span) {
            Err(ChangeError::NotOwned { va }) => Err(RepaintError::NotOwned { va }),
            _ => Ok(span),
        }
    }
}

/// A repaint under way.
struct Repaint<'a, 'c, P: Platform, const LOCKS: usize> {
    call: Call<'a, Hold<'a, P, LOCKS>>,
    range: Span,
    keep: &'c [(Va, Va)],
    /// The second root.
    root: Frame,
    /// If the first root stays where it is, the page for its old entries.
    old: Option<Frame>,
    /// The counts of the second tree.
    counters: Counters,
    /// The number of holds, and of attempts to switch.
    holds: u64,
    /// The claim of the range, if it took too long without one.
    claim: Option<Claim<'a>>,
    detached: &'c mut Detached,
}

impl<'a, 'c, P: Platform, const LOCKS: usize> Repaint<'a, 'c, P, LOCKS> {
    /// The most table pages that are taken in advance for one hold. It ends early if they do not suffice.
    const MOST_FRAMES: u64 = 64;

    fn run(
        caller: Caller<'a, Hold<'a, P, LOCKS>>,
        (range, keep): (Span, &'c [(Va, Va)]),
        detached: &'c mut Detached,
    ) -> Result<Stats, RepaintError> {
        let platform = caller.platform;
        let root = platform.take().ok_or(OutOfFrames(0))?;
        let is_fixed = caller.tables().is_root_fixed();
        let mut old = if is_fixed { platform.take() } else { None };
        match &mut old {
            Some(old) => platform.with_slots(old, caller.tables().geometry().root(), fill::holes),
            None if is_fixed => {
                platform.give(root);
                return Err(OutOfFrames(1).into());
            }
            None => {}
        }
        let (call, counters) = (Call::new(caller), Counters::new());
        let mut repaint = Self { call, range, keep, root, old, counters, holds: 0, claim: None, detached };
        repaint.counters.table();
        repaint.with_slots(fill::holes);
        let entries = repaint.entries();
        match repaint.until_switched() {
            Ok(old) => {
                drop(repaint.claim.take());
                let first = (old, repaint.call.tables().geometry().root(), entries);
                retire(&repaint.call, (Cover::one(0), false), once(first));
                let stats = repaint.counters.stats();
                match repaint.old {
                    // The second root's entries are in the first root now, and the old ones have been in a page of their own.
                    Some(of_old) => {
                        _ = of_old.into_pa();
                        platform.give(repaint.root);
                    }
                    // It is live.
                    None => _ = repaint.root.into_pa(),
                }
                Ok(stats)
            }
            Err(error) => {
                repaint.discard();
                platform.give(repaint.root);
                repaint.old.into_iter().for_each(|old| platform.give(old));
                Err(error)
            }
        }
    }

    /// Calls `work` with the entries of the second root.
    fn with_slots<R>(&mut self, work: impl FnOnce(&mut [u64]) -> R) -> R {
        of_root(self.call.platform, &mut self.root, self.call.tables().geometry(), work)
    }

    /// Copies until nothing is left to copy, and switches. Returns the old root.
    fn until_switched(&mut self) -> Result<Pa, RepaintError> {
        self.first_pass()?;
        let first_pass = self.holds;
        loop {
            for word in 0..marks::words::<LOCKS>() {
                self.again(word)?;
                if self.holds > 2 * first_pass {
                    self.claim();
                }
            }
            if let Some(old) = self.switch()? {
                return Ok(old);
            }
            self.holds += 1;
            let waits = self.holds <= 2 * first_pass || self.claim.is_some() || self.call.platform.wait();
            if !waits && self.holds > 3 * first_pass {
                return Err(RepaintError::Busy);
            }
        }
    }

    /// Copies everything once.
    fn first_pass(&mut self) -> Result<(), RepaintError> {
        let range = self.range;
        let mut next = Some(range.first);
        while let Some(first) = next {
            let window = Span { first, last: range.last.min(first | ((1 << GIGABYTE) - 1)) };
            let last = match self.holes(first) {
                None => self.hold(Cover::number::<P>(first), |copy, root| copy.span(root, window))?,
                holes => holes,
            };
            next = last.map_or(next, |last| (last < range.last).then(|| last + 1));
        }
        Ok(())
    }

    /// Returns the last address of the large holes from the start of a gigabyte on, or `None` if there are none.
    ///
    /// It holds no lock: what others map there after it has looked is marked. The second tree has holes there already.
    #[inline(never)]
    fn holes(&self, va: u64) -> Option<u64> {
        if va & ((1 << GIGABYTE) - 1) != 0 {
            return None;
        }
        let editor = self.call.editor(Cover::one(0));
        self.call.platform.read(|| {
            let (table, first) = editor.entry_of(va);
            let last = editor.geometry.entries(table.level).min(first.saturating_add(P::HOLD));
            let is_hole =
                |index: &usize| table.level != Level::PAGE && editor.load(&table, *index) == Descriptor::HOLE;
            (first..last).take_while(is_hole).last().map(|index| table.span_of(index).last)
        })
    }

    /// Copies again what is marked in a word.
    fn again(&mut self, word: usize) -> Result<(), RepaintError> {
        let (range, state) = (self.range, self.call.guard.state);
        if !marks::has_marks(state, word) {
            return Ok(());
        }
        let mut rest = None;
        loop {
            rest = self.hold(word & (P::LOCKS - 1), |copy, root| {
                let mut parts = rest.unwrap_or_else(|| Parts::take(state, word, range.first));
                while let Some(part) = parts.next(range) {
                    match copy.span(root, part)? {
                        Some(last) if last >= range.last => return Ok(None),
                        Some(last) => parts.from = last + 1,
                        None => return Ok(Some(parts)),
                    }
                }
                Ok(None)
            })?;
            if rest.is_none() {
                return Ok(());
            }
        }
    }

    /// Copies in a hold of one lock. Table pages are taken before, and given back after it.
    #[inline(never)]
    fn hold<R>(
        &mut self,
        lock: usize,
        work: impl FnOnce(&mut Copy<'_, Hold<'a, P, LOCKS>>, &mut [u64]) -> Result<R, RepaintError>,
    ) -> Result<R, RepaintError> {
        self.holds += 1;
        let Self { call, keep, counters, root, old, detached, .. } = self;
        let (g, platform) = (call.tables().geometry(), call.platform);
        let most = ((FILLED * P::HOLD) >> g.index_bits()) as u64 + u64::from(g.levels());
        // The hold goes as far as those that there are suffice.
        _ = call.reserve.fill(most.min(Self::MOST_FRAMES));
        let editor = call.editor(Cover::one(lock));
        let mut copy = Copy::new(&editor, keep, counters, detached);
        let result =
            of_root(platform, root, g, |slots| with_locks(platform, 1 << lock, || work(&mut copy, slots)));
        let starved = copy.starved;
        detached.give_back(platform, g, counters);
        if starved && call.reserve.fill(1).is_err() {
            return Err(OutOfFrames(counters.tables() + u64::from(old.is_some())).into());
        }
        result
    }

    /// Claims the range, so that others mark nothing any more, unless others have claims in the way.
    fn claim(&mut self) {
        if self.claim.is_none() {
            let (state, platform) = (self.call.guard.state, self.call.platform);
            self.claim = state.claims.claim(&state.attention, platform, [self.range].into_iter()).ok();
        }
    }

    /// Switches all CPUs to the second tree, and returns a root with the old entries. Returns `None` if there is something
    /// left to copy, or another claim.
    #[inline(never)]
    fn switch(&mut self) -> Result<Option<Pa>, RepaintError> {
        let (entries, range, state) = (self.entries(), self.range, self.call.guard.state);
        let own = self.claim.as_ref().map_or(0, Claim::bits);
        let is_left = || {
            (0..marks::words::<LOCKS>()).any(|word| marks::has_marks(state, word))
                || state.claims.overlap(range, own)
        };
        if is_left() {
            return Ok(None);
        }
        let Self { call, counters, root, old, .. } = self;
        call.platform.call()?;
        let editor = call.editor(Hold::<P, LOCKS>::for_stores(Span { first: 0, last: u64::MAX }));
        editor.guard.hold(editor.platform, || {
            if is_left() {
                return Ok(None);
            }
            let (live, old) = match old {
                Some(old) => (editor.root().pa, store_entries(&editor, (root, old), entries)?),
                None => (load_root(&editor, root, entries)?, editor.root().pa),
            };
            state.parked();
            // The next holder of a lock finds the second tree.
            call.tables().switch(live, Policy::Pages);
            state.copied.forget();
            state.share(0).counters.include(&counters.stats());
            Ok(Some(old))
        })
    }

    /// Gives back the second tree, but for its root. It is not in the map's counts.
    #[cold]
    #[inline(never)]
    fn discard(&mut self) {
        self.claim = None;
        let g = self.call.tables().geometry();
        let entries = self.entries();
        let platform = self.call.platform;
        self.with_slots(|slots| {
            for entry in slots[entries].iter().map(|&bits| Descriptor(bits)) {
                if entry.is_table(g.root()) {
                    // SAFETY: no walker reaches the second tree, which owned the table.
                    let table = unsafe { Frame::from_pa(entry.next_table(g)) };
                    give_back(platform, g, g.root().next(), table, &mut |_, _| {});
                }
            }
        });
    }

    /// Returns the entries of the root that are in the range.
    fn entries(&self) -> Range<usize> {
        let tables = self.call.tables();
        let index = |va: u64| ((va - tables.base()) >> tables.root_shift()) as usize;
        index(self.range.first)..index(self.range.last) + 1
    }
}

/// Calls `work` with the entries of a root that no walker reaches.
#[inline(always)]
fn of_root<M: Memory, R>(memory: &M, root: &mut Frame, g: Geometry, work: impl FnOnce(&mut [u64]) -> R) -> R {
    memory.with_slots(root, g.root(), |slots| work(&mut slots[..g.entries(g.root())]))
}

/// Lets all CPUs load the second root, which has the entries outside the range of the repaint in common with the first.
/// Returns its address.
///
/// # Errors
///
/// CPUs do not park.
fn load_root<G: Guard>(
    editor: &Editor<'_, G>,
    root: &mut Frame,
    entries: Range<usize>,
) -> Result<Pa, CannotPark> {
    let (g, live, pa) = (editor.geometry, editor.root(), root.pa());
    of_root(editor.platform, root, g, |slots| {
        for index in (0..entries.start).chain(entries.end..slots.len()) {
            slots[index] = editor.load(&live, index).0;
        }
    });
    editor.publish_barrier();
    // SAFETY: walkers see all of the second tree after the barrier. It is complete, and all locks are held.
    unsafe { editor.platform.park(editor.platform, pa, &[]) }?;
    Ok(pa)
}

/// Stores the entries of the second root into the first, which stays where it is, while the CPUs are parked. `old`, which has
/// holes there, gets the old ones. Returns its address.
///
/// # Errors
///
/// CPUs do not park.
fn store_entries<G: Guard>(
    editor: &Editor<'_, G>,
    (root, old): (&mut Frame, &mut Frame),
    entries: Range<usize>,
) -> Result<Pa, CannotPark> {
    let (g, live, platform) = (editor.geometry, editor.root(), editor.platform);
    // The CPUs may have parked already: most entries are holes, which are passed over as fast as possible.
    let used = of_root(platform, root, g, |new| {
        let is_used = |&index: &usize| new[index] | editor.load(&live, index).0 != 0;
        let last = entries.clone().rfind(is_used)?;
        Some(entries.clone().find(is_used)?..last + 1)
    });
    of_root(platform, old, g, |old| {
        for index in used.clone().unwrap_or(0..0) {
            old[index] = editor.load(&live, index).0;
        }
    });
    editor.publish_barrier();
    let update = used.map(|used| EntryUpdate::copy(live.pa, root.pa(), used.start, used.len()));
    // SAFETY: the root of the live tree gets entries of the second one, which is complete and which walkers see after the barrier.
    // All locks are held.
    unsafe { platform.park(platform, live.pa, update.as_slice()) }?;
    Ok(old.pa())
}
