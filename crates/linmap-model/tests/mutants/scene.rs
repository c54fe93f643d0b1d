//! The stage of a story: a machine with a small correct map, and the steps that a story is told in.

use std::ops::Range;

use linmap::arch::{Descriptor, Leaf, Level};
use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Va};
use linmap_model::{
    Access, Barrier, Breach, Core, CpuId, Event, Expected, Machine, Mapping, Register, Setup, Tlb, Update,
};

/// 4K pages, 39 VA bits: the root is at level 1.
pub(crate) const K4: Geometry = geometry(Granule::K4, 39, OaFormat::Bits48);
/// 4K pages, 48 VA bits: the root is at level 0, which has no blocks.
pub(crate) const K4_48: Geometry = geometry(Granule::K4, 48, OaFormat::Bits48);
/// 4K pages, 52 VA bits and DS=1: the root is at level -1, and level 0 has blocks.
pub(crate) const K4_LPA2: Geometry = geometry(Granule::K4, 52, OaFormat::Lpa2);
/// 16K pages, 47 VA bits: the root is at level 1.
pub(crate) const K16: Geometry = geometry(Granule::K16, 47, OaFormat::Bits48);
/// 64K pages, 42 VA bits: the root is at level 2.
pub(crate) const K64: Geometry = geometry(Granule::K64, 42, OaFormat::Bits48);

const fn geometry(granule: Granule, va_bits: u32, format: OaFormat) -> Geometry {
    match Geometry::new(granule, va_bits, format) {
        Ok(geometry) => geometry,
        Err(_) => panic!("no such geometry"),
    }
}

/// RAM that a CPU may only read.
pub(crate) const READ_ONLY: Attributes = Attributes::RAM.union(Attributes::READ_ONLY);

/// The map of a scene: leaves of one size, side by side.
#[derive(Clone, Copy)]
pub(crate) struct Plan<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) cores: &'a [Core],
    /// The level of the leaves.
    pub(crate) level: i8,
    /// The number of leaves; 0 stands for as many as two contiguous runs have.
    pub(crate) count: usize,
    /// The address of the first, if it is not the first of the upper half.
    pub(crate) va: Option<u64>,
    /// The first one.
    pub(crate) leaf: Leaf,
    /// True if tables are written through the map, from the first leaf's address on.
    pub(crate) tables_mapped: bool,
    /// True if the map is announced.
    pub(crate) announced: bool,
    /// True if it is a linear map, in which pages that are read-only elsewhere must be read-only.
    pub(crate) linear: bool,
}

impl<'a> Plan<'a> {
    /// 32 blocks of 2M.
    pub(crate) const fn blocks(cores: &'a [Core]) -> Self {
        let oa = Pa(512 << 30);
        let leaf = Leaf { oa, attributes: Attributes::RAM, contiguous: false, valid: true };
        Self {
            geometry: K4,
            cores,
            level: 2,
            count: 0,
            va: None,
            leaf,
            tables_mapped: false,
            announced: true,
            linear: false,
        }
    }

    /// 32 pages of 4K.
    pub(crate) const fn pages(cores: &'a [Core]) -> Self {
        Self { level: 3, ..Self::blocks(cores) }
    }

    /// Two runs of 16 pages.
    pub(crate) const fn runs(cores: &'a [Core]) -> Self {
        let leaf = Leaf { contiguous: true, ..Self::blocks(cores).leaf };
        Self { leaf, ..Self::pages(cores) }
    }

    /// The scene in which CPU 0 has created this map and every CPU has loaded it.
    pub(crate) fn scene(self) -> Scene {
        let mut s = self.unloaded();
        for cpu in 0..self.cores.len() as CpuId {
            s.cpu(cpu);
            if cpu != 0 {
                s.event(Event::Report { cpu });
            }
            s.load();
        }
        s.cpu(0);
        s
    }

    /// The scene in which CPU 0 has created this map, and no CPU has loaded it.
    pub(crate) fn unloaded(self) -> Scene {
        let mut setup = Setup::new(self.geometry, self.cores);
        if self.tables_mapped {
            setup.table_offset = Some(self.first_address().wrapping_sub(setup.tables_at));
        }
        if self.linear {
            setup.linear_offset = Some(self.first_address().wrapping_sub(self.leaf.oa.0));
        }
        let next = setup.tables_at;
        let none = Tree { tables: Vec::new(), slot: 0, va: 0, level: Level::PAGE, leaf: self.leaf };
        let mut s = Scene { g: self.geometry, setup, events: Vec::new(), cpu: 0, empty: 0, next, tree: none };
        s.tree = s.create(self);
        s.empty = s.alloc();
        s.write(s.empty, 0, 0, s.g.entries(s.g.root()), 0).dsb(Barrier::Ishst);
        s
    }

