//! Correct sequences with something wrong in them, and sequences of anything.

use std::collections::VecDeque;

use linmap_model::{Barrier, Event, Tlb};

use test_support::Random;

use crate::descriptor::{
    ACCESSED, BLOCK, CONTIGUOUS, DIRTY_MANAGED, NOT_GLOBAL, PAGE, PXN, READ_ONLY, SOFTWARE_BIT,
    TABLE_OR_PAGE, UXN, VALID,
};
use crate::places::{
    AS_BLOCK, BASE, CHILD, L2, as_page, begin, change, dsb, fill, isb, kept, link, place, tlbi, tlbi_all,
    write,
};

const BARRIERS: [Barrier; 4] = [Barrier::Ishst, Barrier::Ish, Barrier::Nsh, Barrier::Nshst];
const FORMS: [Tlb; 14] = [
    Tlb::Vmalle1,
    Tlb::Vmalle1is,
    Tlb::Vae1,
    Tlb::Vae1is,
    Tlb::Vale1,
    Tlb::Vale1is,
    Tlb::Vaae1,
    Tlb::Vaae1is,
    Tlb::Vaale1,
    Tlb::Vaale1is,
    Tlb::Rvaae1,
    Tlb::Rvaae1is,
    Tlb::Rvaale1,
    Tlb::Rvaale1is,
];

/// Operations one after another, or two at a time where they are about different pages on two CPUs.
/// Now and then two that nobody may mix, if that is wanted.
pub(crate) fn joined(random: &mut Random, operations: Vec<Vec<Event>>, any: bool) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut rest = operations.into_iter().peekable();
    while let Some(one) = rest.next() {
        let mixed = any && random.one_in(8);
        let pair = rest.next_if(|other| (mixed || apart(&one, other)) && random.one_in(2));
        let (mut one, mut other) = (VecDeque::from(one), VecDeque::from(pair.unwrap_or_default()));
        while let Some(event) = if random.one_in(2) {
            one.pop_front().or_else(|| other.pop_front())
        } else {
            other.pop_front().or_else(|| one.pop_front())
        } {
            events.push(event);
        }
    }
    events
}

/// Returns true if two operations change different pages on two CPUs. An operation that invalidates everything may do
/// so for earlier changes: a later operation relies on that.
fn apart(a: &[Event], b: &[Event]) -> bool {
    if a.iter().any(|event| matches!(event, Event::Tlbi { op: Tlb::Vmalle1is, .. })) {
        return false;
    }
    match (&a[0], &b[0]) {
        (Event::Begin { cpu, name, changes, .. }, Event::Begin { cpu: c, name: n, changes: others, .. }) => {
            let same = changes.iter().any(|c| others.iter().any(|o| c.va == o.va));
            cpu != c && (name.as_str(), n.as_str()) == ("pages", "pages") && !same
        }
        _ => false,
    }
}

/// One thing goes wrong.
pub(crate) fn mutate(random: &mut Random, events: &mut Vec<Event>, watched: &[u64], cpus: usize) {
    let at = random.index(events.len());
    match random.index(11) {
        0 | 1 => drop(events.remove(at)),
        2 if at + 1 < events.len() => events.swap(at, at + 1),
        3 => {
            let event = anything(random, watched, cpus);
            events.insert(at, event);
        }
        4 => {
            let (from, event) = (random.index(events.len()), events[at].clone());
            events.insert(from, event);
        }
        5 => read(random, events, cpus),
        _ => alter(random, events, watched, cpus),
    }
}

/// A CPU reads from one event to another.
fn read(random: &mut Random, events: &mut Vec<Event>, cpus: usize) {
    let cpu = random.index(cpus) as u8;
    let from = random.index(events.len());
    events.insert(from, Event::ReadBegin { cpu });
    let to = from + 1 + random.index(events.len() - from);
    events.insert(to, Event::ReadEnd { cpu });
}

