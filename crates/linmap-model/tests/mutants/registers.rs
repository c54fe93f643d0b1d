//! TCR and MAIR under a map in use, and writes of registers without an ISB.

use linmap::arch::Leaf;
use linmap::cpu::Registers;
use linmap::{MemoryType, Pa};
use linmap_model::{Barrier::*, Core, Event, Register::*, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

const TBI1: u64 = 1 << 38;
/// The ASID is that of TTBR1. No TLB holds this bit.
const A1: u64 = 1 << 22;

impl Scene {
    /// The value of TCR_EL1 that fits the tables: 16-bit ASIDs, 48-bit physical addresses.
    pub(crate) fn tcr(&self) -> u64 {
        let bits = self.g.va_bits();
        Registers::tcr(self.g.granule(), self.g.oa_format(), bits, bits) | Registers::ips(48) | 1 << 36
    }

    /// This CPU says how it translates.
    pub(crate) fn configure(&mut self) -> &mut Self {
        self.msr(Tcr, self.tcr()).msr(Mair, MemoryType::mair(true)).isb()
    }
}

/// A map that CPUs have loaded which wrote TCR and MAIR before.
fn configured(cores: &[Core]) -> Scene {
    let mut s = Plan::pages(cores).unloaded();
    for cpu in 0..cores.len() as u8 {
        s.cpu(cpu).event(Event::Report { cpu }).configure().load();
    }
    s.cpu(0);
    s
}

/// The CPU leaves the map, does something without its tables, and comes back.
fn away(work: impl FnOnce(&mut Scene)) -> Scene {
    let mut s = configured(&[Core::STRONG]);
    work(s.park());
    s.load().unpark();
    s
}

pub(crate) fn size_of_another_map(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let tcr = s.tcr();
    s.msr(Tcr, if wrong { tcr - (9 << 16) } else { tcr }).isb();
    s
}

/// 4K is 0b00 in TG0 and 0b10 in TG1.
pub(crate) fn granule_as_in_the_other_half(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let tcr = s.tcr();
    s.msr(Tcr, if wrong { tcr & !(3 << 30) } else { tcr }).isb().load();
    s
}

/// The map of the pages at 512G, and physical addresses of 36 bits or of 40.
pub(crate) fn too_few_physical_address_bits(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let tcr = s.tcr() & !(7 << 32) | Registers::ips(if wrong { 36 } else { 40 });
    s.msr(Tcr, tcr).isb().load();
    s
}

pub(crate) fn tcr_without_a_tlbi(wrong: bool) -> Scene {
    away(|s| {
        s.msr(Tcr, s.tcr() | TBI1).isb();
        if !wrong {
            s.forget();
        }
    })
}

pub(crate) fn tcr_with_the_tlbi_before_the_isb(wrong: bool) -> Scene {
    away(|s| {
        s.msr(Tcr, s.tcr() | TBI1);
        s.in_order(!wrong, |s| s.isb(), |s| s.tlbi_all(Vmalle1).dsb(Nsh)).isb();
    })
}

pub(crate) fn tcr_without_an_isb(wrong: bool) -> Scene {
    let mut s = configured(&[Core::STRONG]);
    let tcr = s.tcr() | A1;
    s.park().forget().load().msr(Tcr, tcr);
    if !wrong {
        s.isb();
    }
    s.unpark();
    s
}

/// Type 1 is that of the map, type 2 is not in use.
pub(crate) fn memory_type_in_use(wrong: bool) -> Scene {
    let mut s = configured(&[Core::STRONG]);
    let index = if wrong { 1 } else { 2 };
    let change = MemoryType::mair(true) & !(0xff << (8 * index)) | 0x04 << (8 * index);
    s.msr(Mair, change).isb().forget();
    s
}

pub(crate) fn memory_type_without_a_tlbi(wrong: bool) -> Scene {
    away(|s| {
        s.msr(Mair, MemoryType::mair(true) & !0xff00 | 0x4400).isb();
        if !wrong {
            s.forget();
        }
    })
}

/// The map is in use by one CPU, and another comes.
fn joined_with(tcr: u64, mair: u64) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG; 2]).unloaded();
    s.configure().load();
    let tcr = s.tcr() ^ tcr;
    s.cpu(1).event(Event::Report { cpu: 1 }).msr(Tcr, tcr).msr(Mair, mair).isb().load();
    s
}

/// Without tags, memory is the same memory; type 4 is a device for one CPU and not for the other.
pub(crate) fn cpus_with_two_meanings_of_a_type(wrong: bool) -> Scene {
    let mair = MemoryType::mair(false);
    joined_with(0, if wrong { mair & !(0xff << 32) | 0x44 << 32 } else { mair })
}

/// Write-back and write-through walks.
pub(crate) fn cpus_with_two_kinds_of_walks(wrong: bool) -> Scene {
    joined_with(if wrong { 0b11 << 24 } else { TBI1 }, MemoryType::mair(true))
}

pub(crate) fn asid_of_more_bits_than_tcr_says(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let (tcr, root) = (s.tcr(), s.tree.tables[0]);
    s.msr(Tcr, if wrong { tcr & !(1 << 36) } else { tcr }).isb().msr(Ttbr1, root | 0x100 << 48).isb();
    s
}

pub(crate) fn back_without_an_isb(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    let root = s.tree.tables[0];
    s.park().forget().msr(Ttbr1, root);
    if !wrong {
        s.isb();
    }
    s.unpark();
    s
}

pub(crate) fn operation_without_an_isb(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let (root, new) = (s.tree.tables[0], s.with(0, READ_ONLY));
    s.msr(Ttbr1, root);
    if !wrong {
        s.isb();
    }
    s.begin("protect", [s.change(0..1, Some(new))]).put(0, new).flush(0..1).done();
    s
}

/// Tables are written through the map.
pub(crate) fn table_written_without_an_isb(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let oa = Pa(0x1000_0000);
    let mut s = Plan { leaf: Leaf { oa, ..plan.leaf }, tables_mapped: true, ..plan }.unloaded();
    let (table, root) = (s.alloc(), s.tree.tables[0]);
    s.msr(Ttbr1, root);
    s.in_order(!wrong, |s| s.isb(), |s| s.write(table, 0, 0, 512, 0)).free(table);
    s
}
