//! How a CPU turns its MMU on: the first one and all others enter a map by the same instructions.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::format::Va;
use crate::platform::Registers;

/// The state of a CPU from the moment its MMU is on, for [`start`]. Addresses are those of the new map.
///
/// A CPU with its MMU off reads memory, not the caches. What another one wrote with the MMU on is cleaned first
/// ([`Cpu::clean`](super::Cpu::clean)).
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The registers that it translates by.
    pub registers: Registers,
    /// Where its stack ends: it grows down from here.
    pub stack: Va,
    /// Its exception vectors (VBAR_EL1).
    pub vectors: Va,
    /// Where it goes on: an `extern "C" fn(u64) -> !`.
    pub entry: Va,
    /// The argument of that function.
    pub argument: u64,
}

/// Turns the MMU and the caches on, and goes on as `start` says.
///
/// Masks all interrupts, drops what the TLB and the instruction cache hold, and uses no memory but `start`. Code that is built
/// with SIMD registers may use them from then on. PSCI can start a CPU here (CPU_ON): the physical address of this function is
/// the entry point, the physical address of a [`Start`] the context.
///
/// # Safety
///
/// - The CPU is at EL1, in AArch64 state, with its MMU off.
/// - `start` is a physical address, in memory.
/// - The tables of its registers are complete and in memory. They map this code, executable, at its physical address; the
///   entry and the vectors, executable; and the stack, writable. Nobody else uses the stack.
/// - What this CPU goes on to use is in memory, too, and no cache holds anything else for it: what was written with the MMU
///   off has been [discarded](super::Cpu::discard) from the caches.
/// - The entry is a function that can be called with the argument.
#[unsafe(naked)]
pub unsafe extern "C" fn start(start: *const Start) -> ! {
    naked_asm!(
        "msr daifset, #0xf",
        "ldp x1, x2, [x0, #{ttbr}]",
        "ldp x3, x4, [x0, #{tcr_mair}]",
        "ldr x5, [x0, #{sctlr}]",
        "ldp x6, x7, [x0, #{stack_vectors}]",
        "ldp x8, x0, [x0, #{entry_argument}]",
        "msr spsel, #1",
        "mov sp, x6",
        "msr vbar_el1, x7",
        ".if {simd}",
        "mov x6, #(3 << 20)",
        "msr cpacr_el1, x6",
        ".endif",
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
        "br x8",
        ttbr = const offset_of!(Start, registers.ttbr0),
        tcr_mair = const offset_of!(Start, registers.tcr),
        sctlr = const offset_of!(Start, registers.sctlr),
        stack_vectors = const offset_of!(Start, stack),
        entry_argument = const offset_of!(Start, entry),
        simd = const cfg!(target_feature = "neon") as u8,
    )
}
