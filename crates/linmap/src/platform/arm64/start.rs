//! The code with which a CPU turns its MMU on. The first CPU and all others use the same instructions.

use core::arch::naked_asm;
use core::mem::offset_of;

use crate::format::Va;
use crate::platform::Registers;

/// The state of a CPU from the moment its MMU is on, for [`start`]. Addresses are virtual addresses of the new map.
///
/// A CPU with its MMU off reads memory, not the caches. If another CPU wrote this value with its MMU on, it must clean
/// the caches first ([`Cpu::clean`](super::Cpu::clean)).
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The translation registers.
    pub registers: Registers,
    /// The top of the stack, which grows down.
    pub stack: Va,
    /// Its exception vectors (VBAR_EL1).
    pub vectors: Va,
    /// The function to call, an `extern "C" fn(u64) -> !`.
    pub entry: Va,
    /// The argument of that function.
    pub argument: u64,
}

/// Turns the MMU and the caches on, and calls the entry function of `start`.
///
/// Masks all interrupts, drops the contents of the TLB and the instruction cache, and accesses no memory but `start`.
/// SIMD registers are usable afterwards. PSCI can start a CPU here (CPU_ON) where it enters at EL1, as a hypervisor's
/// does: the physical address of this function is the entry point, and the physical address of a [`Start`] the context.
/// Firmware of a machine with EL2 enters at EL2: such a CPU drops to EL1 first.
///
/// # Safety
///
/// - The CPU is at EL1, in AArch64 state, with its MMU off.
/// - `start` is a physical address, in memory.
/// - The tables of its registers are complete and in memory. They map this code, executable, at its physical address;
///   the entry and the vectors, executable; and the stack, writable. Nothing else uses the stack.
/// - All other memory that this CPU goes on to use is also up to date in memory, and no cache holds different contents:
///   data written with the MMU off has been [discarded](super::Cpu::discard) from the caches.
/// - The stack is a multiple of 16, and the vectors are a multiple of 2048.
/// - The entry is a function that can be called with the argument.
#[unsafe(naked)]
pub unsafe extern "C" fn start(start: *const Start) -> ! {
    naked_asm!(
        "msr daifset, #0xf",
        "ldp x1, x2, [x0, #{ttbr}]",
        "ldp x3, x4, [x0, #{tcr_mair}]",
        "ldr x5, [x0, #{sctlr}]",
        "ldp x6, x7, [x0, #{stack_vectors}]",
        "ldp x16, x0, [x0, #{entry_argument}]",
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
        // By x16, from which a guarded page accepts a branch to a function.
        "br x16",
        ttbr = const offset_of!(Start, registers.ttbr0),
        tcr_mair = const offset_of!(Start, registers.tcr),
        sctlr = const offset_of!(Start, registers.sctlr),
        stack_vectors = const offset_of!(Start, stack),
        entry_argument = const offset_of!(Start, entry),
        simd = const cfg!(target_feature = "neon") as u8,
    )
}
