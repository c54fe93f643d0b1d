//! A look-up of one address agrees with a walk of everything, at every geometry.

use std::cell::Cell;
use std::ops::ControlFlow::Continue;

use crate::dirty_memory::dirty_memory;
use linmap::arch::{Descriptor, Entry, Level, TableLimits};
use linmap::host::{HostMemory, NoHardware};
use linmap::{
    Attributes, Change, Combined, Frame, Geometry, Granule, Half, Memory, Pa, Policy, SharedSpace, Slot,
    Tree, Va,
};
use test_support::geometries;

/// Some pages, a run, a leaf of each size, with holes around them.
fn space(g: Geometry, memory: &linmap::host::HostMemory) -> SharedSpace {
    let none = std::iter::empty();
    let space = SharedSpace::adopt(Tree::build(memory, g, Half::Upper, none).expect("a root"));
    space.set_policy(Policy::Live);
    let (mut va, platform) = (g.base(Half::Upper), memory.platform());
    for size in g.leaf_sizes().iter().filter(|size| size.bytes() < 1 << 31) {
        va = va.next_multiple_of(size.bytes()) + size.bytes();
        let pages = size.bytes() / g.page_size();
        let oa = Pa(va & ((1 << 47) - 1));
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).map(Va(va), pages, oa, Attributes::RAM) }.expect("a hole");
        if pages > 1 {
            // SAFETY: as above.
            unsafe { space.on(&platform).protect(Va(va + g.page_size()), 1, Change::READ_ONLY) }
                .expect("mapped");
        }
        va += size.bytes();
    }
    space
}

#[test]
fn one_address_is_looked_up_as_by_a_walk() {
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let (space, platform) = (space(g, &memory), memory.platform());
        let mut entries = Vec::new();
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        let _ = space.on(&platform).read(|reader| {
            reader.visit(all, |&linmap::read::Visited { va, level, entry, .. }| {
                entries.push((va, level, entry));
                Continue(())
            })
        });
        let leaves = entries.iter().filter(|(_, _, entry)| !matches!(entry, Entry::Table(_)));
        for &(va, level, entry) in leaves {
            for at in [va.0, va.0 + 1, va.0 + (g.level_size(level) - 1)] {
                assert_eq!(
                    space.on(&platform).read(|reader| reader.entry(Va(at))),
                    Some((va, level, entry)),
                    "{g:?} {at:#x}"
                );
                let memory = match entry {
                    Entry::Leaf(leaf) if leaf.valid => Some(Pa(leaf.oa.0 + (at - va.0))),
                    _ => None,
                };
                assert_eq!(
                    space.on(&platform).read(|reader| reader.translate(Va(at))),
                    memory,
                    "{g:?} {at:#x}"
                );
            }
        }
        for va in [Va(0), Va(u64::MAX >> 1), Va(g.base(Half::Upper) - 1)] {
            assert_eq!(space.on(&platform).read(|reader| reader.entry(va)), None, "{g:?} {va:?}");
            assert_eq!(space.on(&platform).read(|reader| reader.translate(va)), None, "{g:?} {va:?}");
        }
    }
}

/// Whatever an entry has in its two lowest bits, at any level: a look-up finds memory where the entry is a valid leaf, and
/// nowhere else.
#[test]
fn a_look_up_finds_valid_leaves_and_nothing_else() {
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let (space, platform) = (space(g, &memory), memory.platform());
        let mut slots = Vec::new();
        let _ = space.on(&platform).read(|reader| {
            reader.visit((Va(g.base(Half::Upper)), Va(u64::MAX)), |visited| {
                slots.push((visited.va, visited.slot, visited.level));
                Continue(())
            })
        });
        for (va, slot, level) in slots {
            // SAFETY: a live table, and no CPU uses it.
            let before = unsafe { memory.load(slot) };
            for bits in 0..4 {
                let is_table = bits == 3 && level != Level::PAGE;
                if is_table && matches!(before.decode(g, level), Entry::Leaf(_) | Entry::Hole) {
                    continue;
                }
                // SAFETY: as above. It points to a table if it did before.
                unsafe { memory.store(slot, Descriptor(before.0 & !3 | bits)) };
                let at = Va(va.0 + g.page_size() / 2);
                let expected = match space
                    .on(&platform)
                    .read(|reader| reader.entry(at))
                    .expect("an address of the half")
                {
                    (va, _, Entry::Leaf(leaf)) if leaf.valid => Some(Pa(leaf.oa.0 + (at.0 - va.0))),
                    _ => None,
                };
                assert_eq!(
                    space.on(&platform).read(|reader| reader.translate(at)),
                    expected,
                    "{g:?} {level:?} {bits}"
                );
            }
            // SAFETY: as above.
            unsafe { memory.store(slot, before) };
        }
    }
}

/// The tables of one memory are not read through another one, which has no look-up either.
#[test]
fn a_look_up_refuses_the_tables_of_another_memory() {
    for g in geometries() {
        let (memory, other) = (dirty_memory(g, 64), dirty_memory(g, 64));
        let space = space(g, &memory);
        let by_other =
            || space.on(&other.platform()).read(|reader| reader.translate(Va(g.base(Half::Upper))));
        let refused = std::panic::catch_unwind(std::panic::AssertUnwindSafe(by_other));
        assert!(refused.is_err(), "{g:?}: {refused:?}");
    }
}

