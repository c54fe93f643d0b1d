//! How a run ends: power off after the last word, or a report of what went wrong.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use aarch64_cpu::asm::wfi;
use kernel::machine::Conduit;
use linmap::Va;
use smccc::{Hvc, Smc, psci};

use crate::boot::EARLY_UART;
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
    end(begin_report(), why)
}

/// Whether this is the first report of the run. A second one is a fault in the first, and says nothing.
pub(crate) fn begin_report() -> bool {
    REPORTS.fetch_add(1, Relaxed) == 0
}

/// Says why, if it is the `first` report, and turns the machine off.
pub(crate) fn end(first: bool, why: fmt::Arguments<'_>) -> ! {
    if first {
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

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    // SAFETY: one CPU runs and it is here; what held the lock never runs again.
    unsafe { console::seize() };
    match info.location() {
        Some(at) => fail(format_args!("panic at {}:{}: {}", at.file(), at.line(), info.message())),
        None => fail(format_args!("panic: {}", info.message())),
    }
}
