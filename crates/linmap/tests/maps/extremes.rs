//! The pure functions, with any arguments at all: none panics, none wraps around. What cannot be expressed is an error
//! or the largest value. (Tests are built with overflow checks.)

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow::{self, Continue};

use linmap::arch::{
    Descriptor, Entry, Leaf, LeafSize, Level, RangePages, Scope, TableLimits, Tlbi, Transition,
};
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::layout::Run;
use linmap::read::{Bounded, BoundedError, Checks, MarkedRange, ReadTables};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, Layout, Leaves, MemoryType, OaFormat, Pa, Policy, Region,
    Rodata, SharedSpace, Slot, Stats, Tree, Va,
};
use test_support::prelude::*;
use test_support::{geometries, is_one, property, some_geometries};

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

    /// Restrictions take away permissions and nothing else (table D8-64).
    #[test]
    fn any_table_restricts_any_leaf(table in number(), a in attributes()) {
        let restricted = TableLimits::of(Descriptor(table)).restrict(a);
        let has = |bit: u32| table >> bit & 1 == 1;
        prop_assert_eq!(restricted.contains(Attributes::PXN), a.contains(Attributes::PXN) || has(59));
        prop_assert_eq!(restricted.contains(Attributes::UXN), a.contains(Attributes::UXN) || has(60));
        prop_assert_eq!(restricted.contains(Attributes::USER), a.contains(Attributes::USER) && !has(61));
        prop_assert_eq!(restricted.is_writable(), a.is_writable() && !has(62));
        let write = if has(62) { Attributes::READ_ONLY | Attributes::DIRTY_MANAGED } else { Attributes::empty() };
        let may_differ = Attributes::PXN | Attributes::UXN | Attributes::USER | write;
        prop_assert_eq!((restricted ^ a).bits() & !may_differ.bits(), 0);
    }

    /// To any other descriptor, and to those that differ in one bit.
    #[test]
    fn any_descriptor_becomes_any_other(old in number(), new in number(), level in level()) {
        for g in geometries() {
            for old in [old, old | 1] {
                for new in (0..64).map(|bit| old ^ 1 << bit).chain([old, new, new | 1]) {
                    let (old, new) = (Descriptor(old), Descriptor(new));
                    prop_assert_eq!(old.transition(new, g, level), steps(old, new, g, level), "{:?} {:x?} {:x?}", g, old, new);
                }
            }
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
}

/// The steps from one descriptor to another (D8.17.1, D8.17.2), by the fields of the descriptors.
fn steps(old: Descriptor, new: Descriptor, g: Geometry, level: Level) -> Transition {
    match (old.0 & 1 == 1, new.0 & 1 == 1) {
        _ if old == new => return Transition::Same,
        (false, _) => return Transition::Fresh,
        (true, false) => return Transition::Tlbi,
        (true, true) => {}
    }
    let restricts_alike = old.0 >> 59 == new.0 >> 59;
    let (old, new) = match (old.decode(g, level), new.decode(g, level)) {
        (Entry::Leaf(old), Entry::Leaf(new)) => (old, new),
        (Entry::Reserved, _) => return Transition::Fresh,
        (_, Entry::Reserved) => return Transition::BreakBeforeMake,
        (Entry::Table(old), Entry::Table(new)) if old != new => return Transition::BreakBeforeMake,
        (Entry::Table(_), Entry::Table(_)) if restricts_alike => return Transition::Tlbi,
        (Entry::Table(_), Entry::Table(_)) => return Transition::BreakBeforeMake,
        _ => return Transition::Resize,
    };
    // Normal memory with and without tags may replace one another in place.
    let is_normal = |a: Attributes| {
        let index = a.memory_type().index();
        [MemoryType::NORMAL.index(), MemoryType::NORMAL_TAGGED.index()].contains(&index)
    };
    let both_normal = is_normal(old.attributes) && is_normal(new.attributes);
    let same_type = old.attributes.memory_type() == new.attributes.memory_type();
    let has = |leaf: Leaf, bit: u32| leaf.attributes.bits() >> bit & 1 == 1;
    let shareability = [8, 9].iter().all(|&bit| has(old, bit) == has(new, bit));
    let becomes_global = has(old, 11) && !has(new, 11);
    // NS is a part of the output address (D8.17.1 IWZRHR).
    let same_oa = old.oa == new.oa && has(old, 5) == has(new, 5);
    if !same_oa || !(same_type || both_normal) || !shareability || becomes_global {
        return Transition::BreakBeforeMake;
    }
    match (old.contiguous == new.contiguous, old.attributes == new.attributes) {
        (true, _) => Transition::Tlbi,
        (false, true) => Transition::Resize,
        (false, false) => Transition::BreakBeforeMake,
    }
}

/// Layouts of any ranges are made or refused; what is made maps or drops each byte.
#[test]
fn layouts_of_any_ranges() {
    let (made, refused) = (Cell::new(0), Cell::new(0));
    let range = || (number(), number());
    let arguments = (prop::collection::vec(range(), 0..5), range(), number());
    property(ProptestConfig::default(), arguments, |(ends, image, at)| {
        let range = |&(from, to): &(u64, u64)| Pa(from)..Pa(to);
        for g in geometries() {
            for carve_outs in [0, 1] {
                let mut ram: Vec<_> = ends.iter().map(range).collect();
                let mut carve_outs: Vec<_> = ends.iter().take(carve_outs).map(range).collect();
                let image = if at & 1 == 0 { Pa(0)..Pa(0) } else { range(&image) };
                let Ok(layout) = Layout::new(g, &mut ram, &mut carve_outs, image, Rodata::Full) else {
                    refused.set(refused.get() + 1);
                    continue;
                };
                made.set(made.get() + 1);
                let is_mapped = layout.ram().iter().any(|r| r.contains(&Pa(at)));
                prop_assert!(
                    layout.va(Pa(at)).is_none_or(|va| is_mapped && va.0 == at.wrapping_add(layout.offset()))
                );
                let stats = Stats::of_runs(g, layout.runs(Leaves::Largest));
                let whole: u128 = layout.ram().iter().map(|r| u128::from(r.end.0 - r.start.0)).sum();
                prop_assert_eq!(
                    u128::from(stats.bytes(g)) + u128::from(layout.dropped_bytes()),
                    whole,
                    "{:?}",
                    g
                );
                let given: u128 = ends.iter().map(|&(from, to)| u128::from(to.saturating_sub(from))).sum();
                prop_assert_eq!(whole + u128::from(layout.unaligned_bytes()), given, "{:?}", g);
            }
        }
        Ok(())
    });
    let (made, refused) = (made.get(), refused.get());
    assert!(made > 300 && refused > 300 || is_one(), "{made} made, {refused} refused");
}

/// Walks, dumps and checks of any range, of tables that all are the same: in order, inside the range, and whole.
#[test]
fn walks_of_any_range() {
    let ends = (number(), prop_oneof![number(), number().prop_map(|n| n >> 28)]);
    let arguments = (prop::sample::select(geometries()), ends, number(), number());
    let (walked, cut) = (Cell::new(0), Cell::new(0));
    property(ProptestConfig::with_cases(1000), arguments, |(g, (first, bytes), descriptor, root)| {
        let same = Same(Descriptor(descriptor));
        for (first, last) in [(first, bytes), (first, first.saturating_add(bytes))] {
            let range = (Va(first), Va(last));
            let base = if first >> 63 == 0 { 0 } else { g.base(Half::Upper) };
            let (from, to) = (first.max(base), last.min(base + ((1 << g.va_bits()) - 1)));
            let (mut stats, mut before, mut next) = (Stats::ROOT, None, u128::from(from));
            let few = Bounded::new(&same, 1 << 14);
            let result = linmap::read::visit(&few, g, Pa(root), range, |visited| {
                let (va, level) = (visited.va.0, visited.level);
                let end = va + (g.level_size(level) - 1);
                assert!(va <= to && from <= end, "{g:?}: {visited:?} is outside {from:#x} to {to:#x}");
                assert!(
                    before.is_none_or(|before| before < (va, level)),
                    "{g:?}: {visited:?} after {before:?}"
                );
                before = Some((va, level));
                assert_eq!(visited.slot.index, g.index(va, level));
                stats.add_entry(level, visited.entry);
                if !matches!(visited.entry, Entry::Table(_)) {
                    assert_eq!(u128::from(va.max(from)), next, "{g:?}: {visited:?}");
                    next = u128::from(end.min(to)) + 1;
                }
                Continue(())
            });
            let whole = match result {
                Ok(end) => {
                    assert_eq!(end, Continue(()));
                    assert_eq!(next, u128::from(from).max(u128::from(to) + 1), "{g:?}: not whole");
                    true
                }
                Err(why) => {
                    assert_eq!(why, BoundedError::Limit);
                    assert!(next <= u128::from(to));
                    false
                }
            };
            let counter = if whole { &walked } else { &cut };
            counter.set(counter.get() + u32::from(from <= to));
            let counted = linmap::read::count(&Bounded::new(&same, 1 << 14), g, Pa(root), range);
            assert_eq!(counted, if whole { Ok(stats) } else { Err(BoundedError::Limit) });
            let region = MarkedRange { range, start: "here", end: "there" };
            let mut text = String::new();
            let dumped = linmap::read::dump(&Bounded::new(&same, 1 << 14), g, Pa(root), region, &mut text);
            assert_eq!(dumped.ok(), counted.ok());
        }
        for half in [Half::Lower, Half::Upper] {
            let few = Bounded::new(&same, 1 << 10);
            let mut found = 0;
            let result = linmap::read::check(&few, g, (Pa(root), half), &Checks::default(), |_| {
                found += 1;
                ControlFlow::Break(())
            });
            match result {
                Ok(ControlFlow::Break(())) => assert_eq!(found, 1),
                Ok(Continue(())) | Err(BoundedError::Limit) => assert_eq!(found, 0),
            }
        }
        Ok(())
    });
    let (walked, cut) = (walked.get(), cut.get());
    assert!(walked > 300 && cut > 30 || is_one(), "{walked} walks were whole, {cut} were cut");
}

/// Trees of any runs are built or refused, and all that was taken goes back.
#[test]
fn trees_of_any_runs() {
    let (built, refused) = (Cell::new(0), Cell::new(0));
    let arguments = (prop::collection::vec(run(), 1..3), any::<bool>());
    property(ProptestConfig::default(), arguments, |(runs, lower)| {
        for g in some_geometries(6) {
            let memory = HostMemory::new(g, 8);
            let half = if lower { Half::Lower } else { Half::Upper };
            let align = |r: &Run| Run { va: Va(r.va.0 & !(g.level_size(r.level) - 1)), ..*r };
            // In the half and the physical addresses, and of a few descriptors.
            let near = |r: &Run| {
                let level = r.level.max(Level::new(2));
                let start = !(g.level_size(level) - 1) & ((1 << g.va_bits()) - 1);
                let oa = Pa(r.oa.0 & start & ((1 << g.oa_bits()) - 1) & !(g.level_size(level) - 1));
                let va = Va(g.base(half) | r.va.0 & start);
                Run { va, oa, level, contiguous: false, descriptors: r.descriptors % 3 + 1, ..*r }
            };
            let near = runs.iter().take(1).map(near).collect::<Vec<_>>();
            for runs in [runs.clone(), runs.iter().map(align).collect(), near] {
                let result = Tree::build(&memory, g, half, runs.iter().copied());
                let count = if result.is_ok() { &built } else { &refused };
                count.set(count.get() + 1);
                if let Ok(tree) = result {
                    let planned = Stats::of_runs(g, runs.iter().copied());
                    prop_assert_eq!(tree.stats(), planned);
                    prop_assert_eq!(memory.in_use() as u64, planned.tables);
                    tree.discard(&memory);
                }
                prop_assert_eq!(memory.in_use(), 0);
            }
        }
        Ok(())
    });
    let (built, refused) = (built.get(), refused.get());
    assert!(built > 1000 && refused > 1000 || is_one(), "{built} built, {refused} refused");
}

type Mapped = test_support::Mapped<Attributes>;
type Flat = test_support::Flat<Attributes>;

/// A change of a range of pages.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Map(Pa, Attributes),
    Protect(Change),
    SetValid(bool),
    Split,
    Collapse,
    Unmap,
    UnmapAll,
}

