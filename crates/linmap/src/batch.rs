//! The TLB invalidations of an operation, in one batch for each call.
//!
//! There are barriers only where the architecture requires them: stores, DSB ISHST, invalidations, DSB ISH, ISB (Arm
//! ARM D8.17.8). Entries that were invalid before need no invalidation: a translation that faults is never cached
//! (D8.17, IWZCBG).

use crate::build::Counters;
use crate::format::{Geometry, Scope, Span, Tlbi, Va};
use crate::platform::{Dsb, Hardware};

/// Addresses, and the smallest entry that a TLB can hold for them.
#[derive(Clone, Copy)]
pub(crate) struct Invalidated {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) entry_shift: u32,
}

impl Invalidated {
    /// Returns both, with the addresses between them.
    pub(crate) fn and(&self, other: &Self) -> Self {
        Self {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            entry_shift: self.entry_shift.min(other.entry_shift),
        }
    }

    /// Returns true if the other one overlaps it or is adjacent, and has entries of the same size.
    pub(crate) const fn meets(&self, other: &Self) -> bool {
        let begins_before = self.first <= other.last.saturating_add(1);
        self.entry_shift == other.entry_shift && begins_before && other.first <= self.last.saturating_add(1)
    }

    /// Returns true if what invalidates it invalidates the other one as well.
    pub(crate) const fn has(&self, other: &Self) -> bool {
        self.first <= other.first && other.last <= self.last && self.entry_shift <= other.entry_shift
    }

    pub(crate) const fn overlaps(&self, span: Span) -> bool {
        self.first <= span.last && span.first <= self.last
    }
}

/// The hold that issues a batch.
pub(crate) trait Issuer {
    type Hardware: Hardware;

    fn hardware(&self) -> &Self::Hardware;

    fn geometry(&self) -> Geometry;

    /// Counts, if anybody does.
    fn count(&self, count: impl FnOnce(&Counters));

    /// Notes that the invalidation of a range is left to a later flush.
    fn leave(&self, range: Invalidated);
}

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
    pub(crate) fn leave<I: Issuer>(&mut self, to: &I) {
        if self.later {
            self.leave_all(to);
        }
    }

    #[cold]
    fn leave_all<I: Issuer>(&mut self, to: &I) {
        self.ranges[..self.used].iter().for_each(|range| to.leave(*range));
        self.used = 0;
    }

    /// Makes the stores visible, invalidates, and waits until the invalidations are complete on all CPUs. The batch is empty then.
    /// Invalidations that are left to a flush have been [noted](Self::leave) before.
    pub(crate) fn finish<I: Issuer>(&mut self, to: &I) {
        let hardware = to.hardware();
        hardware.dsb(Dsb::Ishst);
        if self.used != 0 {
            self.issue(to, hardware.promise().range_tlbi);
            complete(to);
            (self.used, self.scope) = (0, Scope::LastLevel);
        }
        hardware.isb();
    }

    #[inline(always)]
    fn issue<I: Issuer>(&self, to: &I, range_tlbi: bool) {
        let (hardware, geometry) = (to.hardware(), to.geometry());
        // Most batches are one invalidation.
        if let [only] = &self.ranges[..self.used]
            && let Some(op) = single(only, geometry, self.scope, range_tlbi)
        {
            hardware.tlbi(op, geometry);
            return to.count(|counters| counters.invalidated(1));
        }
        let issued = self.issue_many(hardware, geometry, range_tlbi);
        to.count(|counters| counters.invalidated(issued));
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
        let (mut pages, mut issued) = (0u64, 0);
        for range in &self.ranges[..self.used] {
            pages = pages.saturating_add(((range.last - range.first) >> geometry.page_shift()) + 1);
        }
        // Each invalidation is of a page at least.
        if pages <= Tlbi::BREAK_EVEN as u64 {
            return false;
        }
        for range in &self.ranges[..self.used] {
            issued += self.cover(range, geometry, range_tlbi).take(Tlbi::BREAK_EVEN + 1).count();
        }
        issued > Tlbi::BREAK_EVEN
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
pub(crate) fn finish_one<I: Issuer>(to: &I, was_valid: bool, va: u64) {
    let hardware = to.hardware();
    hardware.dsb(Dsb::Ishst);
    if was_valid {
        hardware.tlbi(Tlbi::Page(Va(va), Scope::LastLevel), to.geometry());
        to.count(|counters| counters.invalidated(1));
        complete(to);
    }
    hardware.isb();
}

/// Waits until invalidations are complete on all CPUs.
#[inline(always)]
fn complete<I: Issuer>(to: &I) {
    to.hardware().dsb(Dsb::Ish);
    if to.hardware().promise().repeat_tlbi {
        repeat(to);
    }
}

/// Issues the additional TLBI and DSB that some CPUs need after a batch
/// ([`Midr::repeated_tlbi`](crate::cpu::Midr::repeated_tlbi)).
#[cold]
fn repeat<I: Issuer>(to: &I) {
    to.hardware().tlbi(Tlbi::Repeat, to.geometry());
    to.hardware().dsb(Dsb::Ish);
    to.count(|counters| counters.invalidated(1));
}