    fn first_address(&self) -> u64 {
        self.va.unwrap_or(self.geometry.base(Half::Upper))
    }
}

/// A map that was created.
#[derive(Clone)]
pub(crate) struct Tree {
    /// From the root down to the table of the leaves.
    pub(crate) tables: Vec<u64>,
    /// The first leaf's slot, and the address that it translates.
    slot: usize,
    pub(crate) va: u64,
    pub(crate) level: Level,
    leaf: Leaf,
}

/// A machine and what happens on it.
pub(crate) struct Scene {
    pub(crate) g: Geometry,
    pub(crate) setup: Setup,
    pub(crate) events: Vec<Event>,
    /// The CPU that acts.
    cpu: CpuId,
    /// A root that maps nothing.
    pub(crate) empty: u64,
    /// The next free table page.
    next: u64,
    /// The map that the CPUs have loaded.
    pub(crate) tree: Tree,
}

impl Scene {
    /// 32 blocks of 2M at the start of the upper half.
    pub(crate) fn blocks(cores: &[Core]) -> Self {
        Plan::blocks(cores).scene()
    }

    /// 32 pages.
    pub(crate) fn pages(cores: &[Core]) -> Self {
        Plan::pages(cores).scene()
    }

    /// Two runs of 16 pages.
    pub(crate) fn runs(cores: &[Core]) -> Self {
        Plan::runs(cores).scene()
    }

    /// A table full of pages: those of the first 2M.
    pub(crate) fn full_table(cores: &[Core]) -> Self {
        Plan { count: 512, ..Plan::pages(cores) }.scene()
    }

    /// Plays it to its end or to the first breach; if wanted, what it comes to is judged at rest.
    pub(crate) fn play(mut self, to_rest: bool) -> Result<(), Box<Breach>> {
        let mut machine = Machine::new(&self.setup).unwrap();
        let loads_empty =
            |e: &Event| matches!(e, Event::Msr { value, .. } if *value << 16 >> 16 == self.empty);
        if to_rest && !self.events.iter().any(loads_empty) {
            self.free(self.empty);
        }
        self.events.into_iter().try_for_each(|event| machine.step(event))?;
        if to_rest { machine.finish() } else { Ok(()) }
    }

    /// Something happens.
    pub(crate) fn event(&mut self, event: Event) -> &mut Self {
        self.events.push(event);
        self
    }

    /// The CPU that acts.
    pub(crate) const fn acting(&self) -> CpuId {
        self.cpu
    }

    /// From here on this CPU acts.
    pub(crate) fn cpu(&mut self, cpu: CpuId) -> &mut Self {
        self.cpu = cpu;
        self
    }

    /// Two things happen, in this order or in the other.
    pub(crate) fn in_order(
        &mut self,
        right: bool,
        first: impl FnOnce(&mut Self) -> &mut Self,
        second: impl FnOnce(&mut Self) -> &mut Self,
    ) -> &mut Self {
        if right {
            first(self);
            second(self);
        } else {
            second(self);
            first(self);
        }
        self
    }
}

/// The leaves of the map, and changes of them.
impl Scene {
    /// The leaf in a slot, counted from the first that has one.
    pub(crate) fn leaf(&self, i: usize) -> Leaf {
        let oa = Pa(self.tree.leaf.oa.0 + ((i as u64) << self.g.level_shift(self.tree.level)));
        Leaf { oa, ..self.tree.leaf }
    }

    /// Returns that leaf with other attributes.
    pub(crate) fn with(&self, i: usize, attributes: Attributes) -> Leaf {
        Leaf { attributes, ..self.leaf(i) }
    }

    /// The address that a slot translates.
    pub(crate) fn va(&self, i: usize) -> u64 {
        self.tree.va + ((i as u64) << self.g.level_shift(self.tree.level))
    }

    /// Returns the number of leaves of a contiguous run.
    pub(crate) fn run(&self) -> usize {
        self.g.contiguous_entries(self.tree.level)
    }

