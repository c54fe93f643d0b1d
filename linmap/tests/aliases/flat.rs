//! What each page maps to, as a list of ranges, and what a change of an area makes of it.

use linmap::{Attributes, Change};

/// What an address maps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    pub(crate) pa: u64,
    pub(crate) attributes: Attributes,
    pub(crate) valid: bool,
}

impl Mapped {
    fn at(self, bytes: u64) -> Self {
        Self { pa: self.pa + bytes, ..self }
    }
}

/// First address, last one, what the first maps to: in address order, none goes on in the next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flat(pub(crate) Vec<(u64, u64, Mapped)>);

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
    /// What becomes of a page of the area; of one of its aliases.
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

impl Flat {
    /// Adds what comes next in address order.
    pub(crate) fn push(&mut self, (first, last, to): (u64, u64, Mapped)) {
        match self.0.last_mut() {
            Some(before) if before.1.wrapping_add(1) == first && before.2.at(first - before.0) == to => {
                before.1 = last;
            }
            _ => self.0.push((first, last, to)),
        }
    }

    /// What of a range is mapped, and how many bytes that is.
    fn within(&self, first: u64, last: u64) -> (Vec<(u64, u64, Mapped)>, u64) {
        let overlaps = self.0.iter().filter(|p| p.0 <= last && first <= p.1);
        let clipped = overlaps.map(|&(a, b, to)| {
            let from = a.max(first);
            (from, b.min(last), to.at(from - a))
        });
        let pieces: Vec<_> = clipped.collect();
        let bytes = pieces.iter().map(|p| p.1 - p.0 + 1).sum();
        (pieces, bytes)
    }

    fn change(&mut self, first: u64, last: u64, to: impl Fn(Mapped) -> Mapped) {
        let mut new = Self::default();
        for &(a, b, old) in &self.0 {
            let (from, until) = (a.max(first), b.min(last));
            if from > until {
                new.push((a, b, old));
                continue;
            }
            if a < from {
                new.push((a, from - 1, old));
            }
            new.push((from, until, to(old.at(from - a))));
            if until < b {
                new.push((until + 1, b, old.at(until + 1 - a)));
            }
        }
        *self = new;
    }

    /// The map after a change of an area, if that is not refused. `offset` is that of the linear map, if aliases
    /// follow.
    pub(crate) fn with(&self, set: Set, (first, last): (u64, u64), offset: Option<u64>) -> Option<Self> {
        let (pieces, bytes) = self.within(first, last);
        let refused = |m: &Mapped| m.valid && m.attributes.is_writable() && m.attributes.is_executable();
        if bytes != last - first + 1 || pieces.iter().any(|p| refused(&set.of(p.2, false))) {
            return None;
        }
        let mut new = self.clone();
        new.change(first, last, |old| set.of(old, false));
        let Some(offset) = offset.filter(|_| matches!(set, Set::Ro | Set::Rw | Set::Rox)) else {
            return Some(new);
        };
        let mut stretches: Vec<(u64, u64)> = Vec::new();
        for (a, b, to) in pieces {
            match stretches.last_mut() {
                Some(before) if before.1 + 1 == to.pa => before.1 += b - a + 1,
                _ => stretches.push((to.pa, to.pa + (b - a))),
            }
        }
        for (a, b) in stretches {
            let (first, last) = (a.wrapping_add(offset), b.wrapping_add(offset));
            match self.within(first, last).1 {
                0 => {}
                bytes if bytes == b - a + 1 => new.change(first, last, |old| set.of(old, true)),
                _ => return None,
            }
        }
        Some(new)
    }
}
