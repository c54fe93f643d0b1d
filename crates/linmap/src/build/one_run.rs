//! A tree of one run whose leaves are in one table: what boot code maps first, such as some gigabytes one to one.
//!
//! The general builder (`builder.rs`) looks for the next part after each, and for the size of each leaf. Here each table has one
//! entry or one series: it is cleared and written, from the last level up. Hardly anything else is stored, as that would wait for
//! the tables.

use crate::build::fill::Fills;
use crate::build::give_back::give_back;
use crate::build::in_order::Part;
use crate::format::{Descriptor, Geometry, Level, in_place_bits};
use crate::platform::{Frame, Memory};

/// Builds the tables of a part. Returns the root and the number of leaves, or `None` if they are not in one table or are in
/// contiguous runs, or if there are too few pages. All that were taken have been given back.
pub(super) fn one_part<M: Memory>(memory: &M, geometry: Geometry, part: Part) -> Option<(Frame, usize)> {
    let Part { offset, oa, bytes, attributes, first_leaf: mut level, in_runs } = part;
    let mut shift = geometry.level_shift(level);
    // The descriptors differ in bits alone that the format keeps in place.
    let apart = (offset ^ (offset + (bytes - 1))) >> (shift + geometry.index_bits())
        | (oa ^ (oa + (bytes - 1))) >> in_place_bits(geometry.oa_format());
    if in_runs || apart != 0 {
        return None;
    }
    let leaves = (bytes >> shift) as usize;
    let mut root = memory.take()?;
    clear(memory, geometry, &mut root, (level, shift), offset, |slots| {
        let block = Descriptor::block_less_oa(oa, attributes, geometry.oa_format()).wrapping_add(oa);
        let first = Descriptor::leaf_of_block(block, level, false);
        Fills::of(memory).some(&mut slots[..leaves], first.0, 1 << shift);
    });
    while level != geometry.root() {
        let Some(mut above) = memory.take() else {
            give_back(memory, geometry, level, root, &mut |_, _| {});
            return None;
        };
        (level, shift) = (level.above(), shift + geometry.index_bits());
        let link = Descriptor::link(root.into_pa(), geometry);
        clear(memory, geometry, &mut above, (level, shift), offset, |slots| slots[0] = link.0);
        root = above;
    }
    Some((root, leaves))
}