impl Step {
    fn run(self, space: &SharedSpace, memory: &HostMemory, va: Va, pages: u64) -> Result<(), ChangeError> {
        let platform = memory.platform();
        // SAFETY: no CPU uses these tables.
        unsafe {
            match self {
                Self::Map(oa, attributes) => space.on(&platform).map(va, pages, oa, attributes),
                Self::Protect(change) => space.on(&platform).protect(va, pages, change),
                Self::SetValid(valid) => space.on(&platform).set_valid(va, pages, valid),
                Self::Split => space.on(&platform).split_to_pages(va, pages),
                Self::Collapse => space.on(&platform).collapse(va, pages),
                Self::Unmap => space.on(&platform).unmap(va, pages),
                Self::UnmapAll => space.on(&platform).unmap_all(&[(va, pages), (va, pages)]),
            }
        }
    }

    /// Returns the map after the step, or `None` if it must be refused.
    fn of(self, flat: &Flat, g: Geometry, va: Va, pages: u64) -> Option<Flat> {
        let (base, page) = (g.base(Half::Upper), u128::from(g.page_size()));
        let (first, bytes) = (u128::from(va.0), u128::from(pages) * page);
        if first % page != 0 || va.0 < base || first + bytes > 1 << 64 {
            return None;
        }
        let (first, last) = (va.0, u64::try_from(first + bytes - 1).ok()?);
        let old = flat.within(first, last);
        let is_refused = |m: Mapped| m.valid && m.attributes.is_writable() && m.attributes.is_executable();
        let of = |at: u64, old: Option<Mapped>| match self {
            Self::Map(oa, attributes) => {
                let gone = if g.oa_format() == OaFormat::Lpa2 {
                    Attributes::INNER_SHAREABLE
                } else {
                    Attributes::empty()
                };
                let attributes = Attributes::from_bits_truncate(attributes.bits()) - gone;
                Some(Mapped { pa: oa.0 + (at - first), attributes, valid: true })
            }
            Self::Protect(change) => old.map(|m| Mapped { attributes: change.of(m.attributes), ..m }),
            Self::SetValid(valid) => old.map(|m| Mapped { valid, ..m }),
            Self::Split | Self::Collapse => old,
            Self::Unmap | Self::UnmapAll => None,
        };
        let is_possible = match self {
            Self::Map(oa, _) => {
                let fits = u128::from(oa.0) + bytes <= 1 << g.oa_bits() && u128::from(oa.0) % page == 0;
                fits && old.iter().all(|p| p.2.is_none())
            }
            Self::Collapse => true,
            _ => old.iter().all(|p| p.2.is_some()),
        };
        let changes = !matches!(self, Self::Split | Self::Collapse);
        let new = || flat.with(first, last, of);
        let has_refused = || changes && old.iter().filter_map(|p| of(p.0, p.2)).any(is_refused);
        (is_possible && !has_refused()).then(new)
    }
}

