//! ASIDs: two processes of which CPUs use one after the other.

use linmap::arch::Leaf;
use linmap::{Attributes as A, Pa};
use linmap_model::{Barrier::*, Core, Event, Register::*, Tlb::*};

use crate::scene::{Plan, Scene};

const TWO: [Core; 2] = [Core::STRONG; 2];
const LOCAL: A = A::RAM.union(A::NOT_GLOBAL);
const ASID_1: u64 = 1 << 48;
const ASID_2: u64 = 2 << 48;

/// Two processes with pages at the same addresses, and the values of TTBR0 for them. No CPU has loaded either.
fn processes(attributes: A) -> (Scene, [u64; 2]) {
    let page = Plan::pages(&TWO);
    let leaf = |oa| Leaf { attributes, oa: Pa(oa), ..page.leaf };
    let plan = Plan { va: Some(1 << 30), leaf: leaf(512 << 30), ..page };
    let mut s = plan.unloaded();
    let first = s.tree.tables[0];
    let second = s.create(Plan { leaf: leaf(600 << 30), ..plan }).tables[0];
    s.event(Event::Report { cpu: 1 });
    (s, [first | ASID_1, second | ASID_2])
}

/// CPU 1 was on the first process and is on the second now; CPU 0 acts.
fn switched(attributes: A) -> (Scene, [u64; 2]) {
    let (mut s, [first, second]) = processes(attributes);
    s.cpu(1).msr(Ttbr0, first).isb().msr(Ttbr0, second).isb().cpu(0);
    (s, [first, second])
}

/// The first page of the first process goes; what comes after the store and its DSB is the story's.
fn unmapping(s: &mut Scene) -> &mut Scene {
    s.begin("unmap", [s.change(0..1, None)]).clear(0).dsb(Ishst)
}

/// A page of a process goes while no CPU is on it.
pub(crate) fn of_a_process_that_does_not_run(wrong: bool) -> Scene {
    let (mut s, [first, _]) = switched(LOCAL);
    let operand = s.address(0) | if wrong { ASID_2 } else { ASID_1 };
    unmapping(&mut s).tlbi_with(Vae1is, operand).dsb(Ish).isb().done();
    s.cpu(1).msr(Ttbr0, first).isb();
    s
}

/// A CPU goes over to another process while a page of its first one goes.
pub(crate) fn switch_amid_an_unmap(wrong: bool) -> Scene {
    let (mut s, [first, second]) = processes(LOCAL);
    s.cpu(1).msr(Ttbr0, first).isb().cpu(0);
    unmapping(&mut s).cpu(1).msr(Ttbr0, if wrong { second ^ ASID_2 | ASID_1 } else { second }).isb();
    let operand = s.address(0) | ASID_1;
    s.cpu(0).tlbi_with(Vae1is, operand).dsb(Ish).isb().done();
    s
}

/// The tables of a process go with its pages, by the ASID alone.
fn tables_by_asid(running: bool, asid: u64, attributes: A) -> Scene {
    let (mut s, [first, second]) = processes(attributes);
    s.cpu(1).msr(Ttbr0, first).isb();
    if !running {
        s.msr(Ttbr0, second).isb();
    }
    let table = s.cpu(0).table();
    s.begin("unmap", [s.change(0..32, None)]).put_above(0).dsb(Ishst);
    s.tlbi_with(Aside1is, asid).dsb(Ish).isb().done().free(table);
    s.cpu(1).msr(Ttbr0, second).isb();
    s
}

pub(crate) fn tables_of_a_process_that_does_not_run(wrong: bool) -> Scene {
    tables_by_asid(false, if wrong { ASID_2 } else { ASID_1 }, LOCAL)
}

pub(crate) fn tables_of_a_process_that_runs(wrong: bool) -> Scene {
    tables_by_asid(true, ASID_1, if wrong { A::RAM } else { LOCAL })
}

/// A process is gone, with all its tables.
fn exit(s: &mut Scene, asid: u64) {
    s.tlbi_with(Aside1is, asid).dsb(Ish).isb();
    for table in s.tree.tables.clone() {
        s.free(table);
    }
}

pub(crate) fn exit_by_another_asid(wrong: bool) -> Scene {
    let (mut s, _) = switched(LOCAL);
    exit(&mut s, if wrong { ASID_2 } else { ASID_1 });
    s
}

/// The process that CPU 1 goes over to has nothing, so that it may be on it with global pages of the first.
pub(crate) fn exit_with_global_pages(wrong: bool) -> Scene {
    let (mut s, [first, second]) = processes(if wrong { A::RAM } else { LOCAL });
    let empty = s.empty | ASID_2;
    s.cpu(1).msr(Ttbr0, first).isb().msr(Ttbr0, empty).isb().cpu(0);
    exit(&mut s, ASID_1);
    s.cpu(1).msr(Ttbr0, second).isb();
    s
}

/// The ISB after which CPU 1 walks the tables no more comes after the TLBI.
pub(crate) fn exit_before_the_isb(wrong: bool) -> Scene {
    let (mut s, [first, second]) = processes(LOCAL);
    s.cpu(1).msr(Ttbr0, first).isb().msr(Ttbr0, second);
    s.in_order(!wrong, |s| s.cpu(1).isb(), |s| s.cpu(0).tlbi_with(Aside1is, ASID_1).dsb(Ish).isb());
    for table in s.cpu(0).tree.tables.clone() {
        s.free(table);
    }
    s
}

pub(crate) fn asid_used_again(wrong: bool) -> Scene {
    let (mut s, [first, second]) = processes(LOCAL);
    let empty = s.empty;
    s.cpu(1).msr(Ttbr0, first).isb().msr(Ttbr0, empty).isb();
    s.tlbi_with(Aside1is, if wrong { ASID_2 } else { ASID_1 }).dsb(Ish).isb();
    s.msr(Ttbr0, second ^ ASID_2 | ASID_1).isb();
    s
}

/// The kernel's pages are not global, and the lower half has another ASID than the upper one.
pub(crate) fn two_asids_for_the_upper_half(wrong: bool) -> Scene {
    let page = Plan::pages(&[Core::STRONG]);
    let leaf = Leaf { attributes: LOCAL, ..page.leaf };
    let mut s = Plan { leaf, ..page }.unloaded();
    let (root, empty) = (s.tree.tables[0] | ASID_1, s.empty | if wrong { ASID_2 } else { ASID_1 });
    s.msr(Ttbr0, empty).isb().msr(Ttbr1, root).isb();
    s
}

/// The kernel maps a page that is not global, while a process runs that has an ASID of its own.
pub(crate) fn local_page_beside_a_process(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).scene();
    let empty = s.empty | ASID_2;
    s.msr(Ttbr0, empty).isb();
    let leaf = s.with(40, if wrong { LOCAL } else { A::RAM });
    s.map(40, leaf);
    s
}
