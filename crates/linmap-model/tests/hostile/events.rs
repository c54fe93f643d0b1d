//! Random events of all kinds. Most of their values are extreme, and some make sense, so that logs come to something.

use linmap::cpu::Registers;
use linmap::{Attributes, Geometry, Granule, Half, MemoryType, OaFormat};
use linmap_model::{
    Access, Barrier, CacheOp, Core, CpuId, Event, Expected, Mapping, Register, Setup, Tlb, Update,
};
use test_support::Random;

/// Machines of all page sizes, with offsets of tables that make sense or wrap.
pub(crate) fn setups() -> Vec<Setup> {
    let geometries = [
        (Granule::K4, 39, OaFormat::Bits48),
        (Granule::K4, 48, OaFormat::Bits48),
        (Granule::K4, 52, OaFormat::Lpa2),
        (Granule::K16, 47, OaFormat::Bits48),
        (Granule::K16, 52, OaFormat::Lpa2),
        (Granule::K64, 42, OaFormat::Bits48),
        (Granule::K64, 52, OaFormat::Lpa),
    ];
    let machines = geometries.map(|(granule, bits, format)| {
        let g = Geometry::new(granule, bits, format).unwrap();
        let base = g.base(Half::Upper);
        let below = base.wrapping_sub(0x1000_0000);
        [None, Some(0), Some(0u64.wrapping_sub(g.page_size())), Some(base), Some(below)]
            .map(|o| machine(g, o))
    });
    machines.into_iter().flatten().collect()
}

fn machine(g: Geometry, offset: Option<u64>) -> Setup {
    let full = Core {
        hardware_access_flag: true,
        hardware_dirty_state: true,
        cnp: true,
        repeat_tlbi: offset == Some(0),
        ..Core::STRONG
    };
    let cores = [full, Core::STRONG, Core::WEAK];
    let mut setup = Setup::new(g, if offset.is_none() { &cores[..1] } else { &cores });
    setup.table_offset = offset;
    setup.linear_offset = offset;
    setup.tables = 16;
    setup.allow_write_execute = offset.is_some();
    setup
}

/// The source of events for a machine.
pub(crate) struct Events<'a> {
    pub(crate) random: Random,
    pub(crate) setup: &'a Setup,
}

impl Events<'_> {
    pub(crate) fn next(&mut self) -> Event {
        let cpu = self.cpu();
        match self.random.below(43) {
            0..=10 => self.store(cpu),
            11..=15 => Event::Dsb { cpu, kind: self.barrier() },
            16..=17 => Event::Isb { cpu },
            18..=20 => Event::Tlbi { cpu, op: self.random.of(Tlb::ALL), operand: self.operand() },
            21..=25 => Event::Msr { cpu, register: self.random.of(Register::ALL), value: self.register() },
            26 => self.coming_and_going(cpu),
            27..=28 => Event::Alloc { cpu, table: self.table() },
            29 => Event::Free { cpu, table: self.table() },
            30..=32 => self.begin(cpu),
            33..=34 => Event::Done { cpu, ok: self.random.one_in(2) },
            35 => Event::Give { cpu, pa: self.address(), bytes: self.bytes() },
            36 => Event::Take { cpu, pa: self.address(), bytes: self.bytes() },
            37 => self.code(cpu),
            38..=40 => self.contract(cpu),
            _ => {
                let how = self.random.of(&[Access::Read, Access::Write, Access::Execute, Access::Tag]);
                Event::Access { cpu, va: self.address(), how }
            }
        }
    }

    fn cpu(&mut self) -> CpuId {
        match self.random.below(60) {
            0 => CpuId::MAX,
            1 => self.setup.cores.len() as CpuId,
            _ => self.random.index(self.setup.cores.len()) as CpuId,
        }
    }

    fn store(&mut self, cpu: CpuId) -> Event {
        let (table, index, value) = (self.table(), self.slot(), self.value());
        match self.random.below(8) {
            0 => Event::Write { cpu, table, index: 0, value: 0, count: 512, step: 0, was: None },
            1 => {
                let was = if self.random.one_in(2) { 0 } else { self.value() };
                Event::Cas { cpu, table, index, was, value }
            }
            2 => {
                Event::Update { cpu, table, index, what: self.random.of(&[Update::Accessed, Update::Dirty]) }
            }
            _ => {
                let count = self.random.of(&[1, 1, 1, 1, 0, 32, 512, usize::MAX]);
                let step = self.random.of(&[0, 4096, 1 << 21, u64::MAX]);
                let was = self.random.one_in(9).then(|| self.random.bits());
                Event::Write { cpu, table, index, value, count, step, was }
            }
        }
    }

    fn begin(&mut self, cpu: CpuId) -> Event {
        let changes = (0..self.random.below(4)).map(|_| self.change()).collect();
        Event::Begin { cpu, root: self.table(), name: "change".into(), changes }
    }

    fn change(&mut self) -> Expected {
        let attributes = self.random.of(&[Attributes::RAM.bits(), u64::MAX, 0, 0x784]);
        let mapping = Mapping { pa: self.address(), attributes, valid: !self.random.one_in(5) };
        Expected {
            va: self.address(),
            bytes: self.bytes(),
            to: self.random.one_in(2).then_some(mapping),
            nowhere_writable: self.random.one_in(4),
            spurious_faults: self.random.one_in(4),
            invalidated_later: self.random.one_in(4),
        }
    }

    fn coming_and_going(&mut self, cpu: CpuId) -> Event {
        match self.random.below(6) {
            0 => Event::Reset { cpu },
            1 => Event::Park { cpu },
            2 => Event::Unpark { cpu },
            _ => Event::Report { cpu },
        }
    }

    /// Reading without a lock.
    fn contract(&mut self, cpu: CpuId) -> Event {
        if self.random.one_in(2) { Event::ReadBegin { cpu } } else { Event::ReadEnd { cpu } }
    }

    fn code(&mut self, cpu: CpuId) -> Event {
        let pa = self.address();
        match self.random.below(4) {
            0 => Event::Code { cpu, pa },
            1 => Event::Execute { cpu, pa },
            _ => {
                let ops =
                    [CacheOp::DcCvau, CacheOp::IcIvau, CacheOp::DcIvac, CacheOp::DcCivac, CacheOp::DcCvac];
                Event::Cache { cpu, op: self.random.of(&ops), pa }
            }
        }
    }
}

