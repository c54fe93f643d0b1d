//! The ranges that a remake has taken out, and those that a failed step has left so: a fault handler asks without a lock.
//!
//! Slots are written under the first lock. A reader sees a slot whole, or that it has changed meanwhile.

use crate::format::Span;
use crate::platform::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::platform::atomic::{AtomicU64, fence};
use crate::platform::{Hardware, with_locks};

/// Why a range is invalid ([`AddressSpace::remaking`](crate::AddressSpace::remaking)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Remaking {
    /// A remake is under way there, and its caller has yet to bring it back.
    UnderWay,
    /// The step of a remake failed there, which left it invalid.
    Failed,
}

/// The ranges.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Remakes {
    slots: [Slot; Self::ROOM],
}

#[derive(Debug)]
struct Slot {
    /// 0 if it is free; otherwise a number that no other use of it has, times 2, and 1 if a step failed.
    state: AtomicU64,
    first: AtomicU64,
    last: AtomicU64,
}

impl Slot {
    const fn free() -> Self {
        Self { state: AtomicU64::new(0), first: AtomicU64::new(0), last: AtomicU64::new(0) }
    }

    fn is_failed(&self) -> bool {
        self.state.load(Relaxed) & 1 != 0
    }

    fn is_free(&self) -> bool {
        self.state.load(Relaxed) == 0
    }

    /// Returns what it says of an address, or `None` if nothing.
    fn of(&self, va: u64) -> Option<Remaking> {
        loop {
            let state = self.state.load(Acquire);
            let (first, last) = (self.first.load(Relaxed), self.last.load(Relaxed));
            fence(Acquire);
            if self.state.load(Relaxed) == state {
                let is_in = state != 0 && first <= va && va <= last;
                let said = if state & 1 == 0 { Remaking::UnderWay } else { Remaking::Failed };
                return is_in.then_some(said);
            }
        }
    }

    fn write(&self, state: u64, span: Span) {
        self.state.store(0, Relaxed);
        fence(Release);
        self.first.store(span.first, Relaxed);
        self.last.store(span.last, Relaxed);
        self.state.store(state, Release);
    }
}

impl Remakes {
    /// Each remake under way has a claim for each of its ranges, of which there are at most 16. So as many failed ones are
    /// remembered.
    const ROOM: usize = 32;

    pub(crate) const fn new() -> Self {
        Self { slots: [const { Slot::free() }; Self::ROOM] }
    }

    /// Returns what is known of an address. Takes no lock.
    pub(crate) fn of(&self, va: u64) -> Option<Remaking> {
        let mut said = self.slots.iter().filter_map(|slot| slot.of(va));
        let first = said.next()?;
        // One that is under way is newer than one that failed.
        Some(if said.any(|other| other == Remaking::UnderWay) { Remaking::UnderWay } else { first })
    }

    /// Notes that ranges go out. The caller has claimed them.
    pub(crate) fn begin<'a, H: Hardware>(&'a self, hardware: &'a H, spans: &[Span]) -> UnderWay<'a, H> {
        let mut under_way = UnderWay { remakes: self, hardware, slots: 0 };
        with_locks(hardware, 1, || {
            for &span in spans {
                let number =
                    self.slots.iter().fold(0, |most, slot| most.max(slot.state.load(Relaxed) >> 1u32)) + 1;
                // The one that failed first is forgotten if none is free.
                let oldest =
                    |slot: &&(usize, &Slot)| if slot.1.is_free() { 0 } else { slot.1.state.load(Relaxed) };
                let free =
                    self.slots.iter().enumerate().filter(|(_, slot)| slot.is_free() || slot.is_failed());
                if let Some((n, slot)) = free.min_by_key(|slot| oldest(&slot)) {
                    slot.write(number << 1, span);
                    under_way.slots |= 1 << n;
                }
            }
        });
        under_way
    }
}

/// Ranges that are out. If this is dropped, they are left so.
pub(crate) struct UnderWay<'a, H: Hardware> {
    remakes: &'a Remakes,
    hardware: &'a H,
    /// The set of their slots, as bits.
    slots: u32,
}

impl<H: Hardware> UnderWay<'_, H> {
    fn own(&self) -> impl Iterator<Item = &Slot> {
        self.remakes.slots.iter().enumerate().filter(|(n, _)| self.slots >> n & 1 != 0).map(|(_, slot)| slot)
    }

    /// Notes that the ranges are back. What failed within them before is forgotten.
    pub(crate) fn end(mut self) {
        with_locks(self.hardware, 1, || {
            for own in self.own() {
                let span = Span { first: own.first.load(Relaxed), last: own.last.load(Relaxed) };
                let covered = |slot: &&Slot| span.covers(slot.first.load(Relaxed), slot.last.load(Relaxed));
                for slot in self.remakes.slots.iter().filter(covered).filter(|slot| slot.is_failed()) {
                    slot.state.store(0, Release);
                }
                own.state.store(0, Release);
            }
        });
        self.slots = 0;
    }
}

impl<H: Hardware> Drop for UnderWay<'_, H> {
    fn drop(&mut self) {
        if self.slots != 0 {
            with_locks(self.hardware, 1, || {
                self.own().for_each(|slot| slot.state.store(slot.state.load(Relaxed) | 1, Release));
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{Geometry, Granule, OaFormat};
    use crate::platform::host::HostMemory;

    const fn page(n: u64) -> Span {
        Span { first: n << 12, last: (n << 12) + 0xfff }
    }

    #[test]
    fn who_asks_is_told_of_what_failed_last() {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("built");
        let memory = HostMemory::new(g, 1);
        let (platform, remakes) = (memory.platform(), Remakes::new());
        let at = |n: u64| remakes.of((n << 12) + 8);
        assert_eq!(at(0), None);
        for n in 0..40 {
            let under_way = remakes.begin(&platform, &[page(n)]);
            assert_eq!(at(n), Some(Remaking::UnderWay));
            drop(under_way);
            assert_eq!(at(n), Some(Remaking::Failed));
        }
        // The first are forgotten, and none that is under way.
        assert_eq!(
            [at(7), at(8), at(39), at(40)],
            [None, Some(Remaking::Failed), Some(Remaking::Failed), None]
        );
        let again = remakes.begin(&platform, &[page(39), page(50)]);
        assert_eq!(
            [at(39), at(50), at(38)],
            [Some(Remaking::UnderWay), Some(Remaking::UnderWay), Some(Remaking::Failed)]
        );
        (0..40).for_each(|n| drop(remakes.begin(&platform, &[page(n + 60)])));
        assert_eq!([at(39), at(50)], [Some(Remaking::UnderWay); 2]);
        again.end();
        assert_eq!([at(39), at(50), at(99)], [None, None, Some(Remaking::Failed)]);
        remakes.begin(&platform, &[Span { first: 0, last: u64::MAX }]).end();
        assert!((0..100).all(|n| at(n).is_none()));
    }
}