/// The mapping of each page.
fn flat(space: &SharedSpace, memory: &HostMemory) -> Flat {
    let g = space.geometry();
    let mut flat = Flat::default();
    let walked = space.on(&memory.platform()).read(|reader| {
        reader.visit((Va(g.base(Half::Upper)), Va(u64::MAX)), |visited| {
            if let Entry::Leaf(Leaf { oa, attributes, valid, .. }) = visited.entry {
                let (first, last) = (visited.va.0, visited.va.0 + (g.level_size(visited.level) - 1));
                flat.push((first, last, Mapped { pa: oa.0, attributes, valid }));
            }
            Continue(())
        })
    });
    assert_eq!(walked, Continue(()));
    flat
}

/// Changes of any range of pages are refused and change nothing, or do what they say to it and nothing elsewhere.
#[test]
fn changes_of_any_range() {
    let any_range = (number(), prop_oneof![number(), 1..2000u64], number());
    let attributes = attributes().prop_map(|a| a - Attributes::TAKEN_OUT);
    let arguments = (prop::sample::select(geometries()), any_range, attributes, number());
    let done = RefCell::new(BTreeMap::new());
    property(ProptestConfig::default(), arguments, |(g, (va, pages, oa), attributes, last)| {
        let memory = HostMemory::new(g, 12);
        let space = SharedSpace::adopt(Tree::build(&memory, g, Half::Upper, std::iter::empty()).unwrap());
        space.set_policy(Policy::Live);
        let page = !(g.page_size() - 1);
        let near = (Va((va | g.base(Half::Upper)) & page), Pa(oa & page & ((1 << g.oa_bits()) - 1)));
        let mut before = flat(&space, &memory);
        for (va, oa) in [(Va(va), Pa(oa)), (Va(va & page), Pa(oa & page)), near] {
            for pages in [pages, 1] {
                let steps = [
                    Step::Map(oa, attributes),
                    Step::Map(oa, Attributes::RAM),
                    Step::Protect(Change::EXECUTABLE),
                    Step::Protect(Change::READ_ONLY.and(Change::EXECUTABLE)),
                    Step::Protect(Change::WRITABLE),
                    Step::SetValid(false),
                    Step::Split,
                    Step::Collapse,
                    if last & 1 == 0 { Step::UnmapAll } else { Step::Unmap },
                ];
                for step in steps {
                    let expected = if pages == 0 { None } else { step.of(&before, g, va, pages) };
                    let result = step.run(&space, &memory, va, pages);
                    let what = format!("{g:?}: {step:?} of {pages} pages from {va}: {result:?}");
                    let now = flat(&space, &memory);
                    match (result, expected) {
                        (Ok(()), Some(expected)) => {
                            prop_assert_eq!(&now, &expected, "{}", what);
                            let name = format!("{step:?}").split('(').next().unwrap_or_default().to_string();
                            *done.borrow_mut().entry(name).or_insert(0) += 1;
                        }
                        (Ok(()), None) => prop_assert!(pages == 0 && now == before, "{}", what),
                        (Err(_), None) => prop_assert_eq!(&now, &before, "{}", what),
                        (Err(why), Some(_)) => {
                            let no_pages = matches!(why, ChangeError::OutOfFrames { .. });
                            let in_part =
                                step == Step::UnmapAll && matches!(why, ChangeError::NeedsResize { .. });
                            prop_assert!(no_pages || in_part, "{}", what);
                            prop_assert_eq!(&now, &before, "{}", what);
                        }
                    }
                    before = now;
                }
            }
            let entry = space
                .on(&memory.platform())
                .read(|reader| reader.entry(va))
                .map(|(va, _, entry)| (va, matches!(entry, Entry::Leaf(_))));
            let mapped = before.within(va.0, va.0)[0].2.is_some();
            prop_assert_eq!(entry.map(|e| e.1), (va.0 >= g.base(Half::Upper)).then_some(mapped));
            prop_assert!(entry.is_none_or(|e| e.0 <= va));
            let _ = space.on(&memory.platform()).repaint((va, Va(last)), &[]);
            prop_assert_eq!(&flat(&space, &memory), &before);
        }
        Ok(())
    });
    let done = done.into_inner();
    assert!(done.len() == 7 && done.values().all(|&n| n > 50) || is_one(), "{done:?}");
}
