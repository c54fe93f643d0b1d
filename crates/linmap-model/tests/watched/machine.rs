//! A machine as kernels use it: registers as they write them, two halves, tables of 4K pages, and code with places.

use linmap_model::observed::{Finding, Grade, Observer, Told};
use linmap_model::{Access, Barrier, Core, CpuId, Event, Register, Rule, Setup, Tlb, Update};

use linmap::{Geometry, Granule, OaFormat};

/// The root of the kernel, and tables below it, each of level 1, 2 and 3 from its first address on.
pub(crate) const KERNEL: u64 = 0x4010_0000;
pub(crate) const LEVEL_1: u64 = 0x4010_1000;
pub(crate) const LEVEL_2: u64 = 0x4010_2000;
pub(crate) const LEVEL_3: u64 = 0x4010_3000;
/// Pages that become tables.
pub(crate) const SPARE: u64 = 0x4020_0000;
/// A root without entries.
pub(crate) const EMPTY: u64 = 0x4050_0000;
/// The first address of the kernel's half, with 48 bits.
pub(crate) const VA: u64 = 0xffff_0000_0000_0000;

/// A table's descriptor.
pub(crate) const fn table(pa: u64) -> u64 {
    pa | 3
}

/// A page of the kernel: valid, accessed, inner shareable, not executable; the index of its memory type.
pub(crate) const fn page(pa: u64, index: u64) -> u64 {
    pa | 0x60_0000_0000_0703 | index << 2u32
}

/// A block of the kernel.
pub(crate) const fn block(pa: u64) -> u64 {
    page(pa, 0) & !2
}

pub(crate) const READ_ONLY: u64 = 1 << 7;
pub(crate) const USER: u64 = 1 << 6;
pub(crate) const NOT_GLOBAL: u64 = 1 << 11;
pub(crate) const CONTIGUOUS: u64 = 1 << 52;
pub(crate) const ACCESSED: u64 = 1 << 10;
pub(crate) const DIRTY_MANAGED: u64 = 1 << 51;

/// 4K pages and 48 bits in both halves, ASIDs of 16 bits in TTBR1: what Linux writes to TCR.
pub(crate) const TCR: u64 = 16 | 16 << 16u64 | 2 << 30u64 | 5 << 32u64 | 1 << 36u64 | 1 << 22u64;
/// Linux: Normal, Tagged, not cacheable, nGnRnE, nGnRE.
const MAIR: u64 = 0x0000_0004_0044_f0ff;

/// CPUs that run a kernel.
pub(crate) struct Machine {
    observer: Observer<Told>,
    cpu: CpuId,
    pc: u64,
}

impl Machine {
    /// Returns a machine whose CPUs all use the kernel's tables: one page, [`VA`] to 0x8000_0000, in a table for each level.
    pub(crate) fn new(core: Core, cpus: usize) -> Self {
        Self::with(&vec![core; cpus])
    }

    /// Returns such a machine with these CPUs.
    pub(crate) fn with(cores: &[Core]) -> Self {
        let g = Geometry::new(Granule::K16, 47, OaFormat::Bits48).expect("another geometry than TCR says");
        let observer = Observer::new(&Setup::new(g, cores), Told::default()).expect("a machine");
        let mut m = Self { observer, cpu: 0, pc: 0x1000 };
        m.store(KERNEL, table(LEVEL_1)).store(LEVEL_1, table(LEVEL_2)).store(LEVEL_2, table(LEVEL_3));
        m.store(LEVEL_3, page(0x8000_0000, 0)).dsb(Barrier::Ishst);
        for cpu in 0..cores.len() as CpuId {
            m.on(cpu).msr(Register::Mair, MAIR).msr(Register::Tcr, TCR).msr(Register::Ttbr1, KERNEL).isb();
            m.msr(Register::Sctlr, 1).isb();
        }
        m.on(0);
        m
    }

    /// Fills the tables of a process behind its root: a page at 0.
    pub(crate) fn process(&mut self, root: u64) -> &mut Self {
        for level in 0..3 {
            self.store(root + 0x1000 * level, table(root + 0x1000 * (level + 1)));
        }
        self.store(root + 0x3000, page(0x8000_0000, 0) | NOT_GLOBAL | USER).dsb(Barrier::Ishst)
    }

