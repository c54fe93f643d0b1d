//! The places of the tables and their mappings: one root, one table at level 1, one at level 2, whose slots 0
//! and 1 are watched; below slot 0 a few child tables come and go.

use linmap::Va;
use linmap_model::{Barrier, CpuId, Event, Expected, Mapping, Register, Tlb};

use crate::descriptor::{
    BLOCK, CONTIGUOUS, Leaf, Meaning, NOT_GLOBAL, PAGE, RAM, TABLE_OR_PAGE, VALID, meaning,
};

pub(crate) const BASE: u64 = 0xffff_0000_0000_0000;
pub(crate) const ROOT: u64 = 0x1000_0000;
pub(crate) const L1: u64 = 0x1000_1000;
pub(crate) const L2: u64 = 0x1000_2000;
/// The level 3 table of slot 0, if it has one at first, and those after it.
pub(crate) const CHILD: u64 = 0x1000_3000;
/// The output addresses of the two blocks.
pub(crate) const MEMORY: u64 = 0x4000_0000;

/// The indices of an address at levels 2 and 3.
pub(crate) fn place(va: u64) -> (usize, usize) {
    ((va >> 21 & 511) as usize, (va >> 12 & 511) as usize)
}

/// The address of a page of the first block.
pub(crate) fn page_at(slot: usize) -> u64 {
    BASE + slot as u64 * PAGE
}

/// The first block at the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Layout {
    Hole,
    Block,
    /// 512 pages.
    Pages,
    /// Pages, of which the second is a hole and the third is kept without being valid.
    Holed,
    /// Pages, of which the first 16 are a contiguous run.
    Run,
}

/// The descriptor of the first block's block, and of its pages.
pub(crate) const AS_BLOCK: u64 = MEMORY | RAM | VALID;
pub(crate) fn as_page(slot: usize) -> u64 {
    (MEMORY + slot as u64 * PAGE) | RAM | TABLE_OR_PAGE | VALID
}

/// A descriptor of a page that keeps what it says, not valid any more.
pub(crate) fn kept(descriptor: u64) -> u64 {
    descriptor & !VALID | NOT_GLOBAL
}

pub(crate) fn link(table: u64) -> u64 {
    table | TABLE_OR_PAGE | VALID
}

/// The pages to watch: those of a run if there is one, a few more, and the next block.
pub(crate) fn watched(run: bool) -> Vec<u64> {
    let run = if run { 0..18 } else { 0..3 };
    let mut slots: Vec<_> = run.chain([15, 496, 505, 510, 511, 512, 1023]).collect();
    slots.sort_unstable();
    slots.dedup();
    slots.into_iter().map(page_at).collect()
}

