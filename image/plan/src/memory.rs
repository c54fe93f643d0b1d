//! RAM as a device tree has it: memory nodes, reservations, and memory that must not be mapped.

use core::ops::Range;

use dtoolkit::fdt::{Fdt, FdtNode};
use dtoolkit::{Node, Property};
use linmap::Pa;

use crate::device_tree::{cells, each_reg, in_use};
use crate::note::{Defect, Note, Subject};
use crate::ranges::{Full, Lost, Ranges};

/// Returns RAM as in the memory nodes, overlaps merged. If there are too many ranges, keeps the longest.
pub(crate) fn memory(root: FdtNode<'_>, lost: &mut Lost, note: &mut dyn FnMut(Note<'_>)) -> Ranges {
    let mut ram = Ranges::new();
    let is_memory = |n: &FdtNode<'_>| {
        n.property("device_type").is_some_and(|p| p.value_as::<&str>().is_ok_and(|t| t == "memory"))
    };
    for node in root.children().filter(is_memory) {
        if !in_use(node, Subject::Memory, note) {
            continue;
        }
        each_reg(node, cells(root), Subject::Memory, note, |start, size, note| {
            let Some(end) = start.checked_add(size) else {
                return note(of_memory(node.name(), Defect::BeyondAddresses { start, size }));
            };
            let range = Pa(start)..Pa(end);
            if ram.add(range.clone()) == Ok(true) {
                note(Note::MemoryOverlaps(range));
            } else {
                lost.count(ram.add_or_lose(range));
            }
        });
    }
    ram
}

/// Returns the reserved parts of RAM, and those that must not be mapped, which it removes from RAM.
pub(crate) fn reservations(
    tree: Fdt<'_>,
    ram: &mut Ranges,
    lost: &mut Lost,
    note: &mut dyn FnMut(Note<'_>),
) -> Result<(Ranges, Ranges), Full> {
    let (mut reserved, mut no_map) = (Ranges::new(), Ranges::new());
    for entry in tree.memory_reservations() {
        add_ram(ram, &mut reserved, &reservation("/memreserve/", entry.address(), entry.size(), note))?;
    }
    let Some(parent) = tree.find_node("/reserved-memory") else { return Ok((reserved, no_map)) };
    // Its cells should be there and be the same as those of the root.
    let own = parent.property("#address-cells").is_some() && parent.property("#size-cells").is_some();
    let cells = cells(if own { parent } else { tree.root() });
    let mut full = Ok(());
    for node in parent.children() {
        if !in_use(node, Subject::Memory, note) {
            continue;
        }
        let hidden = node.property("no-map").is_some();
        each_reg(node, cells, Subject::Memory, note, |start, size, note| {
            let range = reservation(node.name(), start, size, note);
            let done = if hidden {
                add_ram(ram, &mut no_map, &range).map(|()| lost.count(ram.remove_or_lose(&range)))
            } else {
                add_ram(ram, &mut reserved, &range)
            };
            full = full.and(done);
        });
    }
    full.map(|()| (reserved, no_map))
}

/// Makes a note of a node that describes or reserves memory.
const fn of_memory<'a>(name: &'a str, defect: Defect<'a>) -> Note<'a> {
    Note::Node { subject: Subject::Memory, name, defect }
}

/// Returns a reserved range, cut at the last address: memory that a loader reserves is never used.
fn reservation(name: &str, start: u64, size: u64, note: &mut dyn FnMut(Note<'_>)) -> Range<Pa> {
    let end = start.checked_add(size).unwrap_or_else(|| {
        note(of_memory(name, Defect::CutAtLastAddress { start, size }));
        u64::MAX
    });
    Pa(start)..Pa(end)
}

/// Adds the parts of a range that are RAM.
fn add_ram(ram: &Ranges, to: &mut Ranges, range: &Range<Pa>) -> Result<(), Full> {
    for r in ram.as_slice() {
        to.add(r.start.max(range.start)..r.end.min(range.end))?;
    }
    Ok(())
}
