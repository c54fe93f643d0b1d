//! Operations as correct code carries them out, one after another.

use std::collections::BTreeMap;

use linmap_model::{Barrier, Core, Event, Expected, Tlb};

use test_support::Random;

use crate::descriptor::{
    ATTRIBUTES, BLOCK, CONTIGUOUS, DIRTY_MANAGED, PAGE, READ_ONLY, TABLE_OR_PAGE, UXN, VALID,
};
use crate::places::{
    AS_BLOCK, BASE, CHILD, L2, Layout, as_page, begin, change, done, dsb, fill, isb, kept, link, page_at,
    place, tlbi, tlbi_all, tlbi_block, tlbi_range, write,
};

/// The contents of slot 0 of the level 2 table.
#[derive(Clone)]
enum Shape {
    Hole,
    /// A block, valid or present-invalid.
    Block(u64),
    /// A table: its address, the descriptor that its first page would have if it were like the pages that are not
    /// watched, and the pages that are.
    Table(u64, u64, BTreeMap<usize, u64>),
}

pub(crate) struct Author<'a> {
    random: &'a mut Random,
    events: Vec<Event>,
    cpus: usize,
    /// True if live entries may change their size.
    resizes: bool,
    hints: bool,
    ranges: bool,
    repeats: bool,
    asid: u64,
    slots: Vec<usize>,
    shape: Shape,
    next_table: u64,
    cpu: u8,
    /// Entries of other sizes, with the same translation, were left to be invalidated later.
    lazy: bool,
}

impl<'a> Author<'a> {
    pub(crate) fn new(random: &'a mut Random, layout: Layout, watched: &[u64], asid: u64) -> Self {
        let slots: Vec<_> = watched.iter().filter(|v| **v < BASE + BLOCK).map(|v| place(*v).1).collect();
        let page = |slot: usize| match (layout, slot) {
            (Layout::Holed, 1) => 0,
            (Layout::Holed, 2) => kept(as_page(2)),
            (Layout::Run, 0..16) => as_page(slot) | CONTIGUOUS,
            _ => as_page(slot),
        };
        let shape = match layout {
            Layout::Hole => Shape::Hole,
            Layout::Block => Shape::Block(AS_BLOCK),
            _ => Shape::Table(CHILD, as_page(0), slots.iter().map(|&s| (s, page(s))).collect()),
        };
        Self {
            random,
            events: Vec::new(),
            cpus: 1,
            resizes: true,
            hints: true,
            ranges: true,
            repeats: false,
            asid,
            slots,
            shape,
            next_table: CHILD + PAGE,
            cpu: 0,
            lazy: false,
        }
    }

    /// On these CPUs; live changes of size only where all cope with them, if not told otherwise.
    pub(crate) fn on(self, cores: &[Core], resizes: bool) -> Self {
        Self {
            cpus: cores.len(),
            resizes: resizes || cores.iter().all(|c| c.never_aborts),
            hints: cores.iter().all(|c| c.ttl),
            // Careless, it uses them whatever the others have.
            ranges: resizes || cores.iter().all(|c| c.range_tlbi),
            repeats: cores.iter().any(|c| c.repeat_tlbi),
            ..self
        }
    }

    /// One operation, or two that belong together.
    pub(crate) fn operation(&mut self) -> Vec<Event> {
        self.cpu = self.random.index(self.cpus) as u8;
        match self.shape.clone() {
            Shape::Hole if self.random.one_in(2) => {
                let block = self.some_block();
                self.set_block(block);
            }
            Shape::Hole => self.map_table(),
            Shape::Block(block) => self.on_block(block),
            Shape::Table(table, first, pages) => self.on_table(table, first, pages),
        }
        std::mem::take(&mut self.events)
    }

    fn on_block(&mut self, block: u64) {
        if block & VALID == 0 {
            // Make valid what was kept.
            let valid = block & !crate::descriptor::NOT_GLOBAL | VALID;
            let next = self.random.of(&[valid, 0]);
            return self.set_block(next);
        }
        match self.random.index(6) {
            0 => {
                let other = self.other_permissions(block);
                self.set_block(other);
            }
            1 => self.set_block(0),
            2 => self.set_block(kept(block)),
            3 if self.resizes => self.split(block, false),
            4 | 5 if self.resizes => self.split(block, true),
            _ => {
                self.set_block(0);
                self.operation_again();
            }
        }
    }

    fn operation_again(&mut self) {
        let events = std::mem::take(&mut self.events);
        let more = self.operation();
        self.events = events;
        self.events.extend(more);
    }

