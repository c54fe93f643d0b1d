//! The mapping of every page, without tables, and the leaves and tables of a walk, which are compared with it.

use linmap::arch::{Entry, Leaf, LeafSize, Level};
use linmap::{Attributes, Geometry, OaFormat, Pa, Stats, Va};
use linmap_model::{Expected, Mapping};

pub(crate) type Mapped = test_support::Mapped<Attributes>;
pub(crate) type Flat = test_support::Flat<Attributes>;

/// The mapping as tables hold it: some formats have no room for all attributes.
pub(crate) fn kept(mapped: Mapped, g: Geometry) -> Mapped {
    let gone =
        if g.oa_format() == OaFormat::Lpa2 { Attributes::INNER_SHAREABLE } else { Attributes::empty() };
    Mapped { attributes: mapped.attributes - gone, ..mapped }
}

/// A range of the map, as the model is told of it.
pub(crate) fn changes(flat: &Flat, (first, last): (u64, u64)) -> Vec<Expected> {
    let mapping = |m: Mapped| Mapping { valid: m.valid, ..Mapping::new(Pa(m.pa), m.attributes) };
    let change = |(a, b, to): (u64, u64, Option<Mapped>)| Expected::new(Va(a), b - a + 1, to.map(mapping));
    flat.within(first, last).into_iter().map(change).collect()
}

/// The sizes of leaves that an address could be in, largest first.
pub(crate) fn fitting(flat: &Flat, va: u64, g: Geometry) -> Vec<LeafSize> {
    let Some(&(first, last, to)) = flat.pieces().iter().find(|p| p.0 <= va && va <= p.1) else {
        return Vec::new();
    };
    let fits = |size: &&LeafSize| {
        let start = va & !(size.bytes() - 1);
        let within = first <= start && start + (size.bytes() - 1) <= last;
        within && (start - first + to.pa) & (size.bytes() - 1) == 0
    };
    g.new_leaf_sizes().iter().filter(fits).copied().collect()
}

/// The counts of the map in the fewest leaves.
pub(crate) fn fewest(flat: &Flat, g: Geometry) -> Stats {
    let mut stats = Stats::ROOT;
    let mut tables = std::collections::BTreeSet::new();
    for &(first, last, _) in flat.pieces() {
        let mut va = first;
        loop {
            let size = fitting(flat, va, g)[0];
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

/// A leaf descriptor where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seen {
    pub(crate) va: u64,
    pub(crate) level: Level,
    pub(crate) leaf: Leaf,
}

/// The results of a walk: leaf descriptors, and tables with the level of their entries and where they
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
            Entry::Leaf(leaf) => {
                // The bit by which an invalid leaf says that a remake took it out is the library's own.
                let attributes = leaf.attributes - Attributes::TAKEN_OUT;
                self.leaves.push(Seen { va: va.0, level, leaf: Leaf { attributes, ..leaf } });
            }
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

    /// Returns the mappings.
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
