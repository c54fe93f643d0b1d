//! Console text: kept until a UART is known, then written as it comes.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use arm_pl011_uart::{PL011Registers, Uart, UniqueMmioPointer};
use arrayvec::ArrayVec;
use linmap::Va;
use spin::mutex::SpinMutex;

/// The console of the kernel.
static CONSOLE: SpinMutex<Console> = SpinMutex::new(Console { uart: None, kept: ArrayVec::new_const() });

struct Console {
    uart: Option<Uart<'static>>,
    /// What was said before there was a UART.
    kept: ArrayVec<u8, 8192>,
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for &byte in text.as_bytes() {
            match &mut self.uart {
                Some(uart) => {
                    while uart.is_tx_fifo_full() {
                        core::hint::spin_loop();
                    }
                    uart.write_word(byte);
                }
                // What does not fit is lost; the start says most.
                None => _ = self.kept.try_push(byte),
            }
        }
        Ok(())
    }
}

/// From now on the console is the PL011 at this address; what was kept comes first.
///
/// # Safety
///
/// A PL011 is mapped there as device memory, stays so, and nothing else uses it.
pub(crate) unsafe fn attach(registers: Va) {
    let Some(registers) = NonNull::new(core::ptr::with_exposed_provenance_mut(registers.0 as usize)) else {
        return;
    };
    let mut console = CONSOLE.lock();
    // SAFETY: the caller's promise, word for word.
    let registers = unsafe { UniqueMmioPointer::<PL011Registers>::new(registers) };
    console.uart = Some(Uart::new(registers));
    let kept = core::mem::take(&mut console.kept);
    _ = console.write_str(core::str::from_utf8(&kept).unwrap_or("(early text was not kept whole)\n"));
}

/// Whether there is a UART yet.
pub(crate) fn is_attached() -> bool {
    CONSOLE.lock().uart.is_some()
}

/// Forgets a lock that whoever held it will never give back: the run ends with a fault.
///
/// # Safety
///
/// Nothing that could hold the lock runs any more.
pub(crate) unsafe fn seize() {
    // SAFETY: the caller's promise.
    unsafe { CONSOLE.force_unlock() }
}

/// Writes text; a console that fails is no reason to stop.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    _ = CONSOLE.lock().write_fmt(text);
}

/// Runs something that writes.
pub(crate) fn with_writer<R>(write: impl FnOnce(&mut dyn Write) -> R) -> R {
    write(&mut *CONSOLE.lock())
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => {{
        $crate::console::write(format_args!($($text)*));
        $crate::console::write(format_args!("\n"));
    }};
}
pub(crate) use say;
