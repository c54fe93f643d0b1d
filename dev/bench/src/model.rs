//! The speed of the model, measured on small random sequences of correct changes.

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes, Geometry, Granule, OaFormat, Pa, Va};
use linmap_model::{Barrier, Core, Event, Expected, Machine, Mapping, Register, Setup, Tlb};
use test_support::Random;

use crate::clock::timed;

const TABLES: u64 = 0x1000_0000;
const RAM: u64 = 0x4000_0000;
const BLOCKS: u64 = 4;
const PAGE: u64 = 1 << 12;
const BLOCK: u64 = 1 << 21;

/// Runs the model for about a second of CPU time. Returns the sequences and events that it judged, and the seconds.
pub(crate) fn speed() -> (u64, u64, f64) {
    let (mut sequences, mut events, mut nanoseconds) = (0, 0, 0);
    let mut random = Random::new(0);
    while nanoseconds < 1_000_000_000 {
        events += timed(&mut nanoseconds, || sequence(&mut random));
        sequences += 1;
    }
    (sequences, events, nanoseconds as f64 / 1e9)
}

/// Makes a map of four blocks on two CPUs and changes it up to eight times. Returns the number of events.
fn sequence(random: &mut Random) -> u64 {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry that exists");
    let mut map = Map::new(g);
    for _ in 0..=random.below(8) {
        let (block, page) = (random.below(BLOCKS), random.below(512));
        match (map.split[block as usize], random.below(3)) {
            (false, 0) => map.split(block),
            (false, _) => map.protect(block, None),
            (true, _) => map.protect(block, Some(page)),
        }
    }
    map.machine.finish().expect("correct changes break no rule");
    map.machine.events() as u64
}

struct Map {
    machine: Machine,
    g: Geometry,
    base: u64,
    split: [bool; BLOCKS as usize],
    tables: u64,
}

impl Map {
    fn new(g: Geometry) -> Self {
        let machine = Machine::new(&Setup { tables: 16, ..Setup::new(g, &[Core::STRONG; 2]) });
        let base = g.base(linmap::Half::Upper);
        let mut map = Self { machine: machine.expect("a machine"), g, base, split: [false; 4], tables: 0 };
        let [root, l1, l2] = [(); 3].map(|()| map.table());
        map.steps(&[
            Event::Begin {
                cpu: 0,
                root,
                name: "create".into(),
                changes: vec![map.change(0, BLOCKS * BLOCK, false)],
            },
            Event::write(0, Pa(root), 0, Descriptor::table(Pa(l1), g).0),
            Event::write(0, Pa(l1), 0, Descriptor::table(Pa(l2), g).0),
            Event::Write {
                cpu: 0,
                table: l2,
                index: 0,
                value: map.leaf(0, Level::new(2), false),
                count: 4,
                step: BLOCK,
                was: None,
            },
            Event::Dsb { cpu: 0, kind: Barrier::Ishst },
            Event::Done { cpu: 0, ok: true },
            Event::Report { cpu: 1 },
        ]);
        for cpu in 0..2 {
            map.steps(&[Event::Msr { cpu, register: Register::Ttbr1, value: root }, Event::Isb { cpu }]);
        }
        map
    }

    fn steps(&mut self, events: &[Event]) {
        for event in events {
            self.machine.step(event.clone()).expect("correct changes break no rule");
        }
    }

    /// Allocates a table page and clears it. Returns its address.
    fn table(&mut self) -> u64 {
        let table = TABLES + self.tables * PAGE;
        self.tables += 1;
        self.steps(&[
            Event::Alloc { cpu: 0, table },
            Event::Write { cpu: 0, table, index: 0, value: 0, count: 512, step: 0, was: None },
        ]);
        table
    }

    fn attributes(read_only: bool) -> Attributes {
        if read_only { Attributes::RAM | Attributes::READ_ONLY } else { Attributes::RAM }
    }

    fn leaf(&self, offset: u64, level: Level, read_only: bool) -> u64 {
        let attributes = Self::attributes(read_only);
        let leaf = Leaf { oa: Pa(RAM + offset), attributes, contiguous: false, valid: true };
        Descriptor::leaf(leaf, self.g, level).0
    }

    fn change(&self, offset: u64, bytes: u64, read_only: bool) -> Expected {
        let to = Mapping::new(Pa(RAM + offset), Self::attributes(read_only));
        Expected::new(Va(self.base + offset), bytes, Some(to))
    }

    /// Splits a block into a table of pages.
    fn split(&mut self, block: u64) {
        let (table, value) = (self.table(), self.leaf(block * BLOCK, Level::PAGE, self.read_only(block)));
        let root = TABLES;
        self.steps(&[
            Event::Begin { cpu: 0, root, name: "split".into(), changes: vec![] },
            Event::Write { cpu: 0, table, index: 0, value, count: 512, step: PAGE, was: None },
            Event::Dsb { cpu: 0, kind: Barrier::Ishst },
            Event::write(0, Pa(TABLES + 2 * PAGE), block as usize, Descriptor::table(Pa(table), self.g).0),
            Event::Dsb { cpu: 0, kind: Barrier::Ishst },
            Event::Done { cpu: 0, ok: true },
        ]);
        self.split[block as usize] = true;
    }

    fn slot(&self, block: u64) -> u64 {
        self.machine.read(Pa(TABLES + 2 * PAGE), block as usize).expect("the table of blocks")
    }

    fn read_only(&self, block: u64) -> bool {
        self.slot(block) & Attributes::READ_ONLY.bits() != 0
    }

    /// Toggles the write permission of a block, or of a page of a split block.
    fn protect(&mut self, block: u64, page: Option<u64>) {
        let (table, index) = match page {
            None => (TABLES + 2 * PAGE, block),
            Some(page) => (self.slot(block) & 0xffff_ffff_f000, page),
        };
        let old = self.machine.read(Pa(table), index as usize).expect("a table");
        let new = old ^ Attributes::READ_ONLY.bits();
        let read_only = new & Attributes::READ_ONLY.bits() != 0;
        let bytes = if page.is_some() { PAGE } else { BLOCK };
        let offset = block * BLOCK + page.unwrap_or(0) * PAGE;
        let operand = (self.base + offset) >> 12u32 & ((1 << 44u32) - 1);
        let change = self.change(offset, bytes, read_only);
        self.steps(&[
            Event::Begin { cpu: 0, root: TABLES, name: "protect".into(), changes: vec![change] },
            Event::write(0, Pa(table), index as usize, new),
            Event::Dsb { cpu: 0, kind: Barrier::Ishst },
            Event::Tlbi { cpu: 0, op: Tlb::Vaale1is, operand },
            Event::Dsb { cpu: 0, kind: Barrier::Ish },
            Event::Isb { cpu: 0 },
            Event::Done { cpu: 0, ok: true },
        ]);
    }
}
