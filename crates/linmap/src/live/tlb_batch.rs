//! The TLB invalidations of an operation, in one batch for each call.
//!
//! There are barriers only where the architecture requires them: stores, DSB ISHST, invalidations, DSB ISH, ISB (Arm
//! ARM D8.17.8). Entries that were invalid before need no invalidation: a translation that faults is never cached
//! (D8.17, IWZCBG).

use crate::build::Counters;
use crate::format::{Geometry, Scope, Tlbi, Va};
use crate::live::invalidated::Invalidated;
use crate::live::locked::Locked;
use crate::platform::{Dsb, Hardware, Platform};

/// The ranges whose old translations must be dropped.
pub(crate) struct TlbBatch {
    ranges: [Invalidated; Self::RANGES],
    used: usize,
    scope: Scope,
    /// True if the invalidations are left to a later flush.
    later: bool,
}

impl TlbBatch {
    /// If there are more, ranges are joined, and the addresses between them are invalidated, too.
    pub(crate) const RANGES: usize = 4;

    /// Returns an empty batch.
    pub(crate) const fn new() -> Self {
        Self::of(false)
    }

    /// Returns an empty batch. If `later`, its invalidations are left to a flush.
    pub(crate) const fn of(later: bool) -> Self {
        let none = Invalidated { first: 0, last: 0, entry_shift: 0 };
        Self { ranges: [none; Self::RANGES], used: 0, scope: Scope::LastLevel, later }
    }

    /// Forgets what it has, which has been invalidated.
    pub(crate) fn clear(&mut self) {
        (self.used, self.scope) = (0, Scope::LastLevel);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Adds entries from `first` to `last`, each of at least 2^`entry_shift` bytes.
    #[inline]
    pub(crate) fn add(&mut self, first: u64, last: u64, entry_shift: u32) {
        if let Some(before) = self.used.checked_sub(1).and_then(|n| self.ranges.get_mut(n)) {
            let goes_on = before.entry_shift == entry_shift && before.last.wrapping_add(1) == first;
            if goes_on || self.used == Self::RANGES {
                *before = before.and(&Invalidated { first, last, entry_shift });
                return;
            }
        }
        self.ranges[self.used] = Invalidated { first, last, entry_shift };
        self.used += 1;
    }

    /// Adds a range, if no other has all of it.
    pub(crate) fn add_once(&mut self, range: Invalidated) {
        if !self.ranges[..self.used].iter().any(|other| other.has(&range)) {
            self.add(range.first, range.last, range.entry_shift);
        }
    }

    /// Includes cached table descriptors, because tables will be given back.
    pub(crate) fn with_tables(&mut self) {
        self.scope = Scope::AnyLevel;
    }

    /// Notes what is left to a flush, if that is so. The holder has the locks of all of it.
    #[inline(always)]
    pub(crate) fn leave<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        if self.later {
            self.leave_all(locked);
        }
    }