    /// The descriptor of a leaf, for the table of leaves.
    pub(crate) fn bits(&self, leaf: Leaf) -> u64 {
        Descriptor::leaf(leaf, self.g, self.tree.level).0
    }

    /// The table of the leaves.
    pub(crate) fn table(&self) -> u64 {
        *self.tree.tables.last().unwrap()
    }

    /// Returns the change of slots to consecutive mappings, of which a leaf is the first.
    pub(crate) fn change(&self, slots: Range<usize>, to: Option<Leaf>) -> Expected {
        let bytes = (slots.len() as u64) << self.g.level_shift(self.tree.level);
        self.change_at(self.va(slots.start), bytes, to)
    }

    /// Returns the change of some bytes.
    pub(crate) fn change_at(&self, va: u64, bytes: u64, to: Option<Leaf>) -> Expected {
        let to = to.map(|l| Mapping { valid: l.valid, ..Mapping::new(l.oa, l.attributes) });
        Expected::new(Va(va), bytes, to)
    }
}

/// Single steps.
impl Scene {
    pub(crate) fn begin(&mut self, name: &str, changes: impl Into<Vec<Expected>>) -> &mut Self {
        self.begin_at(self.tree.tables[0], name, changes)
    }

    pub(crate) fn begin_at(&mut self, root: u64, name: &str, changes: impl Into<Vec<Expected>>) -> &mut Self {
        let (cpu, name, changes) = (self.cpu, name.to_owned(), changes.into());
        self.event(Event::Begin { cpu, root, name, changes })
    }

    pub(crate) fn done(&mut self) -> &mut Self {
        self.event(Event::Done { cpu: self.cpu, ok: true })
    }

    pub(crate) fn refused(&mut self) -> &mut Self {
        self.event(Event::Done { cpu: self.cpu, ok: false })
    }

    pub(crate) fn dsb(&mut self, kind: Barrier) -> &mut Self {
        self.event(Event::Dsb { cpu: self.cpu, kind })
    }

    pub(crate) fn isb(&mut self) -> &mut Self {
        self.event(Event::Isb { cpu: self.cpu })
    }

    /// Uses a slot's first address.
    pub(crate) fn access(&mut self, how: Access, i: usize) -> &mut Self {
        self.event(Event::Access { cpu: self.cpu, va: self.va(i), how })
    }

    /// An invalidation of a slot's address.
    pub(crate) fn tlbi(&mut self, op: Tlb, i: usize) -> &mut Self {
        self.tlbi_with(op, self.address(i))
    }

    /// An invalidation, with its operand as it stands.
    pub(crate) fn tlbi_with(&mut self, op: Tlb, operand: u64) -> &mut Self {
        self.event(Event::Tlbi { cpu: self.cpu, op, operand })
    }

    /// An invalidation of everything, or of one ASID's, which is 0.
    pub(crate) fn tlbi_all(&mut self, op: Tlb) -> &mut Self {
        self.tlbi_with(op, 0)
    }

    /// Stores a leaf into a slot.
    pub(crate) fn put(&mut self, i: usize, leaf: Leaf) -> &mut Self {
        self.put_bits(i, self.bits(leaf))
    }

    /// Stores a leaf into a slot that the CPU takes to hold another.
    pub(crate) fn put_over(&mut self, i: usize, was: Leaf, leaf: Leaf) -> &mut Self {
        let (cpu, table, index) = (self.cpu, self.table(), self.tree.slot + i);
        let (value, was) = (self.bits(leaf), Some(self.bits(was)));
        self.event(Event::Write { cpu, table, index, value, count: 1, step: 0, was })
    }

    /// Stores into a slot what it said at first, with other attributes.
    pub(crate) fn put_as(&mut self, i: usize, attributes: Attributes) -> &mut Self {
        self.put(i, self.with(i, attributes))
    }

    /// Stores a descriptor into a slot.
    pub(crate) fn put_bits(&mut self, i: usize, value: u64) -> &mut Self {
        self.write(self.table(), self.tree.slot + i, value, 1, 0)
    }

    /// Stores a descriptor into a slot that holds another, in one atomic step.
    pub(crate) fn cas(&mut self, i: usize, was: u64, value: u64) -> &mut Self {
        let (cpu, table, index) = (self.cpu, self.table(), self.tree.slot + i);
        self.event(Event::Cas { cpu, table, index, was, value })
    }

