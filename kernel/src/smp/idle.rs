//! What a CPU other than the first does: enters the system, then sleeps until there is a job.

use core::arch::asm;

use aarch64_cpu::asm::wfi;
use linmap::arm64::Cpu;

use crate::counters::Counters;
use crate::{cpu, identity, interrupts, psci, warn};

/// Where `secondary.s` goes: on the CPU's own stack, in the upper half, its 1:1 map still there, interrupts
/// masked.
#[unsafe(no_mangle)]
extern "C" fn secondary_main() -> ! {
    identity::leave();
    // What it counts, the boot CPU's counter has too where instructions are counted at all.
    _ = Counters::start(&Cpu::features());
    if let Err(e) = interrupts::start_cpu() {
        warn(format_args!("CPU {}: {e}", cpu::this().index));
        cpu::set_state(cpu::State::Leaving);
        psci::cpu_off();
    }
    cpu::set_state(cpu::State::Running);
    idle()
}

/// Sleeps until there is a job, does it, and sleeps again.
///
/// Interrupts are masked from the look into the mailbox to the WFI, which a pending interrupt ends even so. So
/// the one that says that there is a job is not taken between the two, and lost.
fn idle() -> ! {
    let mailbox = &cpu::this().mailbox;
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
