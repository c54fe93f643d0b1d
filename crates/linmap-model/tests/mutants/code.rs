//! Instructions that are stored and then executed.

use linmap_model::{Barrier, Barrier::*, CacheOp, Core, Event};

use crate::scene::Scene;

const LINE: u64 = 512 << 30;

/// CPU 0 stores code and makes it fetchable, but for one of the four steps; both CPUs execute it.
fn stored(left_out: Option<usize>, isb_on_the_other: bool) -> Scene {
    stored_with(Ish, left_out, isb_on_the_other)
}

fn stored_with(kind: Barrier, left_out: Option<usize>, isb_on_the_other: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG; 2]);
    s.event(Event::Code { cpu: 0, pa: LINE });
    let cache = |op| Event::Cache { cpu: 0, op, pa: LINE };
    let dsb = Event::Dsb { cpu: 0, kind };
    let steps = [cache(CacheOp::DcCvau), dsb.clone(), cache(CacheOp::IcIvau), dsb];
    for (i, step) in steps.into_iter().enumerate() {
        if Some(i) != left_out {
            s.event(step);
        }
    }
    s.isb().event(Event::Execute { cpu: 0, pa: LINE }).cpu(1);
    if isb_on_the_other {
        s.isb();
    }
    s.event(Event::Execute { cpu: 1, pa: LINE });
    s
}

pub(crate) fn with_barriers_of_its_own(wrong: bool) -> Scene {
    stored_with(if wrong { Nsh } else { Ish }, None, true)
}

pub(crate) fn without_dc_cvau(wrong: bool) -> Scene {
    stored(wrong.then_some(0), true)
}

pub(crate) fn without_dsb_before_ic_ivau(wrong: bool) -> Scene {
    stored(wrong.then_some(1), true)
}

pub(crate) fn without_ic_ivau(wrong: bool) -> Scene {
    stored(wrong.then_some(2), true)
}

pub(crate) fn without_dsb_after_ic_ivau(wrong: bool) -> Scene {
    stored(wrong.then_some(3), true)
}

pub(crate) fn without_isb_on_the_other_cpu(wrong: bool) -> Scene {
    stored(None, !wrong)
}

/// The third instruction of the line is stored, and that line is maintained, or the one after it.
pub(crate) fn another_line_maintained(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.event(Event::Code { cpu: 0, pa: LINE + 8 });
    let pa = if wrong { LINE + 64 } else { LINE + 60 };
    for op in [CacheOp::DcCvau, CacheOp::IcIvau] {
        s.event(Event::Cache { cpu: 0, op, pa }).dsb(Ish);
    }
    s.isb().event(Event::Execute { cpu: 0, pa: LINE });
    s
}

/// The second instruction of a line is executed, and the first was stored to, or another line's.
pub(crate) fn another_instruction_of_a_stored_line(wrong: bool) -> Scene {
    let mut s = Scene::pages(&[Core::STRONG]);
    s.event(Event::Code { cpu: 0, pa: if wrong { LINE } else { LINE + 64 } });
    s.event(Event::Execute { cpu: 0, pa: LINE + 4 });
    s
}