    fn on_table(&mut self, table: u64, first: u64, pages: BTreeMap<usize, u64>) {
        let run: Vec<usize> = (0..16).filter(|s| pages.get(s).is_some_and(|d| d & CONTIGUOUS != 0)).collect();
        if run.len() == 16 && !self.random.one_in(4) {
            let resizes = self.resizes;
            return match self.random.index(5) {
                0 if resizes => self.part_of_run(table, first, pages),
                1 if resizes => self.fold_run(table, first, pages, false),
                2 => self.set_pages(table, first, pages, &run, |_, _| 0),
                3 => self.set_pages(table, first, pages, &run, |_, d| kept(d)),
                _ => self.set_pages(table, first, pages, &run, |_, d| d ^ READ_ONLY),
            };
        }
        let like_first = |(slot, d): (&usize, &u64)| d & !CONTIGUOUS == first + *slot as u64 * PAGE;
        if pages.iter().all(like_first) && self.resizes && self.random.one_in(3) {
            return self.collapse(table, first, vec![]);
        }
        let holes: Vec<usize> = pages.iter().filter(|(_, d)| **d == 0).map(|(s, _)| *s).collect();
        let filled = |(slot, d): (&usize, &u64)| *d == 0 || like_first((slot, d));
        if first != 0 && pages.iter().all(filled) && self.resizes && self.random.one_in(2) {
            return self.collapse(table, first, holes);
        }
        if self.resizes && self.random.one_in(6) {
            return self.replace_table(table, first, pages);
        }
        let whole = (0..16).all(|s| pages.get(&s).is_some_and(|d| *d == first + s as u64 * PAGE));
        if whole && run.is_empty() && self.resizes && self.random.one_in(3) {
            return self.fold_run(table, first, pages, true);
        }
        if self.random.one_in(5) {
            return self.drop_table(table);
        }
        // Pages 15 and 505 stay as they are: mates that are not changed, for those that are.
        let free = |(slot, d): (&usize, &u64)| d & CONTIGUOUS == 0 && ![15, 505].contains(slot);
        let single: Vec<usize> = pages.iter().filter(|p| free(*p)).map(|(s, _)| *s).collect();
        let mut chosen = vec![self.random.of(&single)];
        let next = chosen[0] + 1;
        if single.contains(&next) && self.random.one_in(3) {
            chosen.push(next);
        }
        let old = pages[&chosen[0]];
        let how = self.random.index(4);
        let other = self.other_permissions(old) ^ old;
        let moved = self.random.of(&[0, 0, 4 * BLOCK]);
        self.set_pages(table, first, pages, &chosen, |slot, d| match (how, d & VALID != 0) {
            (0, true) => 0,
            (1, true) => kept(d),
            (_, true) => d ^ other,
            (0, false) if d != 0 => 0,
            (_, false) => as_page(slot) + moved,
        });
    }

    fn other_permissions(&mut self, descriptor: u64) -> u64 {
        let other = self.random.of(&[READ_ONLY, READ_ONLY, UXN, crate::descriptor::PXN, 1 << 2]);
        // AttrIndx 0 and 1 are both normal.
        descriptor & !DIRTY_MANAGED ^ other
    }

    fn some_block(&mut self) -> u64 {
        AS_BLOCK ^ self.random.of(&[0, 0, READ_ONLY, 4 * BLOCK])
    }

    // Pieces.

    fn write(&mut self, table: u64, slot: usize, value: u64, old: u64) {
        let mut event = write(self.cpu, table, slot, value);
        if let Event::Write { was, .. } = &mut event
            && self.random.one_in(2)
        {
            *was = Some(old);
        }
        self.events.push(event);
    }

    fn push(&mut self, event: Event) {
        self.events.push(event);
    }

    fn dsb_stores(&mut self) {
        let kind = self.random.of(&[Barrier::Ishst, Barrier::Ishst, Barrier::Ish]);
        self.push(dsb(self.cpu, kind));
    }

    /// Invalidates addresses whose leaves are of a level, and the way to them.
    fn invalidate(&mut self, addresses: &[u64], level: u64, last_level: bool) {
        if self.lazy || self.random.one_in(6) {
            self.lazy = false;
            self.push(tlbi_all(self.cpu, Tlb::Vmalle1is));
        } else {
            // Walk caches may belong to any ASID.
            let leaves = [Tlb::Vaale1is, Tlb::Vaale1is, Tlb::Vale1is, Tlb::Vaae1is, Tlb::Vae1is];
            let op = if last_level { self.random.of(&leaves) } else { Tlb::Vaae1is };
            let hint = if self.hints && self.random.one_in(2) { level } else { 0 };
            let pairs = addresses.len() as u64 / 2;
            let adjoin = addresses.windows(2).all(|w| w[1] - w[0] == PAGE);
            if self.ranges && pairs > 0 && adjoin && self.random.one_in(2) {
                let op = if last_level { Tlb::Rvaale1is } else { Tlb::Rvaae1is };
                self.push(tlbi_range(self.cpu, op, addresses[0], pairs, hint));
                return self.invalidated();
            }
            for va in addresses {
                let mut event = tlbi(self.cpu, op, *va, hint);
                if let (Event::Tlbi { operand, .. }, Tlb::Vale1is | Tlb::Vae1is) = (&mut event, op) {
                    *operand |= self.asid << 48;
                }
                self.push(event);
            }
        }
        self.invalidated();
    }

