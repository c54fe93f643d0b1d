//! Spin tables: firmware without PSCI keeps each CPU in a loop until the address of code appears at a place of its own.
//!
//! The CPU gets nothing else, so what PSCI would hand it is in one place of the image: the address of its slot, and whose it is.
//! A CPU that comes late, when the place is another's, stays in a loop.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aarch64_cpu::asm::sev;
use kernel_plan::admit::Refusal;
use linmap::{Pa, Va};

use super::slot::clean_and_invalidate;
use crate::system::System;

unsafe extern "C" {
    /// In `secondary.s`.
    fn spin_start();
}

/// The CPU that is to start, and its slot. A CPU reads both with its MMU off, so that the lines are cleaned.
#[repr(C, align(2048))]
struct Call {
    /// Its affinity, or [`NOBODY`].
    mpidr: AtomicU64,
    /// The physical address of its slot.
    slot: AtomicU64,
}

/// No affinity.
const NOBODY: u64 = u64::MAX;

#[unsafe(no_mangle)]
static SPIN_CALL: Call = Call { mpidr: AtomicU64::new(NOBODY), slot: AtomicU64::new(0) };

/// Releases a CPU that waits at `at`, and gives it a slot.
///
/// # Errors
///
/// The place cannot be written.
///
/// # Safety
///
/// The firmware's CPU of this affinity waits there, or nothing uses the 8 bytes; they are aligned.
pub(super) unsafe fn release(system: &System<'_>, at: Pa, mpidr: u64, slot: Pa) -> Result<(), Refusal> {
    let Some(Va(va)) = system.memory.layout.va(at) else { return Err(Refusal::NoRelease(at)) };
    // A CPU of an earlier call reads the affinity before the slot and after it, so it does not take this one.
    call(&SPIN_CALL.mpidr, NOBODY);
    call(&SPIN_CALL.slot, slot.0);
    call(&SPIN_CALL.mpidr, mpidr);
    let place: *mut u64 = core::ptr::with_exposed_provenance_mut(va as usize);
    let entry = system.image.pa(spin_start as *const () as u64);
    // SAFETY: RAM in the linear map, aligned; the caller's promise.
    unsafe { place.write_volatile(entry.0) };
    clean_and_invalidate(place);
    sev();
    Ok(())
}

fn call(word: &AtomicU64, value: u64) {
    word.store(value, Relaxed);
    clean_and_invalidate(core::ptr::from_ref(word).cast_mut());
}
