//! Traffic: before each window that is counted, every other CPU changes a page of its own, in a gigabyte of its own. So a
//! plugin of QEMU sees which lines an operation writes or reads that operations elsewhere write.
//!
//! The pages are other addresses of the scratch memory's first ones. They stay mapped.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use linmap::error::ChangeError;
use linmap::{Attributes, Change, ChangeFlags, Memory, Pa, Va};

use super::scratch::{scratch, unused_gigabyte};
use crate::console::say;
use crate::ending::fail;
use crate::system::System;
use crate::{cpu, parking, smp};

/// The most CPUs that take part.
pub(super) const CPUS: usize = 8;

static ON: AtomicBool = AtomicBool::new(false);

/// Begins it. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let Some(_) = scratch(system, "traffic", CPUS as u64) else { return true };
    let mapped = others().try_for_each(|cpu| parking::again(|| map(system, cpu)));
    match mapped {
        Ok(()) => ON.store(true, Relaxed),
        Err(e) => say!("traffic: a page cannot be mapped: {e}"),
    }
    say!("linmap: {{\"tests\":{{\"traffic\":{{\"ok\":{},\"cpus\":{}}}}}}}", mapped.is_ok(), others().count());
    mapped.is_ok()
}

/// Has each other CPU change its page, if there is traffic.
#[inline(never)]
pub(super) fn pass(system: &System<'_>) {
    if !ON.load(Relaxed) {
        return;
    }
    for other in others() {
        smp::on(other, &|cpu| {
            if let Err(e) = change(system, cpu) {
                fail(format_args!("traffic: CPU {cpu} cannot change its page: {e}"));
            }
        });
    }
}

fn others() -> impl Iterator<Item = usize> {
    let own = cpu::this().index;
    cpu::running().take(CPUS).filter(move |cpu| *cpu != own)
}

/// Returns the address of a CPU's page.
fn page(system: &System<'_>, cpu: usize) -> Va {
    unused_gigabyte(system, cpu as u64)
}

fn map(system: &System<'_>, cpu: usize) -> Result<(), ChangeError> {
    let first = system.memory.scratch.range.start.0;
    let pa = Pa(first + ((cpu as u64) << system.geometry.page_shift()));
    let (space, platform, va) = (system.space, system.platform(), page(system, cpu));
    // SAFETY: the address is this CPU's alone. Memory without an owner, mapped as the linear map has it; nothing accesses it here.
    unsafe { space.on(&platform).map(va, 1, pa, Attributes::RAM) }
}

fn change(system: &System<'_>, cpu: usize) -> Result<(), ChangeError> {
    let (space, platform, va) = (system.space, system.platform(), page(system, cpu));
    if let Some(frame) = system.frames.take() {
        system.frames.give(frame);
    }
    // SAFETY: nothing accesses the page.
    unsafe {
        space.on(&platform).protect(va, 1, Change::READ_ONLY)?;
        space.on(&platform).protect(va, 1, Change::WRITABLE)?;
        space.on(&platform).change(va, 1, Change::INVALID, ChangeFlags::LATER)?;
        space.on(&platform).flush(va, 1)?;
        space.on(&platform).change(va, 1, Change::VALID, ChangeFlags::LATER)
    }
}
