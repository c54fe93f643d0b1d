//! Memory that one CPU accesses through the caches and another, with its MMU off, without them.

use core::arch::asm;

use super::Cpu;
use crate::format::Va;
use crate::platform::CacheType;

impl Cpu {
    /// Writes the cached contents of `bytes` bytes from `va` on to memory, for a CPU that reads them with its MMU off.
    ///
    /// The addresses must be readable: maintenance of an address that is not mapped faults.
    pub fn clean(self, va: Va, bytes: u64) {
        for line in CacheType::lines(Some(data_line()), va, bytes) {
            // SAFETY: cleaning a line of readable memory does not change its contents.
            unsafe { asm!("dc cvac, {}", in(reg) line.0, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    /// Writes the cached contents of `bytes` bytes from `va` on to memory, and drops them from the caches: for memory that is
    /// accessed past the caches from now on, such as by another memory type. The addresses must be readable.
    pub fn clean_and_drop(self, va: Va, bytes: u64) {
        for line in CacheType::lines(Some(data_line()), va, bytes) {
            // SAFETY: cleaning and dropping a line of readable memory does not change its contents.
            unsafe { asm!("dc civac, {}", in(reg) line.0, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }

    /// Drops `bytes` bytes from `va` on from the caches without writing them to memory, for memory that is used with
    /// the MMU off. Call it before the first use, so that no cached line overwrites the memory later, and after the
    /// last, so that the memory is read again.
    ///
    /// # Safety
    ///
    /// The addresses are writable. Everything in the cache lines of these addresses was written with the MMU off, or is
    /// no longer needed.
    pub unsafe fn discard(self, va: Va, bytes: u64) {
        // SAFETY: a barrier changes nothing but order. Stores with the MMU off are Device accesses, which are not ordered
        // with cache maintenance by the order of the program alone.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
        for line in CacheType::lines(Some(data_line()), va, bytes) {
            // SAFETY: the caches hold nothing that is needed, by the caller's promise.
            unsafe { asm!("dc ivac, {}", in(reg) line.0, options(nostack, preserves_flags)) };
        }
        // SAFETY: a barrier changes nothing but order.
        unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
    }
}

/// Returns the size in bytes of the smallest line of all data caches that this CPU sees.
fn data_line() -> u64 {
    let ctr: u64;
    // SAFETY: reading an ID register has no side effect.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) ctr, options(nomem, nostack, preserves_flags)) };
    4 << (ctr >> 16 & 0xf)
}