    fn invalidated(&mut self) {
        self.push(dsb(self.cpu, Barrier::Ish));
        if self.repeats {
            self.push(tlbi(self.cpu, Tlb::Vale1is, 0, 0));
            self.push(dsb(self.cpu, Barrier::Ish));
        }
        self.push(isb(self.cpu));
    }

    fn begin(&mut self, name: &str, changes: Vec<Expected>) {
        self.push(begin(self.cpu, name, changes));
    }

    fn done(&mut self) {
        self.push(done(self.cpu));
    }

    fn take_table(&mut self) -> u64 {
        let table = self.next_table;
        self.next_table += PAGE;
        self.push(Event::Alloc { cpu: self.cpu, table });
        table
    }

    fn free(&mut self, table: u64) {
        self.push(Event::Free { cpu: self.cpu, table });
    }

    // Operations.

    /// Slot 0 becomes a block, a kept block or a hole; it was one of these.
    fn set_block(&mut self, new: u64) {
        let Shape::Block(old) = self.shape.clone() else {
            return self.set_block_from(0, new);
        };
        self.set_block_from(old, new);
    }

    fn set_block_from(&mut self, old: u64, new: u64) {
        self.begin("block", vec![change(BASE, BLOCK, new, 2)]);
        self.write(L2, 0, new, old);
        self.dsb_stores();
        if old & VALID != 0 {
            self.invalidate(&[BASE], 2, true);
        } else {
            self.push(isb(self.cpu));
        }
        self.done();
        self.shape = if new == 0 { Shape::Hole } else { Shape::Block(new) };
    }

    /// A block becomes 512 pages, one of them perhaps with other permissions.
    fn split(&mut self, block: u64, changed: bool) {
        let first = (block & ATTRIBUTES) | (block & 0x0000_ffff_ffe0_0000) | TABLE_OR_PAGE | VALID;
        let slots = self.slots.clone();
        let mut pages: BTreeMap<_, _> = slots.iter().map(|&s| (s, first + s as u64 * PAGE)).collect();
        let slot = self.random.of(&slots);
        let other = if self.random.one_in(3) { 0 } else { pages[&slot] ^ READ_ONLY };
        let changes = if changed { vec![change(page_at(slot), PAGE, other, 3)] } else { vec![] };
        self.begin("split", changes);
        let table = self.take_table();
        self.push(fill(self.cpu, table, first, 512, PAGE));
        let early = changed && self.random.one_in(2);
        if early {
            self.push(write(self.cpu, table, slot, other));
        }
        self.push(dsb(self.cpu, Barrier::Ishst));
        self.write(L2, 0, link(table), block);
        self.dsb_stores();
        if changed && !early {
            self.write(table, slot, other, pages[&slot]);
            self.dsb_stores();
        }
        if changed {
            pages.insert(slot, other);
            // The old block, or its pages: no hint fits both.
            let (cpu, va) = (self.cpu, page_at(slot));
            self.push(tlbi(cpu, Tlb::Vaale1is, va, 0));
            self.invalidated();
        }
        self.lazy |= !changed;
        self.done();
        self.shape = Shape::Table(table, first, pages);
    }

    /// 512 pages become a block, which maps the holes among them.
    fn collapse(&mut self, table: u64, first: u64, holes: Vec<usize>) {
        let block = first & !TABLE_OR_PAGE;
        let page = |s: usize| change(page_at(s), PAGE, first + s as u64 * PAGE, 3);
        self.begin("collapse", holes.into_iter().map(page).collect());
        self.write(L2, 0, block, link(table));
        self.dsb_stores();
        let any = page_at(self.random.index(512));
        self.invalidate(&[any], 3, false);
        self.lazy = true;
        if self.random.one_in(2) {
            self.free(table);
            self.done();
        } else {
            self.done();
            self.free(table);
        }
        self.shape = Shape::Block(block);
    }

    /// A table becomes another with the same pages.
    fn replace_table(&mut self, table: u64, first: u64, pages: BTreeMap<usize, u64>) {
        self.begin("replace", vec![]);
        let new = self.take_table();
        let step = if first == 0 { 0 } else { PAGE };
        self.push(fill(self.cpu, new, first, 512, step));
        for (&slot, &page) in &pages {
            if page != first + slot as u64 * step {
                self.push(write(self.cpu, new, slot, page));
            }
        }
        self.push(dsb(self.cpu, Barrier::Ishst));
        self.write(L2, 0, link(new), link(table));
        self.dsb_stores();
        let any = page_at(self.random.index(512));
        self.invalidate(&[any], 3, false);
        if self.random.one_in(2) {
            self.free(table);
        }
        self.done();
        self.shape = Shape::Table(new, first, pages);
    }