/// Leaves that continue each other are those of a walk, each once; so are they where a series is broken, by memory, by
/// permissions, by validity, where the format moves address bits, and where the range begins or ends within one.
#[test]
fn a_series_has_the_leaves_of_a_walk() {
    let mut most = 0;
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let (space, platform) = (space(g, &memory), memory.platform());
        // A table of pages that jump now and then, over the address at which formats move bits.
        let (page, start) = (g.page_size(), g.base(Half::Upper) + (1 << (g.va_bits() - 1)));
        let moves = match (g.granule(), g.oa_bits()) {
            (Granule::K64, 52) => 48,
            (_, 52) => 50,
            (_, bits) => bits - 1,
        };
        let mut oa = (1u64 << moves) - 40 * page;
        for n in 0..200u64 {
            let va = Va(start + n * page);
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).map(va, 1, Pa(oa), Attributes::RAM) }.expect("a hole");
            oa += if n % 23 == 7 { 2 * page } else { page };
            if n % 61 == 50 {
                // SAFETY: as above.
                unsafe { space.on(&platform).set_valid(va, 1, false) }.expect("mapped");
            }
        }
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        let within = (Va(start + 9 * page + 1), Va(start + 150 * page));
        for range in [all, within] {
            let (mut walked, mut series) = (Vec::new(), Vec::new());
            let _ = space.on(&platform).read(|reader| {
                reader.visit(range, |visited| {
                    if let Entry::Leaf(leaf) = visited.entry {
                        walked.push((visited.va, visited.level, visited.slot, visited.limits, leaf));
                    }
                    Continue(())
                })
            });
            let _ = space.on(&platform).read(|reader| {
                reader.visit_series(range, |visited, entries| {
                    let Entry::Leaf(leaf) = visited.entry else { panic!("{g:?}: {visited:?} is no leaf") };
                    most = most.max(entries);
                    for n in 0..entries {
                        let at = n * g.level_size(visited.level);
                        let slot = Slot { index: visited.slot.index + n as usize, ..visited.slot };
                        let leaf = linmap::arch::Leaf { oa: Pa(leaf.oa.0 + at), ..leaf };
                        series.push((Va(visited.va.0 + at), visited.level, slot, visited.limits, leaf));
                    }
                    Continue(())
                })
            });
            assert!(walked == series, "{g:?} {range:?}: {} and {} leaves", walked.len(), series.len());
        }
    }
    assert!(most >= 16, "at most {most} leaves came together");
}

/// A memory in which another CPU makes a hole of an entry right after it was loaded.
struct Fickle<'m> {
    memory: &'m HostMemory,
    slot: Slot,
    loads: Cell<u32>,
}

// SAFETY: the memory below does it all. Only the loads of one slot differ, as if another CPU had stored a hole there.
unsafe impl Memory for Fickle<'_> {
    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.memory.take()
    }

    fn give(&self, frame: Frame) {
        self.memory.give(frame);
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        if slot == self.slot && self.loads.replace(self.loads.get() + 1) > 0 {
            return Descriptor(0);
        }
        // SAFETY: the caller's promise.
        unsafe { self.memory.load(slot) }
    }
}

/// Every series has at least one leaf, even if that leaf goes away while the series is read.
#[test]
fn a_series_has_the_leaf_that_it_begins_with() {
    for g in geometries() {
        let memory = dirty_memory(g, 64);
        let (space, platform) = (space(g, &memory), memory.platform());
        let (start, page) = (g.base(Half::Upper) + (1 << (g.va_bits() - 1)), g.page_size());
        // Not adjacent in memory, so that each is a series.
        for n in 0..20 {
            let (va, pa) = (Va(start + n * page), Pa(2 * n * page));
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(&platform).map(va, 1, pa, Attributes::RAM) }.expect("a hole");
        }
        let range = (Va(start), Va(start + 20 * page - 1));
        let mut slots = Vec::new();
        let _ = space.on(&platform).read(|reader| {
            reader.visit(range, |visited| {
                slots.extend((visited.level == Level::PAGE).then_some(visited.slot));
                Continue(())
            })
        });
        for slot in slots {
            let hardware = NoHardware::default();
            let fickle = Fickle { memory: &memory, slot, loads: Cell::new(0) };
            // SAFETY: nothing locks these tables.
            let platform = unsafe { Combined::new(&fickle, &hardware) };
            let mut leaves = 0;
            let _ = space.on(&platform).read(|reader| {
                reader.visit_series(range, |visited, entries| {
                    leaves += entries;
                    assert!(entries > 0, "{g:?}: {visited:?}");
                    Continue(())
                })
            });
            // The one that goes away may have been looked at before, as what could continue another.
            assert!((19..=20).contains(&leaves), "{g:?} {slot:?}: {leaves}");
        }
    }
}

/// Entries below a restricted table are found as well.
#[test]
fn restrictions_do_not_end_the_search() {
    for g in geometries().into_iter().filter(|g| g.root() != Level::PAGE) {
        let memory = dirty_memory(g, 64);
        let (space, platform) = (space(g, &memory), memory.platform());
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        let mut first = None;
        let _ = space.on(&platform).read(|reader| {
            reader.visit(all, |&linmap::read::Visited { va, level, entry, .. }| {
                if let Entry::Leaf(_) = entry {
                    first.get_or_insert((va, level, entry));
                }
                Continue(())
            })
        });
        let (va, level, entry) = first.expect("something is mapped");
        let slot = Slot { table: space.root(), index: 0 };
        // SAFETY: the root is live, and no CPU uses it.
        unsafe {
            let table = memory.load(slot);
            memory.store(slot, Descriptor(table.0 | TableLimits::READ_ONLY.bits()));
        }
        assert_eq!(space.on(&platform).read(|reader| reader.entry(va)), Some((va, level, entry)), "{g:?}");
    }
}
