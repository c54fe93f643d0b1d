//! Console text: kept until a UART is known, then written as it comes.

use core::fmt::{self, Write};
use core::ptr::NonNull;

use arm_pl011_uart::{PL011Registers, Uart, UniqueMmioPointer};
use arrayvec::ArrayVec;
use linmap::Va;
use spin::mutex::SpinMutex;

/// The console of the kernel.
static CONSOLE: SpinMutex<Console> =
    SpinMutex::new(Console { uart: None, kept: ArrayVec::new_const(), line: 0, torn: false, lost: 0 });

struct Console {
    uart: Option<Uart<'static>>,
    /// What was said before there was a UART, in whole lines, and the line that is being said.
    kept: ArrayVec<u8, 8192>,
    /// Where that line starts.
    line: usize,
    /// Whether that line did not fit.
    torn: bool,
    /// How many lines did not.
    lost: u32,
}

impl Console {
    fn put(uart: &mut Uart<'static>, byte: u8) {
        while uart.is_tx_fifo_full() {
            core::hint::spin_loop();
        }
        uart.write_word(byte);
    }

    /// Keeps a byte; a line that does not fit is left out whole, so that what is kept can be read.
    fn keep(&mut self, byte: u8) {
        self.torn |= self.kept.try_push(byte).is_err();
        if byte == b'\n' {
            if self.torn {
                self.kept.truncate(self.line);
                self.lost += 1;
                self.torn = false;
            }
            self.line = self.kept.len();
        }
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            match &mut self.uart {
                Some(uart) => Self::put(uart, byte),
                None => self.keep(byte),
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
    // In place: a copy of what was kept would be a large frame on the stack of whoever reports a fault.
    let Console { uart, kept, lost, .. } = &mut *console;
    let uart = uart.insert(Uart::new(registers));
    kept.iter().for_each(|&byte| Console::put(uart, byte));
    kept.clear();
    let lost = core::mem::take(lost);
    if lost != 0 {
        _ = writeln!(console, "{lost} more lines were said before there was a console, and are lost");
    }
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