/// Clears a table whose entries span 2^`shift` bytes, and calls `write` with its slots from the one on that translates `offset`,
/// relative to the base of the half.
#[inline(always)]
fn clear<M: Memory>(
    memory: &M,
    geometry: Geometry,
    table: &mut Frame,
    (level, shift): (Level, u32),
    offset: u64,
    write: impl FnOnce(&mut [u64]),
) {
    memory.with_slots(table, level, |slots| {
        let slots = &mut slots[..1 << geometry.index_bits().min(geometry.va_bits() - shift)];
        Fills::of(memory).holes(slots);
        write(&mut slots[(offset >> shift) as usize & ((1 << geometry.index_bits()) - 1)..]);
    });
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::ops::Range;
    use std::vec::Vec;

    use super::*;
    use crate::build::in_order::RunsInOrder;
    use crate::build::{BuildError, Tree};
    use crate::format::{Attributes, Half, Pa, Va};
    use crate::plan::Run;
    use crate::platform::host::HostMemory;
    use crate::tests::geometries;
    use test_support::{Random, each, is_one};

    /// The entries of all tables, from the root down, with the used slots and the counts of the tree.
    type Built = Result<(Vec<(i8, usize, u64)>, Range<usize>, std::string::String), BuildError>;

    /// Builds a run with so many pages, which hold something before, and gives all of them back.
    fn built(g: Geometry, half: Half, pages: usize, runs: impl Iterator<Item = Run>) -> Built {
        let memory = HostMemory::new(g, pages);
        let mut all: Vec<_> = (0..pages).map_while(|_| memory.take()).collect();
        all.iter_mut().for_each(|frame| memory.slots(frame).fill(0xdead));
        all.into_iter().for_each(|frame| memory.give(frame));
        let built = Tree::build(&memory, g, half, runs).map(|mut tree| {
            let said = std::format!("{:?} {:?}", tree.stats(), tree.write_execute());
            let used = tree.used();
            let mut entries = Vec::new();
            let root = tree.with_root_entries(&memory, |slots| slots.to_vec());
            add(&memory, g, g.root(), &root, &mut entries);
            tree.discard(&memory);
            (entries, used, said)
        });
        assert_eq!(memory.in_use(), 0);
        built
    }

    /// Adds the entries of a page that are not holes, also those behind the table: those that point to tables without their
    /// address.
    fn add(memory: &HostMemory, g: Geometry, level: Level, slots: &[u64], to: &mut Vec<(i8, usize, u64)>) {
        for (index, &bits) in slots.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let entry = Descriptor(bits);
            if index >= g.entries(level) || !entry.is_table(level) {
                to.push((level.number(), index, bits));
                continue;
            }
            let below = entry.next_table(g);
            to.push((level.number(), index, bits ^ Descriptor::link(below, g).0));
            // SAFETY: the table of a tree that nobody else uses, for as long as its entries are copied.
            let mut frame = unsafe { Frame::from_pa(below) };
            let slots = memory.slots(&mut frame).to_vec();
            add(memory, g, level.next(), &slots, to);
        }
    }

    /// Returns a run of any kind, mostly possible.
    fn run(random: &mut Random, g: Geometry, half: Half) -> Run {
        let level = Level::new(random.below(4) as i8);
        let shift = g.level_shift(level);
        let entries = 1 << g.index_bits();
        let descriptors = match random.below(6) {
            0 => random.below(3 * entries),
            1 => entries,
            2 => random.bits() >> random.below(64),
            _ => 1 + random.below(8),
        };
        let skewed = if random.one_in(8) { 1 << random.below(48) } else { 0 };
        let base = if random.one_in(16) { random.bits() } else { g.base(half) };
        let offset = (random.bits() % (1 << g.va_bits())) >> shift << shift;
        let oa_bits = if random.one_in(8) { 63 } else { g.oa_bits() };
        let oa = (random.bits() % (1 << oa_bits)) >> shift << shift;
        let attributes = [Attributes::RAM, Attributes::KERNEL_TEXT, Attributes::empty()][random.index(3)];
        Run {
            va: Va(base.wrapping_add(offset) ^ if random.one_in(2) { skewed } else { 0 }),
            oa: Pa(oa ^ if random.one_in(2) { skewed } else { 0 }),
            level,
            contiguous: random.one_in(8),
            descriptors,
            attributes,
        }
    }

    /// A run that comes alone is built as one whose number nobody knows.
    #[test]
    fn one_run_is_built_as_any() {
        let mut alone = 0;
        each(200, |seed| {
            let mut random = Random::new(seed);
            for g in geometries() {
                let half = if random.one_in(2) { Half::Upper } else { Half::Lower };
                let run = run(&mut random, g, half);
                let pages = random.index(8);
                if run.descriptors >> g.index_bits() > 4 && run.level.number() < 3 {
                    continue;
                }
                let mut any = Some(run);
                let expected = built(g, half, pages, std::iter::from_fn(|| any.take()));
                assert_eq!(
                    built(g, half, pages, std::iter::once(run)),
                    expected,
                    "{g:?} {half:?} {pages} {run:?}"
                );
                let memory = HostMemory::new(g, 8);
                let part = RunsInOrder::new(core::iter::empty::<Run>(), g, half).check(run);
                if let Some((root, _)) = part.ok().and_then(|part| one_part(&memory, g, part)) {
                    alone += 1;
                    give_back(&memory, g, g.root(), root, &mut |_, _| {});
                }
            }
        });
        assert!(is_one() || alone > 1000, "{alone} runs came alone");
    }
}
