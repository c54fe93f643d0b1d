//! Serial ports as the console writes to them: PL011, the Generic UART, 16550.

use core::arch::asm;
use core::ptr::NonNull;

use arm_pl011_uart::{PL011Registers, Uart, UniqueMmioPointer};
use kernel_plan::serial::{Kind, Width};
use linmap::Va;

use crate::cpu::relax;

/// A port in use.
pub(crate) enum Port {
    /// A PL011 or a Generic UART, which sends in the same way.
    Pl011(Uart<'static>),
    /// A 16550.
    Ns16550(Ns16550),
}

impl Port {
    /// Makes a port of this kind; none if there is none at the address.
    ///
    /// # Safety
    ///
    /// The registers of a port of this kind are mapped there as device memory, stay so, and nothing else uses them.
    pub(crate) unsafe fn new(kind: Kind, registers: Va) -> Option<Self> {
        match kind {
            Kind::Pl011 | Kind::Generic => {
                let at = NonNull::new(core::ptr::with_exposed_provenance_mut(registers.0 as usize))?;
                // SAFETY: the caller's promise, word for word.
                let registers = unsafe { UniqueMmioPointer::<PL011Registers>::new(at) };
                Some(Self::Pl011(Uart::new(registers)))
            }
            Kind::Ns16550 { shift, width } => {
                let port = Ns16550 { start: registers.0, shift, width };
                port.is_there().then_some(Self::Ns16550(port))
            }
        }
    }

    /// Waits until there is room for a byte, and sends it.
    pub(crate) fn put(&mut self, byte: u8) {
        match self {
            Self::Pl011(uart) => {
                while uart.is_tx_fifo_full() {
                    relax();
                }
                uart.write_word(byte);
            }
            Self::Ns16550(port) => port.put(byte),
        }
    }
}

/// The registers of a 16550, as [`Port::new`] was promised them.
pub(crate) struct Ns16550 {
    start: u64,
    shift: u8,
    width: Width,
}

impl Ns16550 {
    /// The register that takes a byte to send (THR).
    const SEND: u8 = 0;
    /// The status of the line (LSR).
    const STATUS: u8 = 5;
    /// In it: there is room for a byte (THRE).
    const ROOM: u32 = 1 << 5;

    fn address(&self, register: u8) -> u64 {
        self.start + (u64::from(register) << self.shift)
    }

    fn status(&self) -> u32 {
        let at = self.address(Self::STATUS);
        let status: u32;
        // SAFETY: a register of the port, as `Port::new` was promised it; reading it does no more than clear errors of
        // reception. Plain loads, the only kind that hypervisors emulate.
        unsafe {
            match self.width {
                Width::Byte => {
                    asm!("ldrb {:w}, [{}]", out(reg) status, in(reg) at, options(nostack, preserves_flags));
                }
                Width::Word => {
                    asm!("ldr {:w}, [{}]", out(reg) status, in(reg) at, options(nostack, preserves_flags));
                }
            }
        }
        status
    }

    /// Returns false if there is no device: all bits of the status are set then, which no port reports.
    fn is_there(&self) -> bool {
        self.status() & 0xff != 0xff
    }

    fn put(&self, byte: u8) {
        while self.status() & Self::ROOM == 0 {
            relax();
        }
        let (at, byte) = (self.address(Self::SEND), u32::from(byte));
        // SAFETY: as above; the register sends the byte, and does no more.
        unsafe {
            match self.width {
                Width::Byte => {
                    asm!("strb {:w}, [{}]", in(reg) byte, in(reg) at, options(nostack, preserves_flags));
                }
                Width::Word => {
                    asm!("str {:w}, [{}]", in(reg) byte, in(reg) at, options(nostack, preserves_flags));
                }
            }
        }
    }
}