/// Creates the tables, and has all CPUs load them.
pub(crate) fn prologue(layout: Layout, cpus: u8, asid: u64) -> Vec<Event> {
    let table = matches!(layout, Layout::Pages | Layout::Holed | Layout::Run);
    let slot_0 = match layout {
        Layout::Hole => 0,
        Layout::Block => AS_BLOCK,
        _ => link(CHILD),
    };
    let mut events: Vec<_> = [ROOT, L1, L2].map(|table| Event::Alloc { cpu: 0, table }).into();
    events.extend(table.then_some(Event::Alloc { cpu: 0, table: CHILD }));

    let mapping = |va: u64| Mapping { pa: MEMORY + (va - BASE), attributes: RAM, valid: true };
    let range = |va: u64, bytes: u64| Expected::new(Va(va), bytes, Some(mapping(va)));
    let mut changes = match layout {
        Layout::Hole => vec![],
        Layout::Holed => {
            let third = Mapping { valid: false, ..mapping(page_at(2)) };
            let third = Expected { to: Some(third), ..range(page_at(2), PAGE) };
            vec![range(BASE, PAGE), third, range(page_at(3), BLOCK - 3 * PAGE)]
        }
        _ => vec![range(BASE, BLOCK)],
    };
    changes.push(range(BASE + BLOCK, BLOCK));
    events.push(Event::Begin { cpu: 0, root: ROOT, name: "create".into(), changes });

    events.extend([fill(0, ROOT, 0, 512, 0), fill(0, L1, 0, 512, 0), fill(0, L2, 0, 512, 0)]);
    events.extend([write(0, ROOT, 0, link(L1)), write(0, L1, 0, link(L2))]);
    events.extend([write(0, L2, 0, slot_0), write(0, L2, 1, AS_BLOCK + BLOCK)]);
    if table {
        events.push(fill(0, CHILD, as_page(0), 512, PAGE));
    }
    match layout {
        Layout::Holed => events.extend([write(0, CHILD, 1, 0), write(0, CHILD, 2, kept(as_page(2)))]),
        Layout::Run => events.push(fill(0, CHILD, as_page(0) | CONTIGUOUS, 16, PAGE)),
        _ => {}
    }
    events.extend([dsb(0, Barrier::Ishst), isb(0), Event::Done { cpu: 0, ok: true }]);
    for cpu in 0..cpus {
        events.extend((cpu > 0).then_some(Event::Report { cpu }));
        let value = ROOT | asid << 48;
        events.extend([Event::Msr { cpu, register: Register::Ttbr1, value }, isb(cpu)]);
    }
    events
}

// Events in short.

pub(crate) fn write(cpu: CpuId, table: u64, index: usize, value: u64) -> Event {
    Event::Write { cpu, table, index, value, count: 1, step: 0, was: None }
}

/// Stores from a table's first slot on.
pub(crate) fn fill(cpu: CpuId, table: u64, value: u64, count: usize, step: u64) -> Event {
    Event::Write { cpu, table, index: 0, value, count, step, was: None }
}

pub(crate) fn dsb(cpu: CpuId, kind: Barrier) -> Event {
    Event::Dsb { cpu, kind }
}

pub(crate) fn isb(cpu: CpuId) -> Event {
    Event::Isb { cpu }
}

/// By address, with a hint at the level or 0 for none.
pub(crate) fn tlbi(cpu: CpuId, op: Tlb, va: u64, level: u64) -> Event {
    let hint = if level == 0 { 0 } else { 0b0100 | level };
    Event::Tlbi { cpu, op, operand: va >> 12 & ((1 << 44) - 1) | hint << 44 }
}

/// By range, of `2 * pairs` pages.
pub(crate) fn tlbi_range(cpu: CpuId, op: Tlb, va: u64, pairs: u64, level: u64) -> Event {
    let base = va >> 12 & ((1 << 37) - 1);
    Event::Tlbi { cpu, op, operand: 1 << 46 | (pairs - 1) << 39 | level << 37 | base }
}

/// By range, of all pages of a block.
pub(crate) fn tlbi_block(cpu: CpuId, op: Tlb, va: u64) -> Event {
    // 8 times 2^6 pages.
    let base = va >> 12 & ((1 << 37) - 1);
    Event::Tlbi { cpu, op, operand: 1 << 46 | 1 << 44 | 7 << 39 | base }
}

pub(crate) fn tlbi_all(cpu: CpuId, op: Tlb) -> Event {
    Event::Tlbi { cpu, op, operand: 0 }
}

pub(crate) fn begin(cpu: CpuId, name: &str, changes: Vec<Expected>) -> Event {
    Event::Begin { cpu, root: ROOT, name: name.into(), changes }
}

/// The change that gives a range what its first descriptor, at this level, says.
pub(crate) fn change(va: u64, bytes: u64, descriptor: u64, level: u8) -> Expected {
    let to = match meaning(descriptor, level) {
        Meaning::Leaf(Leaf { oa, attributes, valid, .. }) => Some(Mapping { pa: oa, attributes, valid }),
        _ => None,
    };
    Expected::new(Va(va), bytes, to)
}

pub(crate) fn done(cpu: CpuId) -> Event {
    Event::Done { cpu, ok: true }
}
