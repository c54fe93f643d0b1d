//! The pure functions, with any arguments at all: none panics, none wraps around. What cannot be expressed is an error
//! or the largest value. (Tests are built with overflow checks.)

use std::ops::ControlFlow::{self, Continue};

use linmap::host::HostMemory;
use linmap::{
    AddressSpace, Attributes, Bounded, Change, Checks, Descriptor, Entry, EntryUpdate, Geometry, Granule,
    Half, Layout, Leaf, LeafSize, Leaves, Level, MarkedRange, MemoryType, OaFormat, Pa, Policy, RangePages,
    ReadTables, Region, Rodata, Run, Scope, Slot, Stats, TableLimits, Tlbi, Tree, Va,
};
use test_support::geometries;
use test_support::prelude::*;

/// Any number, and those at which something begins or ends more often.
fn number() -> impl Strategy<Value = u64> {
    let near_power =
        (0u32..64, 0u64..5).prop_map(|(bit, more)| (1u64 << bit).wrapping_add(more).wrapping_sub(2));
    let high = (0u32..64).prop_map(|bit| u64::MAX << bit);
    prop_oneof![any::<u64>(), near_power, high, Just(0), Just(u64::MAX)]
}

fn level() -> impl Strategy<Value = Level> {
    any::<i8>().prop_map(Level::new).boxed().prop_union((-1i8..=3).prop_map(Level::new).boxed())
}

fn attributes() -> impl Strategy<Value = Attributes> {
    number().prop_map(Attributes::from_bits_retain)
}

fn run() -> impl Strategy<Value = Run> {
    (number(), number(), level(), any::<bool>(), number(), attributes()).prop_map(
        |(va, oa, level, contiguous, descriptors, attributes)| Run {
            va: Va(va),
            oa: Pa(oa),
            level,
            contiguous,
            descriptors,
            attributes,
        },
    )
}

fn leaf() -> impl Strategy<Value = Leaf> {
    (number(), attributes(), any::<bool>(), any::<bool>())
        .prop_map(|(oa, attributes, contiguous, valid)| Leaf { oa: Pa(oa), attributes, contiguous, valid })
}

fn at_most_max(n: u128) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Tables that all are the same one, full of one descriptor.
struct Same(Descriptor);

impl ReadTables for Same {
    type Error = std::convert::Infallible;

    fn entry(&self, _: Slot, _: Level) -> Result<Descriptor, Self::Error> {
        Ok(self.0)
    }
}

#[test]
fn every_number_names_a_level() {
    for number in i8::MIN..=i8::MAX {
        let level = Level::new(number);
        assert_eq!(level.number(), number.clamp(-1, 3));
        assert!(level.ordinal() < Level::COUNT && level.next() >= level);
        for g in geometries() {
            let shift = g.level_shift(level);
            assert_eq!(shift, g.page_shift() + (3 - level.number()) as u32 * g.index_bits());
            assert_eq!(g.level_size(level), 1u64.checked_shl(shift).unwrap_or(u64::MAX));
            assert!(g.entries(level) >= g.contiguous_entries(level), "{g:?} {level:?}");
            assert!(!g.may_be_leaf(level) || level >= g.root());
        }
    }
}

