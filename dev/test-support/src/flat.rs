//! A map without tables: a list of ranges, which says for every page what it maps to.
//!
//! Tests change it beside a map in tables, and compare the two. It knows nothing of the library's types, so that tests
//! of another copy of the library can use it too.

/// The mapping of an address, with attributes `A`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mapped<A> {
    /// The physical address.
    pub pa: u64,
    /// The attributes.
    pub attributes: A,
    /// False if the mapping is present-invalid.
    pub valid: bool,
}

impl<A: Copy> Mapped<A> {
    /// Returns the mapping of the address that lies `bytes` further.
    #[must_use]
    pub fn at(self, bytes: u64) -> Self {
        Self { pa: self.pa + bytes, ..self }
    }
}

/// Consecutive addresses with consecutive mappings: the first address, the last one, and the mapping of the first.
pub type Piece<A> = (u64, u64, Mapped<A>);

/// The mapping of each address: pieces in address order, none of which goes on in the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Flat<A>(Vec<Piece<A>>);

/// An empty map.
impl<A> Default for Flat<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A: Copy + PartialEq> Flat<A> {
    /// All that is mapped.
    pub fn pieces(&self) -> &[Piece<A>] {
        &self.0
    }

    /// Adds the piece that comes next in address order.
    pub fn push(&mut self, (first, last, to): Piece<A>) {
        match self.0.last_mut() {
            Some(before) if before.1.wrapping_add(1) == first && before.2.at(first - before.0) == to => {
                before.1 = last;
            }
            _ => self.0.push((first, last, to)),
        }
    }

    /// Returns the pieces of a range and the holes between them.
    pub fn within(&self, first: u64, last: u64) -> Vec<(u64, u64, Option<Mapped<A>>)> {
        let mut found = Vec::new();
        let mut at = Some(first);
        for &(start, end, to) in self.0.iter().filter(|p| p.0 <= last && first <= p.1) {
            let Some(from) = at else { break };
            if from < start {
                found.push((from, start - 1, None));
            }
            let from = from.max(start);
            found.push((from, end.min(last), Some(to.at(from - start))));
            at = end.checked_add(1).filter(|&next| next <= last);
        }
        found.extend(at.map(|from| (from, last, None)));
        found
    }

    /// Returns the map that has another mapping, or none, for each piece and each hole of a range: what `to` makes of
    /// its first address and of the mapping there.
    #[must_use]
    pub fn with(
        &self,
        first: u64,
        last: u64,
        to: impl Fn(u64, Option<Mapped<A>>) -> Option<Mapped<A>>,
    ) -> Self {
        let mut new = Self::default();
        let all = |a: u64, b: u64| if a <= b { self.within(a, b) } else { Vec::new() };
        let before = first.checked_sub(1).map_or(Vec::new(), |end| all(0, end));
        let after = last.checked_add(1).map_or(Vec::new(), |next| all(next, u64::MAX));
        let changed = all(first, last).into_iter().map(|(a, b, old)| (a, b, to(a, old)));
        for (a, b, to) in before.into_iter().chain(changed).chain(after) {
            if let Some(to) = to {
                new.push((a, b, to));
            }
        }
        new
    }
}
