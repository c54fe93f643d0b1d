//! Bits that the library does not own come through every operation as they were: every bit of a leaf that is neither its
//! address nor its size, and the restrictions of tables. A permission is what the leaf and the tables above it say.

use std::ops::ControlFlow::Continue;

use crate::raw::{load, store};
use linmap::arch::{Descriptor, Entry, Leaf, Level, TableAttributes, TableLimits};
use linmap::host::HostMemory;
use linmap::{Attributes, Change, Geometry, Half, OaFormat, Pa, Policy, SharedSpace, Slot, Tree, Va};
use test_support::{Random, each, geometries};

/// A page: its mapping, and what the tables above it take away. A hole has no mapping.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Page {
    leaf: Option<Leaf>,
    limits: TableLimits,
}

impl Page {
    /// Returns what a walker makes of it.
    fn effective(self) -> Option<Leaf> {
        self.leaf.map(|leaf| Leaf { attributes: self.limits.restrict(leaf.attributes), ..leaf })
    }
}

/// A map in random pieces, with random bits.
struct World {
    g: Geometry,
    memory: HostMemory,
    space: SharedSpace,
    random: Random,
    /// The first address, and the number of pages.
    va: u64,
    count: u64,
    history: Vec<String>,
}

impl World {
    fn new(g: Geometry, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let memory = HostMemory::new(g, 400);
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("one page");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        space.allow_write_execute(true);
        let own = TableAttributes::from_bits_truncate(random.bits());
        space.set_table_attributes(own);
        // In two tables of pages, so that a whole one can collapse.
        let (va, count) = (g.base(Half::Upper), 3 << g.index_bits());
        let mut world = Self { g, memory, space, random, va, count, history: vec![format!("{g:?} {own:?}")] };
        (0..10).for_each(|_| world.refill());
        world
    }

    fn attributes(&mut self) -> Attributes {
        let any = Attributes::from_bits_truncate(self.random.bits()) - Attributes::TAKEN_OUT;
        if self.g.oa_format() == OaFormat::Lpa2 { any - Attributes::INNER_SHAREABLE } else { any }
    }

    /// Returns some pages: whole tables of them, a few, or any.
    fn range(&mut self) -> (u64, u64) {
        let first = self.random.below(self.count);
        let any = 1 + self.random.below(self.count - first);
        match self.random.below(3) {
            0 => {
                let table = 1 << self.g.index_bits();
                let first = first & !(table - 1);
                (first, table * (1 + self.random.below((self.count - first) / table)))
            }
            1 => (first, any.min(1 + self.random.below(20))),
            _ => (first, any),
        }
    }

    /// Returns a change of permissions; half of them of software bits alone. Some leaves are not global afterwards.
    fn change(&mut self) -> Change {
        let software = self.random.below(2) == 0;
        let mut bits = || {
            let any = Attributes::from_bits_truncate(self.random.bits() & self.random.bits());
            let of = |wanted| any & wanted;
            if software { of(Attributes::SOFTWARE) } else { of(permissions()) }
        };
        let (set, clear) = (bits(), bits());
        let change = Change::new(set, clear - set).expect("permissions only");
        if self.random.one_in(8) { change.and(Change::NOT_GLOBAL) } else { change }
    }

    fn at(&self, page: u64) -> Va {
        Va(self.va + page * self.g.page_size())
    }

    /// Returns all pages.
    fn pages(&self) -> Vec<Page> {
        let (g, mut pages) = (self.g, vec![]);
        let _ = self.space.on(&self.memory.platform()).read(|reader| {
            reader.visit((self.at(0), self.at(self.count - 1)), |seen| {
                let first = seen.va.0.max(self.va);
                let last = (seen.va.0 + (g.level_size(seen.level) - 1)).min(self.at(self.count).0 - 1);
                let leaf = |va: u64| match seen.entry {
                    Entry::Leaf(leaf) => {
                        Some(Leaf { oa: Pa(leaf.oa.0 + (va - seen.va.0)), contiguous: false, ..leaf })
                    }
                    _ => None,
                };
                if !matches!(seen.entry, Entry::Table(_)) {
                    let of = |va| Page { leaf: leaf(va), limits: seen.limits };
                    pages.extend((first..=last).step_by(g.page_size() as usize).map(of));
                }
                Continue(())
            })
        });
        assert_eq!(pages.len() as u64, self.count);
        pages
    }

    /// Returns the tables below the root: the slots that point to them, and their restrictions.
    fn tables(&self) -> Vec<(Slot, Pa, TableLimits)> {
        let (g, mut tables, mut at) = (self.g, vec![], 0);
        let mut next = vec![(self.space.root(), self.g.root())];
        while let Some(&(table, level)) = next.get(at) {
            at += 1;
            for index in (0..g.entries(level)).filter(|_| level != Level::PAGE) {
                let slot = Slot { table, index };
                let entry = load(&self.memory, slot);
                if let Entry::Table(below) = entry.decode(g, level) {
                    next.push((below, level.next()));
                    tables.push((slot, below, TableLimits::of(entry)));
                }
            }
        }
        tables
    }