/// Values.
impl Events<'_> {
    fn address(&mut self) -> u64 {
        let g = self.setup.geometry;
        let (page, base, tables) = (g.page_size(), g.base(Half::Upper), self.setup.tables_at);
        match self.random.below(14) {
            0 => 0,
            1 => u64::MAX,
            2 => self.random.bits(),
            3 => base,
            4 => base.wrapping_sub(page),
            5 => 0u64.wrapping_sub(page),
            6 => (1 << g.va_bits()) - page,
            7 => 1 << g.va_bits(),
            8 => 1 << 63,
            9 => tables + page * self.random.below(12),
            10 => tables + 1,
            11 => (1 << 52) - page,
            12 => base + page * self.random.below(600),
            _ => page * self.random.below(600),
        }
    }

    fn table(&mut self) -> u64 {
        if self.random.one_in(12) {
            return self.address();
        }
        self.setup.tables_at + self.setup.geometry.page_size() * self.random.below(8)
    }

    fn slot(&mut self) -> usize {
        match self.random.below(8) {
            0 => self.random.of(&[511, 512, 8191, usize::MAX]),
            _ => self.random.index(40),
        }
    }

    fn bytes(&mut self) -> u64 {
        let page = self.setup.geometry.page_size();
        self.random.of(&[page, page, page, 32 * page, 1 << 21, 0, u64::MAX, 1 << 38, 1 << 62, 1 << 63])
    }

    /// A descriptor.
    fn value(&mut self) -> u64 {
        match self.random.below(8) {
            0 => self.random.bits(),
            1 => 0,
            2 => u64::MAX,
            3 | 4 => self.table() | 3,
            _ => {
                let low = self.random.of(&[0x703, 0x701, 0x783, 0x303, 0x700, 0x7c3, 0x4dd, 0xf03]);
                let high = self.random.of(&[0, 3 << 53, 3 << 53 | 1 << 52, 1 << 51, 1 << 54, 1 << 52]);
                let page = self.setup.geometry.page_size() * self.random.below(64);
                (self.address() & 0x0000_ffff_ffe0_0000 | page) & !0xfff | low | high
            }
        }
    }

    fn register(&mut self) -> u64 {
        let g = self.setup.geometry;
        let bits = g.va_bits();
        match self.random.below(9) {
            0 => self.random.bits(),
            1 => u64::MAX,
            2 => Registers::SCTLR_ON,
            3 => Registers::SCTLR_OFF,
            4 => {
                let ips = Registers::ips(self.random.of(&[32, 48]));
                Registers::tcr(g.granule(), g.oa_format(), bits, bits) | ips | 1 << 36
            }
            5 => MemoryType::mair(true),
            _ => self.table() & !1 | self.random.below(2) | self.random.below(3) << 48,
        }
    }

    fn operand(&mut self) -> u64 {
        match self.random.below(5) {
            0 => self.random.bits(),
            1 => u64::MAX,
            2 => self.address() >> 12 & ((1 << 44) - 1),
            3 => self.random.bits() & ((1 << 48) - 1),
            _ => 0,
        }
    }

    fn barrier(&mut self) -> Barrier {
        use Barrier::{Ish, Ishst, Nsh, Nshnxs, Oshst, Sy};
        self.random.of(&[Ishst, Ish, Ish, Nsh, Sy, Nshnxs, Oshst])
    }
}
