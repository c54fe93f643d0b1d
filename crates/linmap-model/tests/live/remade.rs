//! Remakes of ranges as values, and what each must do, by rules over ranges.
//!
//! To the model a remake is two operations: the first has the range invalid when the step begins, which is judged like any
//! other return; the second has it as it shall be.

use linmap::error::{ChangeError, RemakeError, Unaligned};
use linmap::{Aliased, Attributes, Geometry, MemoryType, Pa, Platform, Remake, Rodata, SharedSpace, Va};

use test_support::Random;

use crate::aliased::{self, Set};
use crate::flat::{Flat, Mapped, Walked};
use crate::operation::{Circumstances, Operation, Prediction, Refused};

/// A remake, and what becomes of its step.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Remade {
    pub(crate) to_type: Option<MemoryType>,
    /// Address bits that are set, and those that are cleared.
    pub(crate) bits: (u64, u64),
    /// Other memory.
    pub(crate) to: Option<u64>,
    /// True if the step fails.
    pub(crate) fails: bool,
    /// The offset of a linear map whose aliases go with it.
    pub(crate) linear: Option<u64>,
}

impl Remade {
    /// A remake that changes nothing but what is invalid.
    pub(crate) const NONE: Self = Self { to_type: None, bits: (0, 0), to: None, fails: false, linear: None };

    pub(crate) fn remake(&self) -> Remake {
        let bits = Remake::address_bits(self.bits.0, self.bits.1);
        let all = self.to_type.map_or(bits, |t| Remake::memory_type(t).and(bits));
        self.to.map_or(all, |to| all.and(Remake::to(Pa(to))))
    }

    /// Returns the mapping of a page afterwards.
    fn of(&self, (start, va): (u64, u64), old: Mapped) -> Mapped {
        let attributes = self.to_type.map_or(old.attributes, |t| old.attributes.of_type(t));
        let pa = match self.to {
            Some(to) => to + (va - start),
            None => old.pa & !self.bits.1 | self.bits.0,
        };
        Mapped { pa, attributes, valid: true }
    }

    /// Returns the ranges that it may change: its own, and aliases.
    pub(crate) fn ranges(&self, flat: &Flat, area: (u64, u64), g: Geometry) -> Vec<(u64, u64)> {
        match self.linear.filter(|_| self.to.is_none()) {
            Some(offset) => aliased::ranges(flat, area, offset, g),
            None => vec![area],
        }
    }

    /// Its own step, which calls this one.
    pub(crate) fn step(&self, step: &mut dyn FnMut()) -> Result<(), ()> {
        step();
        if self.fails { Err(()) } else { Ok(()) }
    }

    /// Does it with the aliases in the linear map, which has physical memory at this offset. `step` is called where its own would be.
    ///
    /// # Safety
    ///
    /// No CPU uses the addresses.
    pub(crate) unsafe fn run<P: Platform, const LOCKS: usize>(
        &self,
        space: &SharedSpace<LOCKS>,
        platform: &P,
        (va, pages, offset): (Va, u64, u64),
        step: &mut dyn FnMut(),
    ) -> Result<(), RemakeError<()>> {
        // Whatever permissions follow.
        let mut aliased = Aliased::new(space.on(platform), offset, Rodata::Off)
            .sharing_bits(aliased::shared(space.geometry()));
        // SAFETY: the caller's promise.
        unsafe { aliased.remake(va, pages, self.remake(), || self.step(step)) }
    }

    /// Returns the error that the arguments alone cause.
    fn arguments(&self, pages: u64, g: Geometry) -> Result<(), ChangeError> {
        let oa = Pa(self.to.unwrap_or(self.bits.0 | self.bits.1));
        let bytes = if self.to.is_some() { pages * g.page_size() } else { 1 };
        if !oa.0.is_multiple_of(g.page_size()) {
            return Err(ChangeError::Unaligned(Unaligned::Pa(oa)));
        }
        if u128::from(oa.0) + u128::from(bytes) > 1u128 << g.oa_bits() {
            return Err(ChangeError::OutputAddress { oa, pages, bits: g.oa_bits() });
        }
        Ok(())
    }
}

/// Returns the map with all of some ranges invalid.
pub(crate) fn without(flat: &Flat, ranges: &[(u64, u64)]) -> Flat {
    let out = |flat: Flat, &(first, last): &(u64, u64)| {
        flat.with(first, last, |_, old| old.map(|m| Mapped { valid: false, ..m }))
    };
    ranges.iter().fold(flat.clone(), out)
}

/// Returns the error that the pages of a range cause.
fn contents(flat: &Flat, (first, last): (u64, u64), now: Circumstances) -> Result<(), ChangeError> {
    for (first, _, old) in flat.within(first, last) {
        let Some(old) = old else { return Err(ChangeError::Hole { va: Va(first) }) };
        if old.attributes.is_writable() && old.attributes.is_executable() && !now.write_execute {
            return Err(ChangeError::WriteExecute { va: Va(first) });
        }
    }
    Ok(())
}