    /// The CPU's walker updates a slot.
    pub(crate) fn update(&mut self, i: usize, what: Update) -> &mut Self {
        let (cpu, table, index) = (self.cpu, self.table(), self.tree.slot + i);
        self.event(Event::Update { cpu, table, index, what })
    }

    /// Stores a hole into a slot.
    pub(crate) fn clear(&mut self, i: usize) -> &mut Self {
        self.put_bits(i, 0)
    }

    /// Stores a table into a slot.
    pub(crate) fn link(&mut self, i: usize, table: u64) -> &mut Self {
        self.put_bits(i, Descriptor::table(Pa(table), self.g).0)
    }

    /// Stores into the slot of the table of the leaves, in the table above it.
    pub(crate) fn put_above(&mut self, value: u64) -> &mut Self {
        let above = self.tree.tables.len() - 2;
        let level = Level::new(self.tree.level.number() - 1);
        self.write(self.tree.tables[above], self.g.index(self.tree.va, level), value, 1, 0)
    }

    /// The block that says what a table full of leaves says.
    pub(crate) fn block_above(&self) -> u64 {
        Descriptor::leaf(self.leaf(0), self.g, Level::new(self.tree.level.number() - 1)).0
    }

    /// Stores descriptors in a row.
    pub(crate) fn write(
        &mut self,
        table: u64,
        index: usize,
        value: u64,
        count: usize,
        step: u64,
    ) -> &mut Self {
        let cpu = self.cpu;
        self.event(Event::Write { cpu, table, index, value, count, step, was: None })
    }

    pub(crate) fn alloc(&mut self) -> u64 {
        let table = self.next;
        self.next += self.g.page_size();
        self.event(Event::Alloc { cpu: self.cpu, table });
        table
    }

    /// Takes a table, and goes on.
    pub(crate) fn taking(&mut self, table: &mut u64) -> &mut Self {
        *table = self.alloc();
        self
    }

    pub(crate) fn free(&mut self, table: u64) -> &mut Self {
        self.event(Event::Free { cpu: self.cpu, table })
    }

    pub(crate) fn msr(&mut self, register: Register, value: u64) -> &mut Self {
        self.event(Event::Msr { cpu: self.cpu, register, value })
    }
}

/// The operand of invalidations.
impl Scene {
    /// An address: bits 55:12 of it, no level hint, no ASID.
    pub(crate) fn address(&self, i: usize) -> u64 {
        self.va(i) >> 12 & ((1 << 44) - 1)
    }

    /// A level hint, to be added.
    pub(crate) fn hint(&self, level: u64) -> u64 {
        (self.granule() << 2 | level) << 44
    }

    /// From the first leaf on so many pages: an even number up to 64, or a multiple of 64.
    pub(crate) fn range(&self, pages: u64) -> u64 {
        let shift = if self.g.oa_format() == OaFormat::Lpa2 { 16 } else { self.g.page_shift() };
        self.range_of(self.granule(), self.tree.va >> shift, pages)
    }

    /// Returns an operand with the fields as given.
    pub(crate) fn range_of(&self, granule: u64, base: u64, pages: u64) -> u64 {
        let (scale, num) = if pages <= 64 { (0, pages / 2 - 1) } else { (1, pages / 64 - 1) };
        granule << 46 | scale << 44 | num << 39 | base & ((1 << 37) - 1)
    }

    fn granule(&self) -> u64 {
        match self.g.granule() {
            Granule::K4 => 1,
            Granule::K16 => 2,
            Granule::K64 => 3,
        }
    }
}

