//! What every page maps to, as a list of ranges: the library's results are judged by it.

use linmap::{Attributes, Entry, Geometry, Leaf, LeafSize, Level, OaFormat, Pa, Stats, Va};
use linmap_model::{Expected, Mapping};

/// What an address maps to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapped {
    pub(crate) pa: u64,
    pub(crate) attributes: Attributes,
    pub(crate) valid: bool,
}

impl Mapped {
    pub(crate) fn at(self, bytes: u64) -> Self {
        Self { pa: self.pa + bytes, ..self }
    }

    /// As tables keep it: some formats have no room for all attributes.
    pub(crate) fn kept(mut self, g: Geometry) -> Self {
        if g.oa_format() == OaFormat::Lpa2 {
            self.attributes -= Attributes::INNER_SHAREABLE;
        }
        self
    }
}

/// Consecutive addresses with consecutive mappings: first address, last one, what the first maps to.
pub(crate) type Piece = (u64, u64, Mapped);

/// Pieces in address order, none of which goes on in the next.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Flat(pub(crate) Vec<Piece>);

impl Flat {
    /// Adds what comes next in address order.
    pub(crate) fn push(&mut self, (first, last, to): Piece) {
        match self.0.last_mut() {
            Some(before) if before.1.wrapping_add(1) == first && before.2.at(first - before.0) == to => {
                before.1 = last;
            }
            _ => self.0.push((first, last, to)),
        }
    }

    /// The pieces of a range and the holes between them.
    pub(crate) fn within(&self, first: u64, last: u64) -> Vec<(u64, u64, Option<Mapped>)> {
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

    /// The same with another mapping, or none, for each piece of a range.
    pub(crate) fn with(
        &self,
        first: u64,
        last: u64,
        to: impl Fn(u64, Option<Mapped>) -> Option<Mapped>,
    ) -> Self {
        let mut new = Self::default();
        let all = |a: u64, b: u64| if a <= b { self.within(a, b) } else { Vec::new() };
        let before = if first == 0 { Vec::new() } else { all(0, first - 1) };
        let behind = last.checked_add(1).map_or(Vec::new(), |next| all(next, u64::MAX));
        let changed = all(first, last).into_iter().map(|(a, b, old)| (a, b, to(a, old)));
        for (a, b, to) in before.into_iter().chain(changed).chain(behind) {
            if let Some(to) = to {
                new.push((a, b, to));
            }
        }
        new
    }

    /// A range, as the model is told of it.
    pub(crate) fn changes(&self, first: u64, last: u64) -> Vec<Expected> {
        let mapping = |m: Mapped| Mapping { valid: m.valid, ..Mapping::new(Pa(m.pa), m.attributes) };
        let change =
            |(a, b, to): (u64, u64, Option<Mapped>)| Expected::new(Va(a), b - a + 1, to.map(mapping));
        self.within(first, last).into_iter().map(change).collect()
    }

    /// The sizes of leaves that an address could be in, largest first.
    pub(crate) fn fitting(&self, va: u64, g: Geometry) -> Vec<LeafSize> {
        let Some(&(first, last, to)) = self.0.iter().find(|p| p.0 <= va && va <= p.1) else {
            return Vec::new();
        };
        let fits = |size: &&LeafSize| {
            let start = va & !(size.bytes() - 1);
            let within = first <= start && start + (size.bytes() - 1) <= last;
            within && (start - first + to.pa) & (size.bytes() - 1) == 0
        };
        g.leaf_sizes().iter().filter(fits).copied().collect()
    }

    /// What it is made of in the fewest leaves.
    pub(crate) fn fewest(&self, g: Geometry) -> Stats {
        let mut stats = Stats::ROOT;
        let mut tables = std::collections::BTreeSet::new();
        for &(first, last, _) in &self.0 {
            let mut va = first;
            loop {
                let size = self.fitting(va, g)[0];
                stats.add_leaves(size.level, size.contiguous, size.descriptors());
                let above = (g.root().number()..size.level.number()).map(Level::new);
                tables.extend(above.map(|level| (level, va >> g.level_shift(level))));
                let end = va + (size.bytes() - 1);
                if end >= last {
                    break;
                }
                va = end + 1;
            }
        }
        stats.tables += tables.len() as u64;
        stats
    }
}

/// A leaf descriptor where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) va: u64,
    pub(crate) level: Level,
    pub(crate) leaf: Leaf,
}

/// What a walk comes across: leaf descriptors, and tables with the level of their entries and where they
/// start, the root left out. All in address order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Walked {
    pub(crate) leaves: Vec<Seen>,
    tables: Vec<(Level, u64)>,
}

impl Walked {
    pub(crate) fn add(&mut self, va: Va, level: Level, entry: Entry) {
        match entry {
            Entry::Hole => {}
            Entry::Leaf(leaf) => self.leaves.push(Seen { va: va.0, level, leaf }),
            Entry::Table(_) => self.tables.push((level.next(), va.0)),
            Entry::Reserved => panic!("a reserved entry at {va}, level {}", level.number()),
        }
    }

    /// Puts what a walk of a range came across in the place of what was known of it.
    pub(crate) fn renew(&mut self, (first, last): (u64, u64), now: Self, g: Geometry) {
        let from = self.leaves.partition_point(|s| s.last(g) < first);
        let to = self.leaves.partition_point(|s| s.va <= last);
        self.leaves.splice(from..to.max(from), now.leaves);
        self.tables.retain(|&(level, va)| last < va || table_last(level, va, g) < first);
        self.tables.extend(now.tables);
        self.tables.sort_unstable_by_key(|&(level, va)| (va, level));
    }

    pub(crate) fn stats(&self) -> Stats {
        let mut stats = Stats::ROOT;
        stats.tables += self.tables.len() as u64;
        self.leaves.iter().for_each(|s| stats.add_leaves(s.level, s.leaf.contiguous, 1));
        stats
    }

    /// A table without an entry.
    pub(crate) fn empty_table(&self, g: Geometry) -> Option<(Level, u64)> {
        let empty = |&&(level, va): &&(Level, u64)| self.within(va, table_last(level, va, g), g).is_empty();
        self.tables.iter().find(empty).copied()
    }

    /// What it maps.
    pub(crate) fn flat(&self, g: Geometry) -> Flat {
        let mut flat = Flat::default();
        for seen in &self.leaves {
            let Leaf { oa, attributes, valid, .. } = seen.leaf;
            flat.push((seen.va, seen.last(g), Mapped { pa: oa.0, attributes, valid }));
        }
        flat
    }

    /// The leaf descriptors that translate some address of a range.
    pub(crate) fn within(&self, first: u64, last: u64, g: Geometry) -> &[Seen] {
        let from = self.leaves.partition_point(|s| s.last(g) < first);
        let to = self.leaves.partition_point(|s| s.va <= last);
        &self.leaves[from..to.max(from)]
    }
}

/// The last address that a table translates.
fn table_last(level: Level, va: u64, g: Geometry) -> u64 {
    va + ((1 << (g.level_shift(level) + g.index_bits())) - 1)
}

impl Seen {
    pub(crate) fn last(&self, g: Geometry) -> u64 {
        self.va + (g.level_size(self.level) - 1)
    }

    /// The first and last address of the leaf, which is a run if the descriptor is of one.
    pub(crate) fn whole(&self, g: Geometry) -> (u64, u64) {
        let members = if self.leaf.contiguous { g.contiguous_entries(self.level) as u64 } else { 1 };
        let bytes = g.level_size(self.level) * members;
        let first = self.va & !(bytes - 1);
        (first, first + (bytes - 1))
    }
}
