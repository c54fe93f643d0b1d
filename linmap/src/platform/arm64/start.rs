//! How a CPU turns its MMU on: the first one and all others enter a map by the same instructions.

use core::arch::naked_asm;

use crate::format::Va;
use crate::platform::Registers;

/// What a CPU has from the moment its MMU is on. [`start`] reads it.
///
/// A CPU with its MMU off reads memory, not the caches. Another CPU's that has been written with the MMU on is cleaned
/// first ([`Cpu::clean`](super::Cpu::clean)).
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Start {
    registers: Registers,
    stack: Va,
    entry: Va,
    argument: u64,
}

impl Start {
    /// The CPU goes on at `entry`, an `extern "C" fn(u64) -> !`, with `argument`, on the stack that ends at `stack`.
    /// Both are addresses in the new map.
    pub const fn new(registers: Registers, stack: Va, entry: Va, argument: u64) -> Self {
        Self { registers, stack, entry, argument }
    }
}

const _: () = assert!(size_of::<Start>() == 64 && core::mem::offset_of!(Start, argument) == 56);

/// Turns the MMU and the caches on, and goes on as `start` says.
///
/// Masks all interrupts, drops what the TLB and the instruction cache hold, and uses no memory but `start`. It is as well
/// where PSCI starts a CPU (CPU_ON): its physical address is the entry point, the physical address of a [`Start`] the
/// context.
///
/// # Safety
///
/// - The CPU is at EL1, in AArch64 state, with its MMU off, and no EL0 code or interrupt handler of it is under way.
/// - `start` is a physical address and can be read without the caches.
/// - The tables of its registers are complete and in memory. They map this code, executable, at its physical address;
///   the entry, executable; and the stack, writable. Nobody else uses the stack.
/// - What else this CPU goes on to use is in memory, and no cache holds anything else for it. So what was written with
///   the MMU off has been [discarded](super::Cpu::discard) from the caches.
/// - The entry is an `extern "C" fn(u64) -> !` that can be called with the argument.
#[unsafe(naked)]
pub unsafe extern "C" fn start(start: *const Start) -> ! {
    naked_asm!(
        "msr daifset, #0xf",
        "ldp x1, x2, [x0]",      // TTBR0, TTBR1
        "ldp x3, x4, [x0, #16]", // TCR, MAIR
        "ldp x5, x6, [x0, #32]", // SCTLR, stack
        "ldp x7, x0, [x0, #48]", // entry, argument
        "msr spsel, #1",
        "mov sp, x6",
        "dsb sy",
        "ic iallu",
        "tlbi vmalle1",
        "dsb nsh",
        "msr mair_el1, x4",
        "msr tcr_el1, x3",
        "msr ttbr0_el1, x1",
        "msr ttbr1_el1, x2",
        "isb",
        "msr sctlr_el1, x5",
        "isb",
        "mov x29, xzr",
        "mov x30, xzr",
        "br x7",
    )
}
