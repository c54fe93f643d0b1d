//! The life of a CPU other than the boot CPU: it enters the system, then sleeps until there is a job.

use core::arch::asm;

use aarch64_cpu::asm::wfi;
use linmap::arm64::Cpu;

use super::mailbox;
use crate::warning::warn;
use crate::{cpu, identity, interrupts, pmu};

/// `secondary.s` comes here: on the CPU's own stack, in the upper half, the 1:1 map still in TTBR0, interrupts masked. Returns
/// if the CPU has to leave the system, in the state that it came in.
#[unsafe(no_mangle)]
extern "C" fn secondary_main() {
    // Where instructions are counted at all, QEMU counts those of all CPUs in each.
    _ = pmu::start(&Cpu::features());
    if let Err(e) = interrupts::start_cpu() {
        warn(format_args!("CPU {}: {e}", cpu::this().index));
        return cpu::set_state(cpu::State::Leaving);
    }
    identity::leave();
    cpu::set_state(cpu::State::Running);
    idle()
}

/// Sleeps until there is a job, does it, and sleeps again.
///
/// Interrupts are masked from the look into the mailbox to the WFI, which a pending interrupt ends nevertheless. So the
/// one that announces a job is not taken between the two, and lost.
fn idle() -> ! {
    let mailbox = mailbox::own();
    loop {
        mask();
        if !mailbox.is_full() {
            wfi();
        }
        interrupts::unmask();
        mailbox.work();
    }
}

/// Keeps this CPU from taking interrupts.
fn mask() {
    // SAFETY: nothing happens that would not have happened otherwise.
    unsafe { asm!("msr daifset, #2", options(nostack, preserves_flags)) };
}
