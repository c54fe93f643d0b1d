//! How a run ends: power off after the last word, or a report of what went wrong.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use aarch64_cpu::asm::wfi;

use crate::console::{self, say};
use crate::json::Text;
use crate::{cpu, psci};

/// The CPU that has the last word: its number and one more.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// Whether the firmware has been asked to turn the machine off.
static POWERED_OFF: AtomicBool = AtomicBool::new(false);

/// Says how the run went and turns the machine off. What other CPUs do then is not waited for.
pub(crate) fn finish(ok: bool) -> ! {
    if begin_report() {
        say!("linmap: {{\"finished\":true,\"ok\":{ok}}}");
    }
    power_off()
}

/// Says why the run can not go on and turns the machine off.
pub(crate) fn fail(why: fmt::Arguments<'_>) -> ! {
    end(begin_report(), why)
}

/// Gives this CPU the last word, and the console. Whether it did not have it yet: a second report of a CPU is
/// a fault in its first, and says nothing. Where another CPU has it, that one ends the run, and this one stops
/// here.
pub(crate) fn begin_report() -> bool {
    let own = cpu::this().index + 1;
    match LAST.compare_exchange(0, own, Relaxed, Relaxed) {
        Ok(_) => {
            // SAFETY: whatever this CPU was printing it never goes on with; the others have been given time.
            unsafe { console::seize() };
            true
        }
        Err(last) if last == own => false,
        Err(_) => {
            console::let_go();
            cpu::stop()
        }
    }
}

/// Says why, if it is the `first` report, and turns the machine off.
pub(crate) fn end(first: bool, why: fmt::Arguments<'_>) -> ! {
    if first {
        if !console::is_attached() {
            // SAFETY: nothing else has a UART by then.
            unsafe { console::fall_back() };
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
        psci::system_off();
    }
    loop {
        wfi();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    match info.location() {
        Some(at) => fail(format_args!("panic at {}:{}: {}", at.file(), at.line(), info.message())),
        None => fail(format_args!("panic: {}", info.message())),
    }
}