    /// A hole becomes a table with some pages.
    fn map_table(&mut self) {
        let slots = self.slots.clone();
        let slot = self.random.of(&slots);
        let pages: BTreeMap<_, _> =
            slots.iter().map(|&s| (s, if s == slot { as_page(s) } else { 0 })).collect();
        self.begin("map", vec![change(page_at(slot), PAGE, as_page(slot), 3)]);
        let table = self.take_table();
        self.push(fill(self.cpu, table, 0, 512, 0));
        let early = self.random.one_in(2);
        if early {
            self.push(write(self.cpu, table, slot, as_page(slot)));
        }
        self.push(dsb(self.cpu, Barrier::Ishst));
        self.write(L2, 0, link(table), 0);
        if !early {
            self.write(table, slot, as_page(slot), 0);
        }
        self.dsb_stores();
        self.push(isb(self.cpu));
        self.done();
        // Those that are not watched are holes: the table cannot be taken for a split block.
        self.shape = Shape::Table(table, 0, pages);
    }

    /// All pages become a hole, and their table is given back.
    fn drop_table(&mut self, table: u64) {
        self.begin("unmap", vec![change(BASE, BLOCK, 0, 2)]);
        self.write(L2, 0, 0, link(table));
        self.dsb_stores();
        match self.random.index(4) {
            0 => self.push(tlbi_all(self.cpu, Tlb::Vmalle1is)),
            _ if !self.ranges => self.push(tlbi_all(self.cpu, Tlb::Vmalle1is)),
            1 => self.push(tlbi_block(self.cpu, Tlb::Rvaae1is, BASE)),
            _ => {
                // The way to the pages first: until it is gone they come back.
                let any = page_at(self.random.index(512));
                self.push(tlbi(self.cpu, Tlb::Vaae1is, any, 0));
                self.invalidated();
                self.push(tlbi_block(self.cpu, Tlb::Rvaale1is, BASE));
            }
        }
        self.invalidated();
        self.free(table);
        self.done();
        self.shape = Shape::Hole;
    }

    /// Each of these pages becomes something else.
    fn set_pages(
        &mut self,
        table: u64,
        first: u64,
        mut pages: BTreeMap<usize, u64>,
        chosen: &[usize],
        new: impl Fn(usize, u64) -> u64,
    ) {
        let old = pages.clone();
        pages.extend(chosen.iter().map(|&s| (s, new(s, old[&s]))));
        let changes = chosen.iter().map(|&s| change(page_at(s), PAGE, pages[&s], 3)).collect();
        self.begin("pages", changes);
        chosen.iter().for_each(|s| self.write(table, *s, pages[s], old[s]));
        self.dsb_stores();
        let stale = chosen.iter().filter(|s| old[*s] & VALID != 0).map(|&s| page_at(s));
        let stale: Vec<_> = stale.collect();
        if stale.is_empty() {
            self.push(isb(self.cpu));
        } else {
            self.invalidate(&stale, 3, true);
        }
        self.done();
        self.shape = Shape::Table(table, first, pages);
    }

    /// The contiguous bits of a run are set or cleared; invalidation may wait.
    fn fold_run(&mut self, table: u64, first: u64, mut pages: BTreeMap<usize, u64>, fold: bool) {
        self.begin(if fold { "fold" } else { "unfold" }, vec![]);
        for slot in 0..16 {
            let old = pages[&slot];
            self.write(table, slot, old ^ CONTIGUOUS, old);
            pages.insert(slot, old ^ CONTIGUOUS);
        }
        self.dsb_stores();
        self.lazy = true;
        self.done();
        self.shape = Shape::Table(table, first, pages);
    }

    /// One page of a run changes its permissions.
    fn part_of_run(&mut self, table: u64, first: u64, mut pages: BTreeMap<usize, u64>) {
        let slot = self.random.index(16);
        let new = (pages[&slot] ^ READ_ONLY) & !CONTIGUOUS;
        self.begin("part", vec![change(page_at(slot), PAGE, new, 3)]);
        for mate in 0..16 {
            let old = pages[&mate];
            self.write(table, mate, old & !CONTIGUOUS, old);
            pages.insert(mate, old & !CONTIGUOUS);
        }
        self.dsb_stores();
        let old = pages.insert(slot, new).unwrap_or_default();
        self.write(table, slot, new, old);
        self.dsb_stores();
        let all: Vec<_> = (0..16).map(page_at).collect();
        let stale = if self.random.one_in(2) { all } else { vec![page_at(slot)] };
        self.invalidate(&stale, 3, true);
        self.done();
        self.shape = Shape::Table(table, first, pages);
    }
}
