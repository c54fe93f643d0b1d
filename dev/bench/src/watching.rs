//! The speed of the observer of code that announces nothing, in the state that Linux keeps it in: many entries under way.

use linmap::{Geometry, Granule, OaFormat, Pa};
use linmap_model::observed::{Linked, Memory, Observer};
use linmap_model::{Access, Barrier, Core, CpuId, Event, Register, Setup, Tlb, Word};

use crate::clock::timed;

const ROOT: u64 = 0x4010_0000;
const PAGES: u64 = ROOT + 0x3000;
const DATA: u64 = 0x8000_0000;
const VA: u64 = 0xffff_0000_0000_0000;
/// The entries that Linux has under way: pages of vmalloc, given back and not yet invalidated.
const UNDER_WAY: usize = 500;

/// Memory that a machine has anyhow: nothing is kept of it but who stored to a page last.
struct Ram {
    tables: Vec<u64>,
    last: CpuId,
}

impl Memory for Ram {
    fn table(&mut self, pa: u64, words: usize) -> Option<Linked> {
        let first = pa.checked_sub(ROOT)? as usize / 8;
        Some(Linked { words: self.tables.get(first..first + words)?.to_vec(), unordered: 0 })
    }

    fn store(&mut self, cpu: CpuId, pa: u64, value: u64) {
        self.last = cpu;
        if let Some(word) = pa.checked_sub(ROOT).and_then(|at| self.tables.get_mut(at as usize / 8)) {
            *word = value;
        }
    }

    fn update(&mut self, _: u64, _: u64) {}

    fn barrier(&mut self, _: CpuId) {}

    fn link(&mut self, _: u64, _: &[(usize, Word)], _: u64) {}
}

/// Nanoseconds of CPU time.
pub(crate) struct Costs {
    /// An event of a page that is unmapped and mapped again, with its barriers and TLBI.
    pub(crate) event: f64,
    /// A store to memory that no entry leads to.
    pub(crate) store: f64,
    /// A load or store by an address that was not mapped just now.
    pub(crate) access: f64,
}

/// Measures for about a second each.
pub(crate) fn costs() -> Costs {
    let mut observer = linux();
    let write = |slot, value| Event::write(0, Pa(PAGES), slot, value);
    let dsb = |kind| Event::Dsb { cpu: 0, kind };
    let round = [
        write(511, 0),
        dsb(Barrier::Ishst),
        Event::Tlbi { cpu: 0, op: Tlb::Vaale1is, operand: ((VA >> 12u32) + 511) & ((1 << 44u32) - 1) },
        dsb(Barrier::Ish),
        Event::Isb { cpu: 0 },
        write(511, page(511)),
        dsb(Barrier::Ishst),
        Event::Isb { cpu: 0 },
    ];
    let stores: Vec<_> =
        (0..256u64).map(|n| Event::write(0, Pa(0xc000_0000 + n * 0x3000), n as usize % 512, n)).collect();
    let accesses: Vec<_> =
        (0..256u64).map(|n| Event::Access { cpu: 0, va: VA + n * 0x3000, how: Access::Write }).collect();
    let costs = Costs {
        event: each(&mut observer, &round),
        store: each(&mut observer, &stores),
        access: each(&mut observer, &accesses),
    };
    assert_eq!(observer.findings().count(), 0, "what is measured is right");
    costs
}

/// Returns the nanoseconds of one event.
fn each(observer: &mut Observer<Ram>, events: &[Event]) -> f64 {
    let (mut nanoseconds, mut count) = (0, 0);
    while nanoseconds < 1_000_000_000 {
        timed(&mut nanoseconds, || {
            for _ in 0..100u32 {
                events.iter().for_each(|event| observer.step(event, 0));
            }
        });
        count += 100 * events.len();
    }
    nanoseconds as f64 / count as f64
}

/// A page of the kernel.
const fn page(slot: u64) -> u64 {
    (DATA + slot * 0x1000) | 0x60_0000_0000_0703
}

/// Returns a kernel with two CPUs and 512 pages, most of them unmapped and not yet invalidated.
fn linux() -> Observer<Ram> {
    let mut tables = vec![0; 4 * 512];
    (0..3).for_each(|level| tables[level * 512] = (ROOT + 0x1000 * (level as u64 + 1)) | 3);
    (0..512).for_each(|slot| tables[3 * 512 + slot as usize] = page(slot));
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry that exists");
    let setup = Setup::new(g, &[Core::STRONG; 2]);
    let mut observer = Observer::new(&setup, Ram { tables, last: 0 }).expect("a machine");
    for cpu in 0..2 {
        observer.step(&Event::Msr { cpu, register: Register::Ttbr1, value: ROOT }, 0);
    }
    for slot in 0..UNDER_WAY {
        observer.step(&Event::write(0, Pa(PAGES), slot, 0), 0);
    }
    observer.step(&Event::Dsb { cpu: 0, kind: Barrier::Ishst }, 0);
    observer
}