/// One of the events becomes another of its kind.
fn alter(random: &mut Random, events: &mut [Event], watched: &[u64], cpus: usize) {
    // A barrier, an invalidation or a store rather than the rest.
    let mut at = random.index(events.len());
    for _ in 0..8 {
        if matches!(events[at], Event::Write { .. } | Event::Dsb { .. } | Event::Tlbi { .. }) {
            break;
        }
        at = random.index(events.len());
    }
    let event = &mut events[at];
    if cpus > 1 && random.one_in(5) {
        let other = random.index(cpus) as u8;
        match event {
            Event::Write { cpu, .. }
            | Event::Dsb { cpu, .. }
            | Event::Isb { cpu }
            | Event::Tlbi { cpu, .. } => *cpu = other,
            _ => {}
        }
        return;
    }
    match event {
        Event::Dsb { kind, .. } => *kind = random.of(&BARRIERS),
        Event::Tlbi { op, operand, .. } => match random.index(6) {
            0 | 1 => {
                // By range or not, as it was: the operand would say something else.
                let by_range = op.to_string().starts_with('r');
                *op = if by_range { random.of(&FORMS[10..]) } else { random.of(&FORMS[..10]) };
            }
            2 => *op = other_levels(*op),
            3 => *operand ^= (random.index(16) as u64) << 44,
            4 => *operand ^= 1 << random.of(&[0, 0, 1, 9, 10, 35, 37, 38, 39, 48, 50]),
            // As though bits 63:56 and the address's own upper ones had not been masked.
            _ => *operand |= BASE >> 12,
        },
        Event::Write { table, value, index, count, was, .. } => match random.index(8) {
            0 if *count > 1 => *count = random.of(&[1, 2, 510]),
            1 if *table != L2 && *count == 1 => *index = place(random.of(watched)).1,
            2 => *was = Some(*value),
            3 => *value &= !VALID,
            _ => *value ^= 1 << some_bit(random),
        },
        Event::Done { ok, .. } => *ok = !*ok,
        Event::Begin { changes, .. } => drop(changes.pop()),
        _ => {}
    }
}

/// Leaves alone rather than table entries too, or the other way round.
fn other_levels(op: Tlb) -> Tlb {
    match op {
        Tlb::Vae1is => Tlb::Vale1is,
        Tlb::Vale1is => Tlb::Vae1is,
        Tlb::Vaae1is => Tlb::Vaale1is,
        Tlb::Vaale1is => Tlb::Vaae1is,
        Tlb::Rvaae1is => Tlb::Rvaale1is,
        Tlb::Rvaale1is => Tlb::Rvaae1is,
        other => other,
    }
}

/// A bit of a leaf that means something, or must be zero.
fn some_bit(random: &mut Random) -> u32 {
    let bits = [VALID, TABLE_OR_PAGE, 1 << 2, 1 << 3, 1 << 4, 1 << 6, READ_ONLY, 1 << 8, 1 << 9, ACCESSED];
    let zero = [1 << 17, 1 << 48];
    let more = [NOT_GLOBAL, PAGE, BLOCK, 1 << 24, DIRTY_MANAGED, CONTIGUOUS, CONTIGUOUS, PXN, UXN, 1 << 55];
    let all: Vec<u64> = bits.into_iter().chain(more).chain(zero).collect();
    random.of(&all).trailing_zeros()
}

/// Any event.
pub(crate) fn anything(random: &mut Random, watched: &[u64], cpus: usize) -> Event {
    let cpu = random.index(cpus) as u8;
    let va = random.of(watched);
    let slot = place(va).1;
    let child = CHILD + random.index(2) as u64 * PAGE;
    let page = if va < BASE + BLOCK { as_page(slot) } else { as_page(slot) + BLOCK };
    match random.index(16) {
        0..3 => {
            let block = AS_BLOCK + (va - BASE) / BLOCK * BLOCK;
            // Few pages of the second block are watched: it gets no table.
            let table = if va < BASE + BLOCK { link(child) } else { 0 };
            let values = [0, block, block ^ READ_ONLY, kept(block), table, block + 4 * BLOCK];
            write(cpu, L2, place(va).0, random.of(&values))
        }
        3..6 => {
            let values =
                [0, page, page, page ^ READ_ONLY, kept(page), page | CONTIGUOUS, page ^ SOFTWARE_BIT];
            write(cpu, child, slot, random.of(&values))
        }
        6 => fill(cpu, child, random.of(&[0, as_page(0)]), 512, PAGE),
        7..10 => dsb(cpu, random.of(&BARRIERS)),
        10 => isb(cpu),
        11 => tlbi_all(cpu, random.of(&FORMS[..2])),
        12 | 13 => tlbi(cpu, random.of(&FORMS[2..10]), va, random.of(&[0, 0, 1, 2, 3])),
        14 => {
            let (start, bytes) = random.of(&[(va, PAGE), (BASE, BLOCK)]);
            let values = [0, as_page(place(start).1), as_page(place(start).1) ^ READ_ONLY];
            begin(cpu, "anything", vec![change(start, bytes, random.of(&values), 3)])
        }
        _ => match random.index(4) {
            0 => Event::Alloc { cpu, table: child },
            1 => Event::Free { cpu, table: child },
            2 => begin(cpu, "nothing", vec![]),
            _ => Event::Done { cpu, ok: random.one_in(2) },
        },
    }
}
