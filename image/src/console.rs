//! Console text: kept until a serial port is known, then written as it comes, line by line from any CPU.

use core::cell::UnsafeCell;
use core::fmt::{self, Write};
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use kernel_plan::serial::Kind;
use kernel_plan::uart::FALLBACK;
use linmap::Va;

use crate::clock::comes_true;
use crate::cpu::{self, relax};
use crate::parking;
use crate::port::Port;
use crate::probe::try_read;

/// The console of the kernel.
static CONSOLE: Shared = Shared {
    owner: AtomicUsize::new(0),
    console: UnsafeCell::new(Console {
        port: None,
        kept: ArrayVec::new_const(),
        line: 0,
        torn: false,
        lost: 0,
    }),
};

/// A console that one CPU has at a time, and the last one for good.
struct Shared {
    /// The number of the CPU that has it plus one, and perhaps [`FOR_GOOD`]; 0 if none has.
    owner: AtomicUsize,
    console: UnsafeCell<Console>,
}

/// Set where the owner never gives it back.
const FOR_GOOD: usize = 1 << 31;

// SAFETY: the console is used by its owner alone.
unsafe impl Sync for Shared {}

/// The console, locked until this is dropped.
struct Locked<'a> {
    shared: &'a Shared,
    owner: usize,
}

impl Shared {
    /// Waits for the console; for ever if another CPU has it for good.
    fn lock(&self) -> Locked<'_> {
        let own = cpu::this().index + 1;
        loop {
            match self.owner.compare_exchange_weak(0, own, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Locked { shared: self, owner: own },
                Err(owner) if owner == own | FOR_GOOD => return Locked { shared: self, owner },
                Err(owner) if owner & FOR_GOOD != 0 => cpu::stop(),
                Err(_) => {
                    parking::answer_if_asked();
                    relax();
                }
            }
        }
    }
}

impl Locked<'_> {
    /// Returns true unless another CPU has taken it for good.
    fn is_still_owner(&self) -> bool {
        self.shared.owner.load(Ordering::Relaxed) == self.owner
    }
}

impl Deref for Locked<'_> {
    type Target = Console;

    fn deref(&self) -> &Console {
        // SAFETY: this CPU is the owner until the value is dropped.
        unsafe { &*self.shared.console.get() }
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Console {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { &mut *self.shared.console.get() }
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        // Not if a CPU has taken it for good meanwhile, perhaps this one.
        if self.owner & FOR_GOOD == 0 {
            _ = self.shared.owner.compare_exchange(self.owner, 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

struct Console {
    port: Option<Port>,
    /// Text from before there was a port: whole lines, and the one being written.
    kept: ArrayVec<u8, 8192>,
    /// The start of that line.
    line: usize,
    /// The line being written does not fit.
    torn: bool,
    /// The number of lines that did not.
    lost: u32,
}

impl Console {
    /// Keeps a byte. A line that does not fit is left out whole, so that the others can be read.
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

impl Write for Locked<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if !self.is_still_owner() {
                cpu::stop();
            }
            match &mut self.port {
                Some(port) => port.put(byte),
                None => self.keep(byte),
            }
        }
        Ok(())
    }
}

/// Uses the port at this address as the console from now on, if there is one. Writes what was kept first.
///
/// # Safety
///
/// The registers of a port of this kind are mapped there as device memory, stay so, and nothing else uses them.
pub(crate) unsafe fn attach(kind: Kind, registers: Va) {
    // SAFETY: the caller's promise, word for word.
    if let Some(port) = unsafe { Port::new(kind, registers) } {
        use_port(port);
    }
}

fn use_port(new: Port) {
    let mut console = CONSOLE.lock();
    // In place: a copy of what was kept would need much of the stack of a CPU that reports a fault.
    let Console { port, kept, lost, .. } = &mut *console;
    let port = port.insert(new);
    kept.iter().for_each(|&byte| port.put(byte));
    kept.clear();
    let lost = core::mem::take(lost);
    if lost != 0 {
        _ = writeln!(console, "{lost} more lines were said before there was a console, and are lost");
    }
}

/// The address at which a PL011 may be that no device tree names; 0 if there is none. At first it is where the entry
/// code maps it 1:1, as nothing else is known.
static FALLBACK_AT: AtomicU64 = AtomicU64::new(FALLBACK.0);

/// Sets that address, or none.
///
/// # Safety
///
/// A page is mapped at the address as device memory, stays so, and nothing else uses it.
pub(crate) unsafe fn may_fall_back_to(registers: Option<Va>) {
    FALLBACK_AT.store(registers.map_or(0, |registers| registers.0), Ordering::Relaxed);
}

/// Uses the PL011 that no device tree names as the console from now on, if its identification says that it is one.
/// Nothing is written before that: it may be RAM, where no device tree could be read, or another device.
///
/// # Safety
///
/// No other UART is used any more.
pub(crate) unsafe fn fall_back() {
    /// UARTPeriphID0.
    const IDENTIFICATION: u64 = 0xfe0;
    let at = Va(FALLBACK_AT.load(Ordering::Relaxed));
    if at.0 == 0 || try_read(Va(at.0 + IDENTIFICATION)).is_err() {
        return;
    }
    // SAFETY: device memory that nothing else uses, by the promise of the caller of `may_fall_back_to`; only its
    // identification is read, unless it is a PL011.
    match unsafe { Port::new(Kind::Pl011, at) } {
        Some(Port::Pl011(uart)) if uart.read_identification().is_valid() => use_port(Port::Pl011(uart)),
        _ => {}
    }
}

/// Returns true if there is a port yet.
pub(crate) fn is_attached() -> bool {
    CONSOLE.lock().port.is_some()
}

/// Gives the console to this CPU for good, as the run ends. Other CPUs that write have time to finish a line.
///
/// # Safety
///
/// This CPU never continues what it was writing. A CPU that does not finish in time has stopped, or is away for a
/// parking that nobody ends any more, or its host has stopped it: it stops before its next byte.
pub(crate) unsafe fn seize() {
    let own = cpu::this().index + 1;
    let take = |from| {
        CONSOLE.owner.compare_exchange(from, own | FOR_GOOD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    };
    if !comes_true(|| take(0) || take(own)) {
        CONSOLE.owner.store(own | FOR_GOOD, Ordering::Relaxed);
    }
}

/// Gives the console back if this CPU has it, which never continues what it was writing.
pub(crate) fn let_go() {
    let own = cpu::this().index + 1;
    _ = CONSOLE.owner.compare_exchange(own, 0, Ordering::Release, Ordering::Relaxed);
}

/// Writes text; a console that fails is no reason to stop.
pub(crate) fn write(text: fmt::Arguments<'_>) {
    _ = CONSOLE.lock().write_fmt(text);
}

/// A writer that takes the console anew for each piece of text, so that code that writes to it may hold other locks.
pub(crate) struct Writer;

impl Write for Writer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        CONSOLE.lock().write_str(text)
    }
}

/// Prints a line.
macro_rules! say {
    ($($text:tt)*) => {{
        $crate::console::write(format_args!("{}\n", format_args!($($text)*)));
    }};
}
pub(crate) use say;
