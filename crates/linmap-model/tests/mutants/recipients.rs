//! The CPUs that a broadcast invalidation is for, and those that need not heed it.

use linmap_model::{Barrier::*, Core, CpuId, Tlb::*};

use crate::scene::{READ_ONLY, Scene};

const NO_RANGES: Core = Core { range_tlbi: false, ..Core::STRONG };

/// A run of pages becomes read-only, and CPU 1 has no TLBIs by range.
pub(crate) fn by_range_to_a_cpu_without(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG, NO_RANGES]);
    s.begin("protect", [s.change(0..16, Some(s.with(0, READ_ONLY)))]);
    for i in 0..16 {
        s.put_as(i, READ_ONLY);
    }
    s.dsb(Ishst);
    if wrong {
        s.tlbi_with(Rvaale1is, s.range(16));
    } else {
        for i in 0..16 {
            s.tlbi(Vaale1is, i);
        }
    }
    s.dsb(Ish).isb().done();
    s
}

/// 32 pages go with their table.
pub(crate) fn table_by_range_to_a_cpu_without(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG, NO_RANGES]);
    let table = s.table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    if wrong {
        s.tlbi_with(Rvaae1is, s.range(32));
    } else {
        s.tlbi_all(Vmalle1is);
    }
    s.dsb(Ish).isb();
    s.free(table).done();
    s
}

/// One page becomes read-only; this CPU does it.
fn protected_by(cpu: CpuId, cores: &[Core], operand: impl Fn(&Scene) -> u64, by_range: bool) -> Scene {
    let mut s = Scene::pages(cores);
    let new = s.with(0, READ_ONLY);
    let change = s.change(0..1, Some(new));
    s.cpu(cpu).begin("protect", [change]).put(0, new).dsb(Ishst);
    let operand = operand(&s);
    s.tlbi_with(if by_range { Rvaale1is } else { Vaale1is }, operand).dsb(Ish).isb().done();
    s
}

pub(crate) fn by_range_on_a_cpu_without(wrong: bool) -> Scene {
    let operand = |s: &Scene| if wrong { s.range(2) } else { s.address(0) };
    protected_by(0, &[NO_RANGES, Core::STRONG], operand, wrong)
}

/// A recipient without level hints invalidates all the same; the CPU that issues it must have them.
pub(crate) fn hint_from_the_cpu_without(wrong: bool) -> Scene {
    let cores = [Core { ttl: false, ..Core::STRONG }, Core::STRONG];
    protected_by(if wrong { 0 } else { 1 }, &cores, |s| s.address(0) | s.hint(3), false)
}