    /// Loads the root of a process under an ASID.
    pub(crate) fn load(&mut self, root: u64, asid: u64) -> &mut Self {
        self.msr(Register::Ttbr1, KERNEL | asid << 48u64).msr(Register::Ttbr0, root).isb()
    }

    /// From here on this CPU acts.
    pub(crate) fn on(&mut self, cpu: CpuId) -> &mut Self {
        self.cpu = cpu;
        self
    }

    fn step(&mut self, event: Event) -> &mut Self {
        self.pc += 4;
        self.observer.step(&event, self.pc);
        self
    }

    /// Stores a word to a physical address.
    pub(crate) fn store(&mut self, pa: u64, value: u64) -> &mut Self {
        let (table, index) = (pa & !0xfff, (pa & 0xfff) as usize / 8);
        self.step(Event::Write { cpu: self.cpu, table, index, value, count: 1, step: 0, was: None })
    }

    /// Compares and swaps a word.
    pub(crate) fn cas(&mut self, pa: u64, was: u64, value: u64) -> &mut Self {
        let (table, index) = (pa & !0xfff, (pa & 0xfff) as usize / 8);
        self.step(Event::Cas { cpu: self.cpu, table, index, was, value })
    }

    /// The walker of the CPU writes to a descriptor.
    pub(crate) fn walker(&mut self, pa: u64, what: Update) -> &mut Self {
        let (table, index) = (pa & !0xfff, (pa & 0xfff) as usize / 8);
        self.step(Event::Update { cpu: self.cpu, table, index, what })
    }

    pub(crate) fn dsb(&mut self, kind: Barrier) -> &mut Self {
        self.step(Event::Dsb { cpu: self.cpu, kind })
    }

    pub(crate) fn isb(&mut self) -> &mut Self {
        self.step(Event::Isb { cpu: self.cpu })
    }

    pub(crate) fn tlbi(&mut self, op: Tlb, operand: u64) -> &mut Self {
        self.step(Event::Tlbi { cpu: self.cpu, op, operand })
    }

    /// The TLBI of a kernel's page, of the last level, on all CPUs.
    pub(crate) fn tlbi_page(&mut self, va: u64) -> &mut Self {
        self.tlbi(Tlb::Vaale1is, va >> 12 & ((1 << 44) - 1))
    }

    pub(crate) fn msr(&mut self, register: Register, value: u64) -> &mut Self {
        self.step(Event::Msr { cpu: self.cpu, register, value })
    }

    pub(crate) fn read(&mut self, va: u64) -> &mut Self {
        self.step(Event::Access { cpu: self.cpu, va, how: Access::Read })
    }

    /// A store-release comes next, or a DMB is here.
    pub(crate) fn release(&mut self) -> &mut Self {
        self.step(Event::Release { cpu: self.cpu })
    }

    /// The CPU takes an exception to its own level, or returns from one.
    pub(crate) fn exception(&mut self) -> &mut Self {
        self.step(Event::Exception { cpu: self.cpu })
    }

    /// The CPU returns to a lower level.
    pub(crate) fn leave(&mut self) -> &mut Self {
        self.step(Event::Leave { cpu: self.cpu })
    }

    /// Returns what was found, the worst first: grade and rule.
    pub(crate) fn found(&mut self) -> Vec<(Grade, Rule)> {
        self.findings().iter().map(|finding| (finding.grade, finding.rule)).collect()
    }

    /// Returns what has been found so far: grade and rule.
    pub(crate) fn so_far(&self) -> Vec<(Grade, Rule)> {
        self.observer.findings().map(|finding| (finding.grade, finding.rule)).collect()
    }

    /// Returns what was found, once all CPUs have returned.
    pub(crate) fn findings(&mut self) -> Vec<Finding> {
        self.observer.finish();
        self.observer.findings().cloned().collect()
    }

    /// The observer, to be asked.
    pub(crate) const fn observer(&self) -> &Observer<Told> {
        &self.observer
    }
}
