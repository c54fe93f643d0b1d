//! The device tree, and the arguments in it that the boot loader gave the kernel: `/chosen/bootargs`.
//!
//! Linux keeps the tree mapped where it first read it: read-only, in the fixmap, near the top of all addresses. Under
//! ACPI this is the small tree of the EFI stub, which has the arguments as well. Only its header, structure and names
//! are read, about ten KiB.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use linmap::{Attributes, Pa, Va};

use super::memory::Physical;
use super::regime::Regime;
use super::search::each_leaf;
use super::snapshot::Snapshot;

/// The first word of a flattened device tree.
const MAGIC: [u8; 4] = [0xd0, 0x0d, 0xfe, 0xed];
/// Words of its header.
const HEAD: usize = 40;
/// The largest tree that Linux maps, in bytes.
const MAX_TREE: u64 = 2 << 20;
/// The alignment of a tree within the first page of its mapping.
const ALIGNMENT: usize = 8;
const PAGE: usize = 4096;
/// The number of read-only ranges that are searched, from the top down; the tree is in one of the first.
const MAX_RANGES: usize = 16;

/// Physical memory that is mapped in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    va: Va,
    pa: Pa,
    bytes: u64,
}

/// Returns the arguments, if a mapped tree has some.
pub(super) fn find(tables: &Snapshot, regime: Regime, memory: &dyn Physical) -> Option<String> {
    each_tree(tables, regime, memory, |tree| arguments(&tree.read(memory)?))
}

/// Returns the memory of the device tree, if one is mapped.
pub(super) fn place(tables: &Snapshot, regime: Regime, memory: &dyn Physical) -> Option<std::ops::Range<Pa>> {
    each_tree(tables, regime, memory, |tree| Some(tree.at..Pa(tree.at.0.checked_add(tree.total)?)))
}

/// Returns the first answer of `ask` for a tree that is mapped, from the top of all addresses down.
fn each_tree<T>(
    tables: &Snapshot,
    regime: Regime,
    memory: &dyn Physical,
    ask: impl Fn(&Tree) -> Option<T>,
) -> Option<T> {
    let ranges = read_only(tables, regime);
    ranges.iter().rev().take(MAX_RANGES).find_map(|range| ask(&Tree::in_range(*range, memory)?))
}

/// Returns the ranges above the linear map that are mapped read-only and not executable.
fn read_only(tables: &Snapshot, regime: Regime) -> Vec<Range> {
    let mut ranges: Vec<Range> = Vec::new();
    each_leaf(tables, regime, |va, leaf, bytes| {
        if leaf.attributes.is_writable() || !leaf.attributes.contains(Attributes::PXN) {
            return;
        }
        match ranges.last_mut() {
            Some(last) if last.va.0 + last.bytes == va.0 && last.pa.0 + last.bytes == leaf.oa.0 => {
                last.bytes += bytes;
            }
            _ => ranges.push(Range { va, pa: leaf.oa, bytes }),
        }
    });
    ranges
}

/// A flattened device tree in memory.
struct Tree {
    at: Pa,
    /// Its bytes, and those of them that are in use.
    total: u64,
    needed: u64,
}

impl Tree {
    /// Finds the tree at the start of a range.
    fn in_range(range: Range, memory: &dyn Physical) -> Option<Self> {
        let mut page = [0; PAGE];
        memory.read(range.pa, &mut page).ok()?;
        let places = (0..=PAGE - HEAD).step_by(ALIGNMENT);
        let at = places.into_iter().find(|at| page[*at..].starts_with(&MAGIC))?;
        let (total, needed) = sizes(page[at..at + HEAD].as_chunks().0)?;
        let is_inside = at as u64 + needed <= range.bytes;
        is_inside.then_some(Self { at: Pa(range.pa.0 + at as u64), total, needed })
    }

    /// Reads the part that is in use, as a tree that is no longer.
    fn read(&self, memory: &dyn Physical) -> Option<Vec<u8>> {
        let mut tree = vec![0; usize::try_from(self.needed).ok()?];
        memory.read(self.at, &mut tree).ok()?;
        tree.get_mut(4..8)?.copy_from_slice(&u32::try_from(self.needed).ok()?.to_be_bytes());
        Some(tree)
    }
}

