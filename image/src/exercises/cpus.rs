//! All running CPUs at work: jobs reach them, they see the same memory, and they change the map one at a time.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use linmap::arch::Level;

use linmap::error::ChangeError;
use linmap::{Attributes, Memory, Stats, Va};

use crate::console::say;
use crate::cpu;
use crate::image::boot_stack_guard;
use crate::probe::{Fault, try_read};
use crate::system::System;
use crate::virtual_addresses::stack_guard;
use crate::{report, smp};

/// The number of times that all of them together map and unmap a page.
const ROUNDS: u64 = 400;

/// The most bytes of a stack, its guard included.
const STACK: u64 = 5 * (64 << 10);

unsafe extern "C" {
    /// A symbol of the image.
    fn mark_create_begin();
}

fn is_unmapped(va: Va) -> bool {
    matches!(try_read(va), Err(Fault::Translation(_)))
}

/// The results of the CPUs.
struct Work<'a> {
    system: &'a System<'a>,
    /// The jobs of each CPU.
    jobs: [AtomicU64; cpu::MAX],
    /// The number of results that were wrong.
    wrong: AtomicU64,
}

/// Makes all CPUs work, alone and together. Returns true if all went well.
pub(super) fn run(system: &System<'_>) -> bool {
    let work = Work { system, jobs: [const { AtomicU64::new(0) }; cpu::MAX], wrong: AtomicU64::new(0) };
    let before = system.space.on(&system.platform()).stats();
    for cpu in cpu::running() {
        smp::on(cpu, &|cpu| work.introduce(cpu));
    }
    smp::on_all(&|cpu| work.change(cpu));
    work.judge(&before)
}

impl Work<'_> {
    fn expect(&self, holds: bool, cpu: usize, what: &str) {
        if !holds {
            self.wrong.fetch_add(1, Relaxed);
            say!("cpus: CPU {cpu}: {what}");
        }
    }

    /// One CPU at a time introduces itself.
    fn introduce(&self, cpu: usize) {
        self.jobs[cpu].fetch_add(1, Relaxed);
        say!("cpus: CPU {cpu} has MPIDR {:#x}", cpu::own_mpidr());
        let itself = cpu::this().index == cpu && cpu::mpidr(cpu) == cpu::own_mpidr();
        self.expect(itself, cpu, "another CPU's job");
        let System { geometry, image, .. } = self.system;
        let guard = match cpu {
            0 => boot_stack_guard(geometry.page_size()),
            _ => stack_guard(cpu, *geometry),
        };
        let stack = &raw const itself as u64;
        let near = stack.wrapping_sub(guard.0) < STACK;
        self.expect(near && is_unmapped(guard), cpu, "no guard is below its stack");
        let own = image.pa(mark_create_begin as *const () as u64);
        self.expect(is_unmapped(Va(own.0)), cpu, "it has the 1:1 map");
    }

    /// All CPUs at once map a page of their own, and read through it what they write through the linear map.
    fn change(&self, cpu: usize) {
        self.jobs[cpu].fetch_add(1, Relaxed);
        for round in 0..(ROUNDS / cpu::running().count() as u64).max(1) {
            if let Err(e) = self.map_and_unmap(cpu, round) {
                self.expect(false, cpu, "its page cannot be mapped");
                say!("cpus: {e}");
            }
        }
    }

    fn map_and_unmap(&self, cpu: usize, round: u64) -> Result<(), ChangeError> {
        let System { space, frames, geometry, .. } = self.system;
        let platform = self.system.platform();
        let mut frame = frames.take().ok_or(ChangeError::OutOfFrames { taken: 0 })?;
        let value = round << 16u32 | cpu as u64;
        frames.with_slots(&mut frame, Level::PAGE, |slots| slots[0] = value);
        let area = (1u64 << (geometry.va_bits() - 1)).wrapping_neg();
        let va = Va(area + cpu as u64 * geometry.page_size());
        // SAFETY: the frame is this CPU's, of the linear map's memory type, and so is the address.
        let mapped = unsafe { space.on(&platform).map(va, 1, frame.pa(), Attributes::RAM) };
        if mapped.is_ok() {
            self.expect(try_read(va) == Ok(value), cpu, "its page does not hold what was written");
            // SAFETY: nothing else uses the address.
            unsafe { space.on(&platform).unmap(va, 1)? };
            self.expect(is_unmapped(va), cpu, "its page can be read when it is not mapped");
        }
        frames.give(frame);
        mapped
    }

    fn judge(&self, before: &Stats) -> bool {
        for cpu in cpu::running() {
            self.expect(self.jobs[cpu].load(Relaxed) == 2, cpu, "not each job was done once");
        }
        let after = self.system.space.on(&self.system.platform()).stats();
        self.expect(after == *before, 0, "the map is not what it was");
        let (cpus, wrong) = (cpu::running().count(), self.wrong.load(Relaxed));
        let ok = report::check_frames(self.system) && wrong == 0;
        say!("linmap: {{\"tests\":{{\"cpus\":{{\"ok\":{ok},\"cpus\":{cpus},\"wrong\":{wrong}}}}}}}");
        ok
    }
}
