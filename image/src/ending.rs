//! The end of a run: power off after the last line, or after a report of what went wrong.

use core::fmt;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use aarch64_cpu::asm::wfi;

use crate::console::{self, say};
use crate::json::Text;
use crate::{cpu, efi, psci};

/// The CPU that ends the run: its number plus one.
static LAST: AtomicUsize = AtomicUsize::new(0);

/// The firmware has been asked to turn the machine off.
static POWERED_OFF: AtomicBool = AtomicBool::new(false);

/// Reports that the run has finished, and turns the machine off, or resets it. Does not wait for other CPUs.
pub(crate) fn finish(ok: bool, resets: bool) -> ! {
    if begin_report() {
        say!("linmap: {{\"finished\":true,\"ok\":{ok}}}");
    }
    if resets {
        psci::system_reset();
    }
    power_off()
}

/// Reports why the run cannot continue, and turns the machine off.
pub(crate) fn fail(why: fmt::Arguments<'_>) -> ! {
    end(begin_report(), why)
}

/// Gives this CPU the console for good. Returns false if it had it already: a second report of a CPU is a fault in its
/// first, and prints nothing. If another CPU has it, that one ends the run, and this one stops here.
pub(crate) fn begin_report() -> bool {
    let own = cpu::this().index + 1;
    match LAST.compare_exchange(0, own, Relaxed, Relaxed) {
        Ok(_) => {
            // SAFETY: this CPU never continues what it was printing; the others have had time.
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

/// Reports why, if it is the `first` report, and turns the machine off.
pub(crate) fn end(first: bool, why: fmt::Arguments<'_>) -> ! {
    if first {
        if !console::is_attached() {
            // SAFETY: nothing has a UART.
            unsafe { console::fall_back() };
        }
        say!("\nlinmap cannot go on: {why}");
        say!("linmap: {{\"finished\":false,\"ok\":false,\"fault\":\"{}\"}}", Text(why));
    }
    power_off()
}

fn power_off() -> ! {
    // Once: without firmware, the call itself is an exception.
    if !POWERED_OFF.swap(true, Relaxed) {
        // It returns only if the firmware has no such call; then waiting is all that is left.
        psci::system_off();
    }
    loop {
        wfi();
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    efi::report_panic(info);
    match info.location() {
        Some(at) => fail(format_args!("panic at {}:{}: {}", at.file(), at.line(), info.message())),
        None => fail(format_args!("panic: {}", info.message())),
    }
}