/// Returns how many bytes a tree has and how many of them are in use, by its header, or `None` if the header makes no sense.
fn sizes(head: &[[u8; 4]]) -> Option<(u64, u64)> {
    let word = |index: usize| head.get(index).map(|word| u64::from(u32::from_be_bytes(*word)));
    let [total, structure, strings, reserved] = [word(1)?, word(2)?, word(3)?, word(4)?];
    let [strings_bytes, structure_bytes] = [word(8)?, word(9)?];
    let end = (structure + structure_bytes).max(strings + strings_bytes).max(reserved + 16);
    (end <= total && total <= MAX_TREE && structure >= HEAD as u64).then_some((total, end))
}

fn arguments(tree: &[u8]) -> Option<String> {
    let chosen = Fdt::new(tree).ok()?.find_node("/chosen")?;
    let value = chosen.properties().find(|property| property.name() == "bootargs")?;
    Some(value.value_as::<&str>().ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::memory::Unreadable;
    use dtoolkit::model::{DeviceTree, DeviceTreeNode, DeviceTreeProperty};
    use test_support::prelude::*;

    /// Memory from address 0 on.
    #[derive(Debug)]
    struct From(Vec<u8>);

    impl Physical for From {
        fn read(&self, pa: Pa, into: &mut [u8]) -> Result<(), Unreadable> {
            let from = self.0.get(pa.0 as usize..).and_then(|from| from.get(..into.len()));
            into.copy_from_slice(from.ok_or(Unreadable::NoRam(pa))?);
            Ok(())
        }
    }

    fn tree(arguments: &str) -> Vec<u8> {
        let mut tree = DeviceTree::new();
        let mut chosen = DeviceTreeNode::new("chosen").expect("a name");
        let bytes = format!("{arguments}\0").into_bytes();
        chosen.add_property(DeviceTreeProperty::new("bootargs", bytes).expect("a name"));
        tree.root.add_child(chosen);
        tree.to_dtb()
    }

    /// Returns a tree in the first page of a range; its header claims `total` bytes.
    fn mapped(arguments: &str, at: usize, total: usize) -> (Range, From) {
        let mut bytes = vec![0; at];
        bytes.extend(tree(arguments));
        bytes[at + 4..at + 8].copy_from_slice(&(total as u32).to_be_bytes());
        bytes.resize(2 * PAGE, 0xff);
        (Range { va: Va(0), pa: Pa(0), bytes: 2 * PAGE as u64 }, From(bytes))
    }

    fn in_range(range: Range, memory: &From) -> Option<String> {
        arguments(&Tree::in_range(range, memory)?.read(memory)?)
    }

    #[test]
    fn the_arguments_are_read_without_what_follows_them() {
        for (at, total) in [(0, MAX_TREE as usize), (0x108, 4096)] {
            let (range, memory) = mapped("console=ttyAMA0 rodata=on", at, total);
            assert_eq!(in_range(range, &memory).as_deref(), Some("console=ttyAMA0 rodata=on"));
            let found = Tree::in_range(range, &memory).map(|tree| (tree.at, tree.total));
            assert_eq!(found, Some((Pa(at as u64), total as u64)));
        }
        let (range, memory) = mapped("", 0, MAX_TREE as usize + 1);
        assert_eq!(in_range(range, &memory), None);
        assert_eq!(in_range(range, &From(vec![0; 2 * PAGE])), None);
    }

    proptest! {
        #[test]
        fn arguments_read_back_from_any_place_in_the_page(line in "[!-~]([ -~]{0,60}[!-~])?", at in 0..=(PAGE - HEAD) / ALIGNMENT) {
            let (range, memory) = mapped(&format!(" {line} "), at * ALIGNMENT, 4096);
            prop_assert_eq!(in_range(range, &memory), Some(line));
        }

        /// Of a damaged tree, the arguments are text that is in it. The damage is in its 256 first bytes.
        #[test]
        fn arguments_of_a_damaged_tree_are_in_it(damage: Vec<(u8, u8)>, few in 0..3usize) {
            let (range, mut memory) = mapped("a=b", 0, 4096);
            for (at, byte) in damage.into_iter().take(few) {
                memory.0[usize::from(at)] = byte;
            }
            let found = in_range(range, &memory);
            let is_there = |text: &String| memory.0.windows(text.len() + 1).any(|bytes| bytes.starts_with(text.as_bytes()));
            prop_assert!(found.as_ref().is_none_or(is_there), "{:?}", found);
            prop_assert!(few > 0 || found.as_deref() == Some("a=b"));
        }
    }
}
