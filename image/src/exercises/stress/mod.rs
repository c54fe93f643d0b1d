//! All CPUs change the map at random, at the same time, compared with a model of what each page must allow
//! (`run=stress:OPS:SEED`).
//!
//! A CPU owns the pages that it changes, and probes some of them before and after, when it knows exactly what they
//! allow. It also probes pages of other CPUs and pages that it has probed before, so that a stale translation shows on
//! any CPU: if no CPU has owned such a page meanwhile, it is as the model says; if a change is under way there, it is
//! as before or as after the change. In the second half the frame source refuses pages at random: then an operation
//! succeeds, or fails for want of a page and has changed nothing.
//!
//! On one CPU the same seed does the same, step by step.

mod more;
mod probes;
mod restore;
mod state;
mod worker;

use core::sync::atomic::Ordering::Relaxed;

use kernel_plan::tasks::Stress as Parameters;

use self::state::Stress;
use crate::console::say;
use crate::system::System;
use crate::{clock, smp};

/// Does what the parameters ask for. Returns true if all went well.
pub(super) fn run(system: &System<'_>, Parameters { operations, seed }: Parameters) -> bool {
    let seed = seed.unwrap_or(clock::now() & 0xffff_ffff);
    let Some(stress) = Stress::new(system, seed) else { return true };
    say!("stress: {operations} operations from seed {seed}");
    let whole = stress.whole_leaves();
    stress.fill();
    stress.hide();
    smp::on_all(&|cpu| stress.work(cpu, operations, 0));
    system.frames.refuse_at_random(seed);
    stress.scarce.store(true, Relaxed);
    smp::on_all(&|cpu| stress.work(cpu, operations, 1));
    let no_pages = system.frames.refuse_none();
    stress.scarce.store(false, Relaxed);
    smp::on_all(&|cpu| stress.probe_all(cpu));
    stress.restore(whole);
    smp::on_all(&|cpu| stress.probe_all(cpu));
    stress.conclude(operations, no_pages)
}
