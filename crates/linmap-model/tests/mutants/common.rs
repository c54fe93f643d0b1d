//! CPUs that share TLB entries, by CnP.

use linmap::arch::Leaf;
use linmap::{Attributes as A, MemoryType};
use linmap_model::{Barrier::Ishst, Core, Event, Register::*};

use crate::scene::{Plan, Scene};

const STRONG: Core = Core { cnp: true, ..Core::STRONG };
const WEAK: Core = Core { cnp: true, ..Core::WEAK };
const CNP: u64 = 1;

impl Scene {
    /// This CPU loads a tree, and shares its entries.
    fn load_common(&mut self, root: u64) -> &mut Self {
        self.msr(Ttbr1, root | CNP).isb()
    }
}

/// Both CPUs are on the map, and share their entries.
fn shared(plan: Plan<'_>) -> Scene {
    let mut s = plan.unloaded();
    let root = s.tree.tables[0];
    s.load_common(root).cpu(1).event(Event::Report { cpu: 1 }).load_common(root).cpu(0);
    s
}

/// CPU 1 leaves the map by the empty table.
pub(crate) fn empty_table_in_common(wrong: bool) -> Scene {
    let mut s = shared(Plan::pages(&[STRONG; 2]));
    let (root, empty) = (s.tree.tables[0], s.empty | if wrong { CNP } else { 0 });
    s.cpu(1).event(Event::Park { cpu: 1 }).msr(Ttbr1, empty).isb().forget().load_common(root).unpark();
    s
}

/// Two trees that say the same.
pub(crate) fn two_trees_in_common(wrong: bool) -> Scene {
    let plan = Plan::pages(&[STRONG; 2]);
    let mut s = plan.unloaded();
    let second = s.create(plan).tables[0];
    let root = s.tree.tables[0];
    s.load_common(root).cpu(1).event(Event::Report { cpu: 1 });
    s.msr(Ttbr1, second | if wrong { CNP } else { 0 }).isb();
    s
}

/// A block is split while CPU 1, which may abort, is away. It has emptied its own TLB, and CPU 0 has the block.
pub(crate) fn shared_with_a_weak_cpu(wrong: bool) -> Scene {
    let mut s = shared(Plan::blocks(&[STRONG, WEAK]));
    let (child, root) = (s.child(0), s.tree.tables[0]);
    s.cpu(1).park().forget().cpu(0).begin("split", []).link(0, child).publish();
    s.in_order(!wrong, |s| s.cpu(0).flush(0..1), |s| s.cpu(1).load_common(root).unpark());
    s.cpu(0).done();
    s
}

/// Without CnP, the CPU goes on with what its TLB knows of the bit.
pub(crate) fn changed_without_a_tlbi(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[STRONG; 2]).scene();
    let root = s.tree.tables[0];
    s.park();
    if !wrong {
        s.forget();
    }
    s.load_common(root).unpark();
    s
}

/// TBI1 is of no consequence for the map, and TLBs may hold it.
pub(crate) fn with_another_tcr(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[STRONG; 2]).unloaded();
    let (root, tcr) = (s.tree.tables[0], s.tcr() | if wrong { 1 << 38 } else { 0 });
    s.configure().load_common(root);
    s.cpu(1).event(Event::Report { cpu: 1 }).msr(Tcr, tcr).msr(Mair, MemoryType::mair(true)).isb();
    s.load_common(root);
    s
}

/// Two CPUs with two trees and two ASIDs. What is global is shared all the same.
pub(crate) fn global_pages_with_two_asids(wrong: bool) -> Scene {
    let page = Plan::pages(&[STRONG; 2]);
    let attributes = if wrong { A::RAM } else { A::RAM | A::NOT_GLOBAL };
    let plan = Plan { leaf: Leaf { attributes, ..page.leaf }, ..page };
    let mut s = plan.unloaded();
    let (second, root) = (s.create(plan).tables[0], s.tree.tables[0]);
    s.load_common(root | 1 << 48).cpu(1).event(Event::Report { cpu: 1 }).load_common(second | 2 << 48);
    s
}

/// Two CPUs with the trees of two guests.
pub(crate) fn two_trees_of_one_vmid(wrong: bool) -> Scene {
    let plan = Plan::pages(&[STRONG; 2]);
    let mut s = plan.unloaded();
    let (second, root) = (s.create(plan).tables[0], s.tree.tables[0]);
    let (stage_2, entries) = (s.alloc(), s.g.entries(s.g.root()));
    s.write(stage_2, 0, 0, entries, 0).dsb(Ishst);
    let (first_guest, other) = (s.empty | 1 << 48, if wrong { s.empty | 1 << 48 } else { stage_2 | 2 << 48 });
    s.msr(Vttbr, first_guest).isb().load_common(root);
    s.cpu(1).event(Event::Report { cpu: 1 }).msr(Vttbr, other).isb().load_common(second);
    s
}