/// Actions of several steps, done right.
impl Scene {
    /// Creates a tree that no CPU has loaded.
    pub(crate) fn create(&mut self, plan: Plan<'_>) -> Tree {
        let (g, level, va) = (self.g, Level::new(plan.level), plan.first_address());
        let mut leaf = plan.leaf;
        if g.oa_format() == OaFormat::Lpa2 {
            leaf.attributes.remove(Attributes::INNER_SHAREABLE);
        }
        let levels = (g.root().number()..=plan.level).map(Level::new);
        let tables: Vec<u64> = levels.clone().map(|_| self.alloc()).collect();
        let count = if plan.count == 0 { 2 * g.contiguous_entries(level) } else { plan.count };
        let bytes = (count as u64) << g.level_shift(level);
        if plan.announced {
            self.begin_at(tables[0], "create", [self.change_at(va, bytes, Some(leaf))]);
        }
        for (at, level) in levels.enumerate() {
            self.write(tables[at], 0, 0, g.entries(level), 0);
            if let Some(&child) = tables.get(at + 1) {
                self.write(tables[at], g.index(va, level), Descriptor::table(Pa(child), g).0, 1, 0);
            }
        }
        let slot = g.index(va, level);
        self.fill(tables[tables.len() - 1], level, slot..slot + count, leaf);
        self.dsb(Barrier::Ishst).isb();
        if plan.announced {
            self.done();
        }
        Tree { tables, slot, va, level, leaf }
    }

    /// This CPU loads the map.
    pub(crate) fn load(&mut self) -> &mut Self {
        self.msr(self.register(), self.tree.tables[0]).isb()
    }

    fn register(&self) -> Register {
        if self.tree.va >> 63 == 1 { Register::Ttbr1 } else { Register::Ttbr0 }
    }

    /// Stores leaves in a row into a table that no walker reaches.
    pub(crate) fn fill(&mut self, table: u64, level: Level, slots: Range<usize>, first: Leaf) -> &mut Self {
        let value = Descriptor::leaf(first, self.g, level).0;
        self.write(table, slots.start, value, slots.len(), self.g.level_size(level))
    }

    /// Fills a table with what a leaf says, one level down.
    pub(crate) fn fill_child(&mut self, table: u64, leaf: Leaf) -> &mut Self {
        let below = self.tree.level.next();
        self.fill(table, below, 0..self.g.entries(below), leaf)
    }

    /// A table that says what a slot says, one level down, and that walkers can see.
    pub(crate) fn child(&mut self, i: usize) -> u64 {
        let table = self.alloc();
        self.fill_child(table, self.leaf(i)).dsb(Barrier::Ishst);
        table
    }

    /// A barrier, the invalidation of slots, a barrier and an ISB.
    pub(crate) fn flush(&mut self, slots: Range<usize>) -> &mut Self {
        self.dsb(Barrier::Ishst);
        for i in slots {
            self.tlbi(Tlb::Vaae1is, i);
        }
        self.dsb(Barrier::Ish).isb()
    }

    /// Makes stores visible that changed no valid entry.
    pub(crate) fn publish(&mut self) -> &mut Self {
        self.dsb(Barrier::Ishst).isb()
    }

    /// An operation that makes one slot a hole.
    pub(crate) fn unmap(&mut self, i: usize) -> &mut Self {
        self.begin("unmap", [self.change(i..i + 1, None)]).clear(i).flush(i..i + 1).done()
    }

    /// An operation that fills a hole.
    pub(crate) fn map(&mut self, i: usize, leaf: Leaf) -> &mut Self {
        self.begin("map", [self.change(i..i + 1, Some(leaf))]).put(i, leaf).publish().done()
    }

    /// An operation that makes one slot read-only.
    pub(crate) fn protect(&mut self, i: usize) -> &mut Self {
        let to = self.with(i, READ_ONLY);
        self.begin("protect", [self.change(i..i + 1, Some(to))]).put(i, to).flush(i..i + 1).done()
    }

    /// CPUs park, away from the map; something is done by the one that acts; they come back.
    pub(crate) fn parked(&mut self, cpus: &[CpuId], work: impl FnOnce(&mut Self) -> &mut Self) -> &mut Self {
        let acting = self.cpu;
        for &cpu in cpus {
            self.cpu(cpu).park().forget();
        }
        work(self.cpu(acting));
        for &cpu in cpus {
            self.cpu(cpu).load().unpark();
        }
        self.cpu(acting)
    }

    pub(crate) fn park(&mut self) -> &mut Self {
        self.event(Event::Park { cpu: self.cpu });
        self.msr(self.register(), self.empty).isb()
    }

    pub(crate) fn unpark(&mut self) -> &mut Self {
        self.event(Event::Unpark { cpu: self.cpu })
    }

    /// This CPU's TLB is emptied.
    pub(crate) fn forget(&mut self) -> &mut Self {
        self.tlbi_all(Tlb::Vmalle1).dsb(Barrier::Nsh).isb()
    }
}
