//! Changes of an area that the linear map follows, as values, and what each must do, by rules over ranges.

use linmap::error::ChangeError;
use linmap::{Aliased, Change, Geometry, Platform, Policy, Rodata, SharedSpace, Va};

use crate::flat::{Flat, Mapped, Walked};
use crate::operation::{Circumstances, Operation, Prediction};

/// The new permissions of an area, aliases included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Set {
    ReadOnly,
    Writable,
    Code,
}

impl Set {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "set memory read-only",
            Self::Writable => "set memory writable",
            Self::Code => "set memory read-only and executable",
        }
    }

    pub(crate) fn run<P: Platform, const LOCKS: usize>(
        self,
        space: &SharedSpace<LOCKS>,
        platform: &P,
        offset: u64,
        (va, pages): (Va, u64),
    ) -> Result<(), ChangeError> {
        let mut aliased =
            Aliased::new(space.on(platform), offset, Rodata::Full).sharing_bits(shared(space.geometry()));
        // SAFETY: these are tables of a model: no CPU uses the addresses, and the model judges the rest.
        unsafe {
            match self {
                Self::ReadOnly => aliased.set_memory_ro(va, pages),
                Self::Writable => aliased.set_memory_rw(va, pages),
                Self::Code => aliased.set_memory_rox(va, pages),
            }
        }
    }

    const fn area(self) -> Change {
        match self {
            Self::ReadOnly => Change::READ_ONLY,
            Self::Writable => Change::WRITABLE,
            Self::Code => Change::READ_ONLY.and(Change::EXECUTABLE),
        }
    }

    const fn alias(self) -> Change {
        match self {
            Self::ReadOnly | Self::Code => Change::READ_ONLY,
            Self::Writable => Change::WRITABLE,
        }
    }
}

/// The bit of an output address that says whose the memory is.
pub(crate) const fn shared(g: Geometry) -> u64 {
    1 << (g.oa_bits() - 1)
}

/// Returns the linear addresses of physical memory, to whom it may belong.
fn linear((first, last): (u64, u64), offset: u64, g: Geometry) -> (u64, u64) {
    let of = |pa: u64| (pa & !shared(g)).wrapping_add(offset);
    (of(first), of(last))
}

/// Physical memory in a row that a part of an area is mapped to, where it is in the linear map, if that has any of it.
pub(crate) fn aliases(flat: &Flat, (first, last): (u64, u64), offset: u64, g: Geometry) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for (a, b, to) in flat.within(first, last) {
        let Some(Mapped { pa, .. }) = to else { continue };
        match stretches.last_mut() {
            Some(before) if before.1 + 1 == pa => before.1 += b - a + 1,
            _ => stretches.push((pa, pa + (b - a))),
        }
    }
    let linear = stretches.into_iter().map(|stretch| linear(stretch, offset, g));
    linear.filter(|&(a, b)| flat.within(a, b).iter().any(|p| p.2.is_some())).collect()
}

/// The ranges that change: none has a page of another.
pub(crate) fn ranges(flat: &Flat, area: (u64, u64), offset: u64, g: Geometry) -> Vec<(u64, u64)> {
    let mut all = aliases(flat, area, offset, g);
    all.push(area);
    all.sort_unstable();
    let mut apart: Vec<(u64, u64)> = Vec::new();
    for (first, last) in all {
        match apart.last_mut() {
            Some(before) if first <= before.1 => before.1 = before.1.max(last),
            _ => apart.push((first, last)),
        }
    }
    apart
}

/// Returns the error that the pages of a range cause.
fn contents(
    flat: &Flat,
    (first, last): (u64, u64),
    change: Change,
    now: Circumstances,
) -> Result<(), ChangeError> {
    for (first, _, old) in flat.within(first, last) {
        let Some(old) = old else { return Err(ChangeError::Hole { va: Va(first) }) };
        let new = change.of(old.attributes);
        if old.valid && new.is_writable() && new.is_executable() && !now.write_execute {
            return Err(ChangeError::WriteExecute { va: Va(first) });
        }
    }
    Ok(())
}

/// The first leaf in use of a range that has to change its size.
fn resized(walked: &Walked, (first, last): (u64, u64), change: Change, g: Geometry) -> Option<u64> {
    let seen = walked.within(first, last, g);
    let found = seen.iter().find(|seen| {
        let (start, end) = seen.whole(g);
        let changes = change.of(seen.leaf.attributes) != seen.leaf.attributes;
        seen.leaf.valid && changes && (start < first || last < end)
    });
    found.map(|seen| seen.va)
}

/// Predicts the outcome, if there are enough table pages.
pub(crate) fn predict(
    operation: &Operation,
    (set, offset): (Set, u64),
    (flat, walked): (&Flat, &Walked),
    g: Geometry,
    now: Circumstances,
) -> Prediction {
    let area = (operation.va, operation.last(g));
    let (all, before) = (aliases(flat, area, offset, g), flat.clone());
    let judged = in_order(flat, area, (offset, g), set, now).and_then(|()| {
        let sides = all.iter().map(|&alias| (alias, set.alias())).chain([(area, set.area())]);
        let first = sides.filter_map(|(range, change)| resized(walked, range, change, g)).next();
        let live = now.policy == Policy::Live && now.promise.never_aborts;
        match first {
            Some(va) if !live && now.policy != Policy::Park => {
                Err(ChangeError::NeedsResize { va: Va(va), policy: now.policy })
            }
            Some(_) if now.policy == Policy::Park && !now.parkable => Err(ChangeError::CannotPark),
            _ => Ok(()),
        }
    });
    if judged.is_err() {
        return Prediction { result: judged.map_err(Into::into), flat: before };
    }
    let change = |flat: &Flat, range: (u64, u64), change: Change| {
        flat.with(range.0, range.1, |_, old| old.map(|m| Mapped { attributes: change.of(m.attributes), ..m }))
    };
    let flat =
        all.iter().fold(change(flat, area, set.area()), |flat, &alias| change(&flat, alias, set.alias()));
    Prediction { result: Ok(()), flat }
}

/// Returns the error that the area and its aliases cause. An alias is judged when the next extent begins.
pub(crate) fn in_order(
    flat: &Flat,
    area: (u64, u64),
    (offset, g): (u64, Geometry),
    set: Set,
    now: Circumstances,
) -> Result<(), ChangeError> {
    let all = aliases(flat, area, offset, g);
    let mut stretch: Option<(u64, u64)> = None;
    let alias = |stretch: Option<(u64, u64)>| {
        let linear = stretch.map(|stretch| linear(stretch, offset, g));
        linear.filter(|l| all.contains(l)).map_or(Ok(()), |l| contents(flat, l, set.alias(), now))
    };
    for (a, b, to) in flat.within(area.0, area.1) {
        contents(flat, (a, b), set.area(), now)?;
        let pa = to.expect("it is mapped").pa;
        match &mut stretch {
            Some(before) if before.1 + 1 == pa => before.1 += b - a + 1,
            _ => {
                alias(stretch)?;
                stretch = Some((pa, pa + (b - a)));
            }
        }
    }
    alias(stretch)
}