/// Predicts the outcome, if there are enough table pages, and if no leaf is too large for where it is to lead.
pub(crate) fn predict(
    operation: &Operation,
    remade: &Remade,
    (flat, walked): (&Flat, &Walked),
    g: Geometry,
    now: Circumstances,
) -> Prediction {
    let area = (operation.va, operation.last(g));
    let refused = |error: Refused| Prediction { result: Err(error), flat: flat.clone() };
    if let Err(error) = remade.arguments(operation.pages, g) {
        return refused(error.into());
    }
    let ranges = remade.ranges(flat, area, g);
    let linear = remade.linear.filter(|_| remade.to.is_none());
    // The aliases first, in the order of the area.
    let aliases = linear.map_or(Vec::new(), |offset| aliased::aliases(flat, area, offset, g));
    let may_be_executable = Circumstances { write_execute: true, ..now };
    let judged = match linear {
        Some(offset) => aliased::in_order(flat, area, (offset, g), Set::ReadOnly, may_be_executable),
        // A hole is found before what would be writable and executable.
        None => contents(flat, area, may_be_executable),
    };
    let mut all = [&area].into_iter().chain(&aliases);
    if let Err(error) = judged.and_then(|()| all.try_for_each(|&range| contents(flat, range, now))) {
        return refused(error.into());
    }
    let made = |flat: &Flat, range: (u64, u64)| {
        flat.with(range.0, range.1, |va, old| {
            old.map(|m| crate::flat::kept(remade.of((operation.va, va), m), g))
        })
    };
    let after = ranges.iter().fold(flat.clone(), |flat, &range| made(&flat, range));
    if after == *flat {
        return Prediction { result: Ok(()), flat: after };
    }
    let resized = |&range: &(u64, u64)| {
        let beyond = |seen: &&crate::flat::Seen| {
            let (start, end) = seen.whole(g);
            seen.leaf.valid && (start < range.0 || range.1 < end)
        };
        walked.within(range.0, range.1, g).iter().find(beyond).map(|seen| seen.va)
    };
    let may_resize = aliases.iter().chain([&area]).find_map(resized).map_or(Ok(()), |va| now.may_resize(va));
    if let Err(error) = may_resize {
        return refused(error.into());
    }
    if remade.fails {
        let (va, pages) = (Va(operation.va), operation.pages);
        return Prediction { result: Err(Refused::Step { va, pages }), flat: without(flat, &ranges) };
    }
    Prediction { result: Ok(()), flat: after }
}

/// Returns true if no memory is write-back at one address and anything else at another, valid or not.
pub(crate) fn is_of_one_type(flat: &Flat) -> bool {
    let mut pieces: Vec<_> =
        flat.pieces().iter().map(|p| (p.2.pa, p.2.pa + (p.1 - p.0), p.2.attributes)).collect();
    pieces.sort_unstable_by_key(|p| p.0);
    // The last address so far of each kind.
    let mut ends = [None::<u64>; 2];
    pieces.iter().all(|&(first, last, attributes)| {
        let kind = usize::from(is_write_back(attributes));
        let other = ends[1 - kind];
        ends[kind] = ends[kind].max(Some(last));
        other.is_none_or(|end| end < first)
    })
}

pub(crate) fn is_write_back(a: Attributes) -> bool {
    [MemoryType::NORMAL, MemoryType::NORMAL_TAGGED].contains(&a.memory_type())
}

/// Any remake of a part of a map.
pub(crate) fn any_remake(g: Geometry, random: &mut Random) -> Remade {
    let types = [
        MemoryType::NORMAL,
        MemoryType::NORMAL,
        MemoryType::NORMAL_TAGGED,
        MemoryType::NORMAL_NC,
        MemoryType::DEVICE_NGNRE,
    ];
    let to_type = (!random.one_in(3)).then(|| random.of(&types));
    let shared = aliased::shared(g);
    let bits = random.of(&[(0, 0), (0, 0), (shared, 0), (0, shared)]);
    Remade { to_type, bits, fails: random.one_in(4), ..Remade::NONE }
}

/// Returns the same remake of a range, or one that only makes it valid if some memory were of two types after it, or the bits of an
/// address were not the same everywhere.
pub(crate) fn of_one_type(flat: &Flat, area: (u64, u64), remade: Remade) -> Remade {
    let after = flat.with(area.0, area.1, |va, old| old.map(|m| remade.of((area.0, va), m)));
    let mask = remade.bits.0 | remade.bits.1;
    let crosses = flat.pieces().iter().any(|p| (p.2.pa ^ (p.2.pa + (p.1 - p.0))) & mask != 0);
    if is_of_one_type(&after) && !crosses { remade } else { Remade { fails: remade.fails, ..Remade::NONE } }
}
