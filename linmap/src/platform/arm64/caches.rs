//! Memory that one CPU accesses through the caches and another without: with its MMU off.

use core::arch::asm;

use super::Cpu;
use crate::format::Va;
use crate::platform::CacheType;

impl Cpu {
    /// Writes to memory what the caches hold of `bytes` bytes from `va` on, for a CPU that reads it with its MMU off.
    /// The addresses can be read.
    pub fn clean(self, va: Va, bytes: u64) {
        for line in CacheType::lines(Some(data_line()), va, bytes) {
            // SAFETY: cleaning a line of memory that can be read changes nothing that is in it.
            unsafe { asm!("dc cvac, {}", in(reg) line.0, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    /// Drops from the caches, without writing it, what they hold of `bytes` bytes from `va` on: of memory that is used with the
    /// MMU off. Before its first use, so that nothing is written over it later; after its last, so that it is read from
    /// memory.
    ///
    /// # Safety
    ///
    /// The addresses can be written, and what was written to the lines that they lie in was written with the MMU off, or is
    /// of no use any more.
    pub unsafe fn discard(self, va: Va, bytes: u64) {
        for line in CacheType::lines(Some(data_line()), va, bytes) {
            // SAFETY: nothing that is of use is in the caches, by the caller's promise.
            unsafe { asm!("dc ivac, {}", in(reg) line.0, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }
}

/// The bytes of the smallest line of all data caches that this CPU sees.
fn data_line() -> u64 {
    let ctr: u64;
    // SAFETY: reading an ID register has no side effect.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    4 << (ctr >> 16 & 0xf)
}
