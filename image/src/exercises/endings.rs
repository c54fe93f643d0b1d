//! Runs that go wrong on purpose, to test how that is reported.

use crate::console::say;
use crate::{cpu, smp};

/// Fails.
pub(super) fn fail() -> bool {
    say!("linmap: {{\"tests\":{{\"fail\":{{\"why\":\"asked for by run=fail\"}}}}}}");
    false
}

/// Faults.
pub(super) fn fault() -> bool {
    read_nothing(0);
    true
}

/// Faults on all CPUs at once.
pub(super) fn fault_all() -> bool {
    smp::on_all(&read_nothing);
    true
}

/// Never returns.
pub(super) fn hang() -> ! {
    loop {
        aarch64_cpu::asm::wfi();
    }
}

/// Runs out of stack.
pub(super) fn overflow() -> bool {
    use_stack(0);
    true
}

/// Runs out of stack on the last CPU.
pub(super) fn overflow_last() -> bool {
    smp::on(cpu::running().last().unwrap_or(0), &|_| use_stack(0));
    true
}

/// Panics.
pub(super) fn panic() -> ! {
    panic!("asked for by run=panic")
}

/// Reads an address that is not mapped.
fn read_nothing(_: usize) {
    let nowhere: *const u64 = core::ptr::with_exposed_provenance(0xdead_0000);
    // SAFETY: the lower half is empty, so this faults, and the fault ends the run.
    unsafe { nowhere.read_volatile() };
}

/// Uses the stack until there is none left.
fn use_stack(depth: u64) {
    _ = recurse(core::hint::black_box(depth));
}

fn recurse(depth: u64) -> u64 {
    let frame = core::hint::black_box([depth; 64]);
    if depth == u64::MAX { 0 } else { recurse(depth + 1) + frame[depth as usize % 64] }
}
