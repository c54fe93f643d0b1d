//! Changes of an area, and what they make of a flat map.

use linmap::{Attributes, Change};

pub(crate) type Mapped = test_support::Mapped<Attributes>;
pub(crate) type Flat = test_support::Flat<Attributes>;

/// A change of an area.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Set {
    Ro,
    Rw,
    X,
    Nx,
    Rox,
    Valid(bool),
}

impl Set {
    /// Returns the new mapping of a page of the area, or of one of its aliases.
    fn of(self, old: Mapped, alias: bool) -> Mapped {
        let change = match (self, alias) {
            (Self::Valid(valid), false) => return Mapped { valid, ..old },
            (Self::X | Self::Nx | Self::Valid(_), true) => return old,
            (Self::Ro, _) | (Self::Rox, true) => Change::READ_ONLY,
            (Self::Rw, _) => Change::WRITABLE,
            (Self::X, false) => Change::EXECUTABLE,
            (Self::Nx, false) => Change::NOT_EXECUTABLE,
            (Self::Rox, false) => Change::READ_ONLY.and(Change::EXECUTABLE),
        };
        Mapped { attributes: change.of(old.attributes), ..old }
    }
}

/// The number of bytes of a range that are mapped.
fn mapped(flat: &Flat, (first, last): (u64, u64)) -> u64 {
    flat.within(first, last).iter().filter(|p| p.2.is_some()).map(|p| p.1 - p.0 + 1).sum()
}

/// Returns the map after a change of an area, or `None` if that is refused. `offset` is that of the linear map, if
/// aliases follow.
pub(crate) fn changed(flat: &Flat, set: Set, (first, last): (u64, u64), offset: Option<u64>) -> Option<Flat> {
    let refused = |m: Mapped| m.valid && m.attributes.is_writable() && m.attributes.is_executable();
    let pieces = flat.within(first, last);
    if pieces.iter().any(|p| p.2.is_none_or(|old| refused(set.of(old, false)))) {
        return None;
    }
    let mut new = flat.with(first, last, |_, old| old.map(|m| set.of(m, false)));
    let Some(offset) = offset.filter(|_| matches!(set, Set::Ro | Set::Rw | Set::Rox)) else {
        return Some(new);
    };
    let mut extents: Vec<(u64, u64)> = Vec::new();
    for (a, b, to) in pieces {
        let pa = to?.pa;
        match extents.last_mut() {
            Some(before) if before.1 + 1 == pa => before.1 += b - a + 1,
            _ => extents.push((pa, pa + (b - a))),
        }
    }
    for (a, b) in extents {
        let alias = (a.wrapping_add(offset), b.wrapping_add(offset));
        match mapped(flat, alias) {
            0 => {}
            bytes if bytes == b - a + 1 => {
                new = new.with(alias.0, alias.1, |_, old| old.map(|m| set.of(m, true)));
            }
            _ => return None,
        }
    }
    Some(new)
}