#[test]
fn every_va_size_is_one_or_an_error() {
    for granule in Granule::ALL {
        for format in [OaFormat::Bits48, OaFormat::Lpa, OaFormat::Lpa2] {
            for bits in (0..200).chain([u32::MAX, u32::MAX - 1, 1 << 31]) {
                let made = Geometry::new(granule, bits, format);
                assert!(made.is_err() || (36..=52).contains(&bits), "{granule} {bits} {format:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn an_index_is_one_of_a_table(va in number(), level in level()) {
        for g in geometries() {
            let index = u128::from(va) >> g.level_shift(level) & (g.entries(level) as u128 - 1);
            prop_assert_eq!(g.index(va, level) as u128, index);
        }
    }

    #[test]
    fn leaf_sizes_of_any_kind(shift: u32, entry_shift: u32, level in level(), contiguous: bool) {
        for (shift, entry_shift) in [(shift, entry_shift), (shift % 80, entry_shift % 80)] {
            let size = LeafSize { level, contiguous, shift, entry_shift };
            prop_assert_eq!(size.bytes(), 1u64.checked_shl(shift).unwrap_or(u64::MAX));
            let times = shift.saturating_sub(entry_shift);
            prop_assert_eq!(size.descriptors(), 1u64.checked_shl(times).unwrap_or(u64::MAX));
        }
    }

    /// The parts of a descriptor come back as far as the format has them, and nothing else with them.
    #[test]
    fn descriptors_of_anything(leaf in leaf(), table in number(), level in level()) {
        for g in geometries() {
            let has = (1u64 << g.oa_bits()) - 1;
            let made = Descriptor::table(Pa(table), g);
            if level != Level::PAGE {
                prop_assert_eq!(made.decode(g, level), Entry::Table(Pa(table & has & !(g.page_size() - 1))));
                prop_assert!(TableLimits::of(made).is_empty());
            }
            match Descriptor::leaf(leaf, g, level).decode(g, level) {
                Entry::Leaf(read) => {
                    prop_assert!(g.may_be_leaf(level));
                    prop_assert_eq!(read.oa.0, leaf.oa.0 & has & !(g.level_size(level) - 1));
                    prop_assert_eq!((read.valid, read.contiguous), (leaf.valid, leaf.contiguous));
                    prop_assert!(Attributes::all().contains(read.attributes));
                }
                Entry::Reserved => prop_assert!(leaf.valid && !g.may_be_leaf(level)),
                Entry::Hole => prop_assert!(!leaf.valid && !g.may_be_leaf(level)),
                Entry::Table(at) => prop_assert!(false, "a table at {at}"),
            }
        }
    }

    #[test]
    fn any_descriptor_becomes_any_other(old in number(), new in number(), level in level()) {
        let limits = TableLimits::of(Descriptor(old));
        let _ = limits.restrict(Attributes::from_bits_retain(new));
        let _ = EntryUpdate { clear: old, set: new, ..EntryUpdate::default() }.of(Descriptor(new));
        for g in geometries() {
            let _ = Descriptor(old).transition(Descriptor(new), g, level);
            let _ = Descriptor(old).decode(g, level);
        }
    }

    #[test]
    fn attributes_of_any_bits(a in attributes(), b in attributes(), index: u8, tagged: bool) {
        let _ = (a.memory_type().name(), a.is_writable(), a.is_executable(), format!("{a:?}"));
        prop_assert!(MemoryType::new(index).index() < 8 && MemoryType::mair(tagged) != 0);
        if let Some(change) = Change::new(a, b) {
            let _ = change.and(change).of(b);
        }
    }

    #[test]
    fn counts_do_not_wrap(counts in prop::collection::vec((level(), any::<bool>(), number()), 0..6), tables in number()) {
        for g in geometries() {
            let mut stats = Stats::EMPTY;
            stats.tables = tables;
            for &(level, contiguous, descriptors) in &counts {
                stats.add_leaves(level, contiguous, descriptors);
            }
            let of = |size: &LeafSize| {
                let same = counts.iter().filter(|c| (c.0, c.1) == (size.level, size.contiguous));
                same.fold(0u64, |sum, c| sum.saturating_add(c.2))
            };
            let sizes = g.leaf_sizes();
            for size in sizes.iter() {
                prop_assert_eq!(stats.descriptors(*size), of(size));
            }
            let bytes: u128 = sizes.iter().map(|s| u128::from(of(s)) << s.entry_shift).sum();
            prop_assert_eq!(stats.bytes(g), at_most_max(bytes));
            prop_assert_eq!(stats.table_bytes(g), at_most_max(u128::from(tables) * u128::from(g.page_size())));
            let entries: u128 = sizes.iter().map(|s| u128::from(of(s) / s.descriptors())).sum();
            prop_assert_eq!(stats.tlb_entries(g), at_most_max(entries));
            stats.add_entry(Level::PAGE, Entry::Table(Pa(0)));
            prop_assert_eq!(stats.tables, tables.saturating_add(1));
        }
    }

    /// However long a run is said to be, its tables are no more than those of the half.
    #[test]
    fn runs_of_any_length_are_counted(runs in prop::collection::vec(run(), 0..4)) {
        for g in geometries() {
            let stats = Stats::of_runs(g, runs.iter().copied());
            for size in g.leaf_sizes().iter() {
                let same = runs.iter().filter(|r| (r.level, r.contiguous) == (size.level, size.contiguous));
                prop_assert_eq!(stats.descriptors(*size), same.fold(0u64, |sum, r| sum.saturating_add(r.descriptors)));
            }
            let levels = (g.root().number() + 1..=3).map(|n| 1u64 << (g.va_bits() - g.level_shift(Level::new(n - 1))));
            prop_assert!(stats.tables <= 1 + runs.len() as u64 * levels.sum::<u64>(), "{g:?}: {}", stats.tables);
        }
    }

    /// The leaves of a region lie within it, and none goes on at address 0.
    #[test]
    fn regions_end_with_the_addresses(va in number(), oa in number(), bytes in number(), pages: bool) {
        for g in geometries() {
            let leaves = if pages { Leaves::Pages } else { Leaves::Largest };
            let region = Region { va: Va(va), oa: Pa(oa), bytes, attributes: Attributes::RAM, leaves };
            let (mut next, mut sum) = (u128::from(va), 0);
            for (n, run) in region.runs(g).enumerate() {
                prop_assert!(n < 40, "{g:?}");
                let of_run = u128::from(run.descriptors) << g.level_shift(run.level);
                prop_assert_eq!(u128::from(run.va.0), next);
                prop_assert_eq!(u128::from(run.oa.0) - u128::from(oa), next - u128::from(va));
                prop_assert!(next + of_run <= 1 << 64 && u128::from(run.oa.0) + of_run <= 1 << 64);
                (next, sum) = (next + of_run, sum + of_run);
            }
            prop_assert!(sum <= bytes.into());
        }
    }

    #[test]
    fn layouts_of_any_ranges(ends in prop::collection::vec((number(), number()), 0..5), image in (number(), number()), at in number()) {
        let range = |&(from, to): &(u64, u64)| Pa(from)..Pa(to);
        for g in geometries() {
            for carve_outs in [0, 1] {
                let mut ram: Vec<_> = ends.iter().map(range).collect();
                let mut carve_outs: Vec<_> = ends.iter().take(carve_outs).map(range).collect();
                let image = if at & 1 == 0 { Pa(0)..Pa(0) } else { range(&image) };
                let Ok(layout) = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full) else { continue };
                let _ = (layout.va(Pa(at)), layout.unaligned_bytes());
                let stats = Stats::of_runs(g, layout.runs(Leaves::Largest));
                let whole: u128 = layout.ram().iter().map(|r| u128::from(r.end.0 - r.start.0)).sum();
                prop_assert_eq!(u128::from(stats.bytes(g)) + u128::from(layout.dropped_bytes()), whole, "{:?}", g);
            }
        }
    }

    #[test]
    fn invalidations_of_any_range(first in number(), pages in number(), entry_shift: u32, range_tlbi: bool) {
        if let Some(pages) = RangePages::at_most(pages) {
            for g in geometries() {
                let _ = Tlbi::Range { from: Va(first), pages, scope: Scope::AnyLevel }.encode(g);
            }
        }
        for g in geometries() {
            let cover = Tlbi::cover(g, Va(first), pages, entry_shift, Scope::LastLevel, range_tlbi);
            let ops: Vec<_> = cover.take(1000).collect();
            prop_assert!(ops.len() <= Tlbi::BREAK_EVEN);
            for op in ops {
                let _ = op.encode(g);
            }
        }
    }

    /// Walks, dumps and checks of any range, of tables that all are the same.
    #[test]
    fn walks_of_any_range(first in number(), last in number(), descriptor in number(), root in number()) {
        for g in geometries().into_iter().filter(|g| [36, 48, 52].contains(&g.va_bits())) {
            let (same, range) = (Same(Descriptor(descriptor)), (Va(first), Va(last)));
            let few = Bounded::new(&same, 1 << 10);
            let _ = linmap::count(&few, g, Pa(root), range);
            let few = Bounded::new(&same, 1 << 10);
            let _ = linmap::visit(&few, g, Pa(root), range, |_| Continue(()));
            let few = Bounded::new(&same, 1 << 10);
            let region = MarkedRange { range, start: "here", end: "there" };
            let _ = linmap::dump(&few, g, Pa(root), region, &mut String::new());
            for half in [Half::Lower, Half::Upper] {
                let few = Bounded::new(&same, 1 << 10);
                let found = linmap::check(&few, g, (Pa(root), half), &Checks::default(), |_| ControlFlow::Break(()));
                let _ = found;
            }
        }
    }

    /// Trees of any runs are built or refused, and all that was taken goes back.
    #[test]
    fn trees_of_any_runs(runs in prop::collection::vec(run(), 0..3), lower: bool) {
        for g in geometries().into_iter().filter(|g| [36, 48, 52].contains(&g.va_bits())) {
            let memory = HostMemory::new(g, 8);
            let half = if lower { Half::Lower } else { Half::Upper };
            let aligned = runs.iter().map(|r| Run { va: Va(r.va.0 & !(g.level_size(r.level) - 1)), ..*r });
            for runs in [runs.clone(), aligned.collect()] {
                if let Ok(tree) = Tree::build(&memory, g, half, runs.into_iter()) {
                    tree.discard(&memory);
                }
                prop_assert_eq!(memory.in_use(), 0);
            }
        }
    }

    /// Changes of any range of pages are refused, or do what they say.
    #[test]
    fn changes_of_any_range(va in number(), pages in number(), oa in number(), attributes in attributes(), last in number()) {
        for g in geometries().into_iter().filter(|g| [36, 48, 52].contains(&g.va_bits())) {
            let memory = HostMemory::new(g, 12);
            let platform = memory.platform();
            let space = AddressSpace::adopt(Tree::build(&memory, g, Half::Upper, std::iter::empty()).unwrap());
            space.set_policy(Policy::Live);
            let page = !(g.page_size() - 1);
            for (va, oa) in [(Va(va), Pa(oa)), (Va(va & page), Pa(oa & page))] {
                for pages in [pages, 1] {
                    // SAFETY: no CPU uses these tables.
                    unsafe {
                        let _ = space.map(&platform, va, pages, oa, attributes);
                        let _ = space.protect(&platform, va, pages, Change::READ_ONLY);
                        let _ = space.set_valid(&platform, va, pages, false);
                        let _ = space.unmap_all(&platform, &[(va, pages), (va, pages)]);
                        let _ = space.unmap(&platform, va, pages);
                    }
                    let _ = space.split_to_pages(&platform, va, pages);
                    let _ = space.collapse(&platform, va, pages);
                }
                let _ = (space.entry(&platform, va), space.repaint(&platform, (va, Va(last)), &[]));
            }
        }
    }
}
