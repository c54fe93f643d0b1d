//! A host in EL2&0: its upper half is the kernel's map, and is judged as that of EL1.

use linmap::Pa;
use linmap::arch::Leaf;
use linmap_model::{Access, Barrier::*, Core, Event, Register::*, Tlb::*};

use crate::regimes::{E2H, TGE, loaded};
use crate::scene::{Plan, READ_ONLY, Scene};

const TWO: [Core; 2] = [Core::STRONG; 2];

/// All CPUs are on the host's map.
fn host(plan: Plan<'_>) -> Scene {
    loaded(plan, E2H | TGE, Ttbr1El2, 0)
}

pub(crate) fn not_reported(wrong: bool) -> Scene {
    let mut s = Plan::pages(&TWO).unloaded();
    let root = s.tree.tables[0];
    s.cpu(1);
    if !wrong {
        s.event(Event::Report { cpu: 1 });
    }
    s.msr(Hcr, E2H | TGE).isb().msr(Ttbr1El2, root).isb();
    s
}

pub(crate) fn no_isb_before_its_work(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).unloaded();
    let (root, to) = (s.tree.tables[0], s.with(0, READ_ONLY));
    s.msr(Hcr, E2H | TGE).isb().msr(Ttbr1El2, root);
    if !wrong {
        s.isb();
    }
    s.begin("protect", [s.change(0..1, Some(to))])
        .put(0, to)
        .dsb(Ishst)
        .tlbi(Vaae1is, 0)
        .dsb(Ish)
        .isb()
        .done();
    s
}

/// An area has a read-only page, of the linear map or of other memory.
pub(crate) fn writable_by_the_linear_map(wrong: bool) -> Scene {
    let mut s = host(Plan { linear: true, ..Plan::pages(&TWO) });
    let oa = if wrong { s.leaf(0).oa } else { Pa(600 << 30) };
    s.map(40, Leaf { oa, attributes: READ_ONLY, ..s.leaf(0) });
    s
}

pub(crate) fn use_of_what_is_not_mapped(wrong: bool) -> Scene {
    let mut s = host(Plan::pages(&TWO));
    s.access(Access::Read, if wrong { 40 } else { 0 });
    s
}