    #[cold]
    fn leave_all<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        self.ranges[..self.used].iter().for_each(|range| locked.state.leave_pending::<P>(*range));
        self.used = 0;
    }

    /// Makes the stores visible, invalidates, and waits until the invalidations are complete on all CPUs. Those that are left to a flush
    /// have been [noted](Self::leave) before.
    pub(crate) fn finish<P: Platform>(&mut self, locked: &Locked<'_, P>) {
        complete(locked.platform, locked.geometry, locked.counters(), self.used != 0, || {
            let range_tlbi = locked.platform.promise().range_tlbi;
            self.issue(locked, range_tlbi);
        });
    }

    #[inline(always)]
    fn issue<P: Platform>(&self, locked: &Locked<'_, P>, range_tlbi: bool) {
        let (hardware, geometry, counters) = (locked.platform, locked.geometry, locked.counters());
        // Most batches are one invalidation.
        if let [only] = &self.ranges[..self.used]
            && let Some(op) = single(only, geometry, self.scope, range_tlbi)
        {
            hardware.tlbi(op, geometry);
            return counters.invalidated(1);
        }
        counters.invalidated(self.issue_many(hardware, geometry, range_tlbi));
    }

    /// Issues several invalidations. Returns their number.
    #[inline(never)]
    fn issue_many<H: Hardware>(&self, hardware: &H, geometry: Geometry, range_tlbi: bool) -> u64 {
        if self.used > 1 && self.is_long(geometry, range_tlbi) {
            hardware.tlbi(Tlbi::All, geometry);
            return 1;
        }
        let mut issued = 0;
        for range in &self.ranges[..self.used] {
            self.cover(range, geometry, range_tlbi).for_each(|op| {
                hardware.tlbi(op, geometry);
                issued += 1;
            });
        }
        issued
    }

    /// Returns true if it takes more invalidations than one of everything is worth.
    #[inline(never)]
    fn is_long(&self, geometry: Geometry, range_tlbi: bool) -> bool {
        let ranges = self.ranges[..self.used].iter();
        let pages = ranges.clone().map(|range| ((range.last - range.first) >> geometry.page_shift()) + 1);
        // Each invalidation is of a page at least.
        if pages.fold(0, u64::saturating_add) <= Tlbi::BREAK_EVEN as u64 {
            return false;
        }
        ranges.flat_map(|range| self.cover(range, geometry, range_tlbi)).nth(Tlbi::BREAK_EVEN).is_some()
    }

    /// Returns the invalidations of a range.
    #[inline(always)]
    fn cover(&self, range: &Invalidated, geometry: Geometry, range_tlbi: bool) -> impl Iterator<Item = Tlbi> {
        cover(range, geometry, self.scope, range_tlbi)
    }
}

/// Returns the invalidations of a range.
#[inline(always)]
fn cover(
    range: &Invalidated,
    geometry: Geometry,
    scope: Scope,
    range_tlbi: bool,
) -> impl Iterator<Item = Tlbi> {
    let pages = ((range.last - range.first) >> geometry.page_shift()) + 1;
    Tlbi::cover(geometry, Va(range.first), pages, range.entry_shift, scope, range_tlbi)
}

/// Returns the invalidation that is all of a range, if it is one.
#[inline(always)]
fn single(range: &Invalidated, geometry: Geometry, scope: Scope, range_tlbi: bool) -> Option<Tlbi> {
    let pages = ((range.last - range.first) >> geometry.page_shift()) + 1;
    Tlbi::single(geometry, Va(range.first), pages, range.entry_shift, scope, range_tlbi)
}

/// Completes the change of one leaf. If it `was_valid`, it is invalidated by one of its addresses.
#[inline(always)]
pub(crate) fn finish_one<P: Platform>(locked: &Locked<'_, P>, was_valid: bool, va: u64) {
    let (hardware, geometry, counters) = (locked.platform, locked.geometry, locked.counters());
    complete(hardware, geometry, counters, was_valid, || {
        hardware.tlbi(Tlbi::Page(Va(va), Scope::LastLevel), geometry);
        counters.invalidated(1);
    });
}

/// Executes the sequence of every change: stores, barrier, invalidations, barriers.
#[inline(always)]
fn complete<H: Hardware>(
    hardware: &H,
    geometry: Geometry,
    counters: &Counters,
    invalidates: bool,
    issue: impl FnOnce(),
) {
    hardware.dsb(Dsb::Ishst);
    if invalidates {
        issue();
        hardware.dsb(Dsb::Ish);
        if hardware.promise().repeat_tlbi {
            repeat(hardware, geometry, counters);
        }
    }
    hardware.isb();
}

/// Issues the additional TLBI and DSB that some CPUs need after a batch
/// ([`Midr::repeated_tlbi`](crate::Midr::repeated_tlbi)).
#[cold]
fn repeat<H: Hardware>(hardware: &H, geometry: Geometry, counters: &Counters) {
    hardware.tlbi(Tlbi::Repeat, geometry);
    hardware.dsb(Dsb::Ish);
    counters.invalidated(1);
}
