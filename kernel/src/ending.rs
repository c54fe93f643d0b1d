//! How a run ends: power off after the last word, or a report of what went wrong.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use aarch64_cpu::asm::wfi;
use aarch64_cpu::registers::{ELR_EL1, ESR_EL1, FAR_EL1, Readable};
use kernel::machine::Conduit;
use linmap::Va;
use smccc::{Hvc, Smc, psci};

use crate::boot::{self, EARLY_UART, EMERGENCY_UART};
use crate::console::{self, say};
use crate::json::Text;

/// How the firmware is called; HVC where nobody said otherwise.
static CONDUIT: AtomicU8 = AtomicU8::new(0);
/// How many reports have begun: a second one is a fault in the first.
static REPORTS: AtomicU8 = AtomicU8::new(0);

/// Whether the firmware has been asked to turn the machine off.
static POWERED_OFF: AtomicBool = AtomicBool::new(false);

/// From now on the firmware is called like this.
pub(crate) fn use_conduit(conduit: Conduit) {
    CONDUIT.store(u8::from(conduit == Conduit::Smc), Relaxed);
}

/// Says how the run went and turns the machine off.
pub(crate) fn finish(ok: bool) -> ! {
    say!("linmap: {{\"finished\":true,\"ok\":{ok}}}");
    power_off()
}

/// Says why the run can not go on and turns the machine off.
pub(crate) fn fail(why: fmt::Arguments<'_>) -> ! {
    if REPORTS.fetch_add(1, Relaxed) == 0 {
        if !console::is_attached() {
            // SAFETY: the entry code maps this page as device memory, 1:1, until the console is
            // attached; nothing else has a UART by then.
            unsafe { console::attach(Va(EARLY_UART.0)) };
        }
        say!("\nlinmap can not go on: {why}");
        say!("linmap: {{\"finished\":false,\"ok\":false,\"fault\":\"{}\"}}", Text(why));
    }
    power_off()
}

fn power_off() -> ! {
    // Once only: where there is no firmware, the call itself is an exception.
    if !POWERED_OFF.swap(true, Relaxed) {
        // An error comes back only if the firmware has no such call; then waiting is all that is left.
        _ = match CONDUIT.load(Relaxed) {
            0 => psci::system_off::<Hvc>(),
            _ => psci::system_off::<Smc>(),
        };
    }
    loop {
        wfi();
    }
}

/// What the entry code calls on an exception; `kind` is its place in the vector table.
#[unsafe(no_mangle)]
extern "C" fn exception(kind: u64, return_address: u64, stack: u64) -> ! {
    const WHAT: [&str; 4] = ["synchronous exception", "interrupt", "fast interrupt", "system error"];
    let (esr, far, elr) = (ESR_EL1.get(), FAR_EL1.get(), ELR_EL1.get());
    // SAFETY: interrupts are masked and this is the only CPU: whoever held the lock was interrupted
    // here and never runs again.
    unsafe { console::seize() };
    if boot::is_console(Va(far)) {
        // SAFETY: `enter` maps the early console there for good; the console that faulted is not used
        // any more.
        unsafe { console::attach(EMERGENCY_UART) };
    }
    fail(format_args!(
        "{} ({}): ESR {esr:#x}, FAR {far:#x}, ELR {elr:#x}, LR {return_address:#x}, SP {stack:#x}",
        WHAT[kind as usize % 4],
        syndrome(esr),
    ))
}

/// The syndrome in words (Arm ARM D24.2, ESR_EL1).
fn syndrome(esr: u64) -> &'static str {
    let access = if esr & 1 << 6 != 0 { "write" } else { "read" };
    match (esr >> 26 & 0x3f, esr & 0x3f, access) {
        (0x25, 0x04..=0x07, "read") => "data abort: read of an address that is not mapped",
        (0x25, 0x04..=0x07, _) => "data abort: write to an address that is not mapped",
        (0x25, 0x0c..=0x0f, "read") => "data abort: read that is not permitted",
        (0x25, 0x0c..=0x0f, _) => "data abort: write that is not permitted",
        (0x25, 0x10, _) => "data abort: external abort",
        (0x25, 0x30, _) => "data abort: TLB conflict",
        (0x25, ..) => "data abort",
        (0x21, ..) => "instruction abort",
        (0x22 | 0x26, ..) => "misaligned PC or SP",
        (0x00, ..) => "unknown instruction",
        (0x3c, ..) => "breakpoint",
        _ => "see ESR",
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // SAFETY: one CPU runs and it is here; what held the lock never runs again.
    unsafe { console::seize() };
    match info.location() {
        Some(at) => fail(format_args!("panic at {}:{}: {}", at.file(), at.line(), info.message())),
        None => fail(format_args!("panic: {}", info.message())),
    }
}
