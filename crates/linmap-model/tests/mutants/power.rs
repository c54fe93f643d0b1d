//! CPUs that are reset, and translation that is turned off and on.

use linmap::MemoryType;
use linmap::cpu::Registers;
use linmap_model::{Barrier::*, Core, Event, Register::*, Tlb::*};

use crate::scene::{Plan, READ_ONLY, Scene};

/// The steps of a CPU from its reset until it is on the map.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    Reset,
    Tlbi,
    Dsb,
    Mair,
    Tcr,
    Ttbr0,
    Ttbr1,
    Isb,
    On,
}

use Step::{Dsb, Isb, On, Reset, Tlbi};

const STEPS: [Step; 10] = [Reset, Tlbi, Dsb, Step::Mair, Step::Tcr, Step::Ttbr0, Step::Ttbr1, Isb, On, Isb];

/// CPU 0 is on the map; CPU 1 takes some steps to it, and protects a page.
fn comes(steps: impl IntoIterator<Item = Step>) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG; 2]).unloaded();
    s.configure().load();
    s.cpu(1).event(Event::Report { cpu: 1 });
    for step in steps {
        s.take(step);
    }
    s.protect(0);
    s
}

fn comes_without(step: Option<Step>) -> Scene {
    comes(STEPS.into_iter().filter(|&s| Some(s) != step))
}

impl Scene {
    fn take(&mut self, step: Step) {
        let (root, empty) = (self.tree.tables[0], self.empty);
        match step {
            Step::Reset => self.event(Event::Reset { cpu: 1 }),
            Step::Tlbi => self.tlbi_all(Vmalle1),
            Step::Dsb => self.dsb(Nsh),
            Step::Mair => self.msr(Mair, MemoryType::mair(true)),
            Step::Tcr => self.msr(Tcr, self.tcr()),
            Step::Ttbr0 => self.msr(Ttbr0, empty),
            Step::Ttbr1 => self.msr(Ttbr1, root),
            Step::Isb => self.isb(),
            Step::On => self.msr(Sctlr, Registers::SCTLR_ON),
        };
    }

    /// This CPU turns its MMU off.
    pub(crate) fn off(&mut self) -> &mut Self {
        self.msr(Sctlr, Registers::SCTLR_OFF).isb()
    }

    /// This CPU turns its MMU on.
    pub(crate) fn on(&mut self) -> &mut Self {
        self.msr(Sctlr, Registers::SCTLR_ON).isb()
    }
}

pub(crate) fn on_without_a_tlbi(wrong: bool) -> Scene {
    comes_without(wrong.then_some(Tlbi))
}

pub(crate) fn on_without_the_dsb_of_the_tlbi(wrong: bool) -> Scene {
    comes_without(wrong.then_some(Dsb))
}

pub(crate) fn on_with_the_tlbi_before_the_reset(wrong: bool) -> Scene {
    let mut steps = STEPS;
    if wrong {
        steps[..3].rotate_left(1);
    }
    comes(steps)
}

/// CPU 1 may have been off when CPU 0 broadcast its TLBI.
pub(crate) fn on_after_the_tlbi_of_another_cpu(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG; 2]).unloaded();
    s.configure().load().event(Event::Report { cpu: 1 }).event(Event::Reset { cpu: 1 });
    s.cpu(if wrong { 0 } else { 1 }).tlbi_all(Vmalle1is).dsb(Ish).isb().cpu(1);
    STEPS.into_iter().skip(3).for_each(|step| s.take(step));
    s
}

pub(crate) fn on_after_the_tlbi_of_another_regime(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG; 2]).unloaded();
    s.configure().load().cpu(1).event(Event::Report { cpu: 1 }).event(Event::Reset { cpu: 1 });
    s.tlbi_all(if wrong { Alle2 } else { Vmalle1 });
    STEPS.into_iter().skip(2).for_each(|step| s.take(step));
    s
}

pub(crate) fn on_with_tcr_unknown(wrong: bool) -> Scene {
    comes_without(wrong.then_some(Step::Tcr))
}

pub(crate) fn on_with_ttbr0_unknown(wrong: bool) -> Scene {
    comes_without(wrong.then_some(Step::Ttbr0))
}

pub(crate) fn on_without_an_isb_before(wrong: bool) -> Scene {
    let steps = STEPS.into_iter().enumerate().filter(|&(n, _)| !wrong || n != 7).map(|(_, step)| step);
    comes([Reset, Tlbi, Dsb, Isb].into_iter().chain(steps.skip(3)))
}

pub(crate) fn on_without_an_isb_after(wrong: bool) -> Scene {
    comes(STEPS.into_iter().take(if wrong { 9 } else { 10 }))
}

/// CPU 1 is off while CPU 0 invalidates for itself alone.
pub(crate) fn on_with_a_stale_entry(wrong: bool) -> Scene {
    let mut s = comes_without(None);
    let new = s.with(1, READ_ONLY);
    let change = s.change(1..2, Some(new));
    s.off().cpu(0).begin("protect", [change]).put(1, new);
    s.dsb(Ishst).tlbi(Vaae1, 1).dsb(Nsh).isb().done();
    s.cpu(1);
    if !wrong {
        s.forget();
    }
    s.on();
    s
}

/// With the MMU off CPU 1 names another tree.
pub(crate) fn on_with_another_tree(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let mut s = plan.scene();
    let second = s.create(Plan { leaf: s.leaf(100), ..plan }).tables[0];
    s.off().msr(Ttbr1, second).isb();
    if !wrong {
        s.forget();
    }
    s.on();
    s
}

/// All registers change while the MMU is off, after the TLBI.
pub(crate) fn on_with_another_tree_and_tcr(wrong: bool) -> Scene {
    let plan = Plan::pages(&[Core::STRONG]);
    let mut s = plan.unloaded();
    let second = s.create(Plan { leaf: s.leaf(100), ..plan }).tables[0];
    s.configure().load().off();
    if !wrong {
        s.tlbi_all(Vmalle1).dsb(Nsh);
    }
    let tbi1 = s.tcr() | 1 << 38;
    s.msr(Mair, MemoryType::mair(false)).msr(Tcr, tbi1).msr(Ttbr1, second).isb().on();
    s
}

/// A tree in the registers of a CPU that is off is not in use.
pub(crate) fn freed_while_it_is_off(wrong: bool) -> Scene {
    let mut s = Plan::pages(&[Core::STRONG]).scene();
    let tables = s.tree.tables.clone();
    s.off().forget();
    let after = s.empty;
    if !wrong {
        s.msr(Ttbr1, after).isb();
    }
    for table in tables {
        s.free(table);
    }
    s.on();
    s
}

pub(crate) fn reset_in_an_operation(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.cpu(1).begin("nothing", []);
    s.in_order(!wrong, |s| s.done(), |s| s.event(Event::Reset { cpu: 1 }));
    s
}