    /// Changes the restrictions of some table, as the kernel might that has made it.
    fn restrict(&mut self) {
        let tables = self.tables();
        if tables.is_empty() {
            return;
        }
        let (slot, table, now) = tables[self.random.below(tables.len() as u64) as usize];
        let limits = TableLimits::from_bits_truncate(self.random.bits() & self.random.bits());
        let entry = load(&self.memory, slot).0 & !now.bits();
        store(&self.memory, slot, Descriptor(entry | limits.bits()));
        self.history.push(format!("restrict {table} {limits:?}"));
    }

    fn map(&mut self, first: u64, count: u64) {
        let (attributes, platform) = (self.attributes(), self.memory.platform());
        let large = self.g.level_size(Level::new(1)).max(1 << 30);
        let oa = Pa((large & ((1 << self.g.oa_bits()) - 1)) + first * self.g.page_size());
        self.history.push(format!("map {first}+{count} {attributes:?}"));
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&platform).map(self.at(first), count, oa, attributes) }.expect("a hole");
    }

    /// Does something, and compares all that is not its own.
    fn step(&mut self) {
        let (first, count) = self.range();
        let (before, old) = (self.pages(), self.tables());
        let part = first as usize..(first + count) as usize;
        let mapped = before[part.clone()].iter().all(|page| page.leaf.is_some());
        let (va, what, change) = (self.at(first), self.random.below(9), self.change());
        let (valid, platform) = (self.random.below(2) == 0, self.memory.platform());
        let mut expected: Vec<_> = before.iter().map(|page| page.leaf).collect();
        self.history.push(format!("{what} {first}+{count}"));
        // SAFETY: no CPU uses these tables.
        let done = unsafe {
            match what {
                0 | 1 => {
                    self.history.push(format!("{change:?}"));
                    let new = |leaf: &mut Leaf| leaf.attributes = change.of(leaf.attributes);
                    expected[part].iter_mut().flatten().for_each(new);
                    self.space.on(&platform).protect(va, count, change)
                }
                2 => {
                    expected[part].iter_mut().flatten().for_each(|leaf| leaf.valid = valid);
                    self.space.on(&platform).set_valid(va, count, valid)
                }
                3 => {
                    expected[part].fill(None);
                    self.space.on(&platform).unmap(va, count)
                }
                4 => self.space.on(&platform).split_to_pages(va, count),
                5 => self.space.on(&platform).collapse(va, count),
                6 => {
                    let range = (Va(self.g.base(Half::Upper)), Va(u64::MAX));
                    let repainted = self.space.on(&platform).repaint(range, &[]);
                    assert!(repainted.is_ok(), "{repainted:?}");
                    self.space.set_policy(Policy::Live);
                    Ok(())
                }
                _ => {
                    self.restrict();
                    return;
                }
            }
        };
        if matches!(what, 0..=4) && !mapped {
            assert!(done.is_err(), "{done:?}");
            expected = before.iter().map(|page| page.leaf).collect();
        } else {
            assert_eq!(done, Ok(()));
        }
        let after = self.pages();
        let leaves: Vec<_> = after.iter().map(|page| page.leaf).collect();
        assert_eq!(leaves, expected);
        for ((after, before), leaf) in after.iter().zip(&before).zip(expected) {
            let wanted = Page { leaf, limits: before.limits };
            assert_eq!(after.effective(), wanted.effective(), "{before:?} {after:?}");
        }
        // Tables that stay keep their restrictions.
        let new = self.tables();
        for (_, table, limits) in old.iter().filter(|_| what != 6) {
            let now = new.iter().find(|now| now.1 == *table);
            assert!(now.is_none_or(|now| now.2 == *limits), "{table}: {limits:?}, {now:?}");
        }
        self.refill();
    }

    /// Maps holes again.
    fn refill(&mut self) {
        let before = self.pages();
        let Some(first) = before.iter().position(|page| page.leaf.is_none()) else { return };
        let holes = before[first..].iter().take_while(|page| page.leaf.is_none()).count();
        if self.random.below(3) == 0 {
            self.map(first as u64, holes as u64);
            // What the new tables take away, they take away from nothing.
            for (after, before) in self.pages().into_iter().zip(before) {
                assert_eq!(after.effective(), Page { leaf: after.leaf, ..before }.effective());
            }
        }
    }
}

fn permissions() -> Attributes {
    let of_el0 = Attributes::USER | Attributes::UXN | Attributes::GUARDED;
    Attributes::READ_ONLY | Attributes::DIRTY_MANAGED | Attributes::PXN | of_el0 | Attributes::SOFTWARE
}

/// Prints what was done if a check fails.
struct History<'w>(&'w mut World);

impl Drop for History<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.history.iter().for_each(|line| eprintln!("  {line}"));
        }
    }
}

#[test]
fn every_operation_keeps_what_it_does_not_own() {
    each(1, |seed| {
        for g in geometries() {
            let mut world = World::new(g, seed);
            let history = History(&mut world);
            for _ in 0..40 {
                history.0.step();
            }
        }
    });
}
