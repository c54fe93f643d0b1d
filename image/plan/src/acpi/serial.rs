//! The console of the SPCR or, without one, the first serial port of the DBG2.

use zerocopy::FromBytes;

use super::layout::{Dbg2, Dbg2Device, Gas, Spcr};
use super::tables::{Table, Tables};
use crate::note::{Note, TableDefect};
use crate::serial::{Kind, Uart, Width, ns16550};
use linmap::Pa;

/// The kinds of ports, the same in both tables: compatible with a 16550, in two versions; a PL011; generic UARTs, with
/// registers of 32 bits alone and of any width; compatible with a 16550, by the address structure.
const FULL_16550: u16 = 0x0;
const SUBSET_16550: u16 = 0x1;
const PL011: u16 = 0x3;
const GENERIC_32: u16 = 0xd;
const GENERIC: u16 = 0xe;
const GAS_16550: u16 = 0x12;

/// A port of the DBG2 that is serial.
const SERIAL: u16 = 0x8000;

/// The space of addresses that loads and stores reach.
const SYSTEM_MEMORY: u8 = 0;
/// Accesses of 32 bits; smaller values are smaller accesses, 0 is none that the firmware knows.
const ACCESS_32: u8 = 3;

impl Tables<'_> {
    /// Returns the console. Notes each port that cannot be one.
    pub(crate) fn console(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<Uart> {
        if let Some((spcr, _)) = self.get::<Spcr>(Table::Spcr, false, note) {
            let kind = u16::from(spcr.kind);
            match uart(kind, &spcr.registers) {
                Some(uart) => return Some(uart),
                // No address: the firmware has no console, on purpose.
                None if spcr.registers.address.get() == 0 => {}
                None => note(Table::Spcr.wrong(TableDefect::NoConsole { kind })),
            }
        }
        self.debug_port(note)
    }

    /// Returns the first serial port of the DBG2 that can be used.
    fn debug_port(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<Uart> {
        let (dbg2, bytes) = self.get::<Dbg2>(Table::Dbg2, false, note)?;
        let mut at = dbg2.devices.get() as usize;
        for _ in 0..dbg2.count.get() {
            let rest = bytes.get(at..).unwrap_or_default();
            let Ok((device, _)) = Dbg2Device::ref_from_prefix(rest) else {
                let least = size_of::<Dbg2Device>();
                note(Table::Dbg2.wrong(TableDefect::Structure { at, kind: 0, bytes: rest.len(), least }));
                return None;
            };
            let registers = rest.get(usize::from(device.registers.get())..);
            let registers = registers.and_then(|bytes| Gas::ref_from_prefix(bytes).ok());
            let kind = device.kind.get();
            match registers.and_then(|(gas, _)| uart(kind, gas)) {
                Some(uart) if device.port.get() == SERIAL => return Some(uart),
                None if device.port.get() == SERIAL => {
                    note(Table::Dbg2.wrong(TableDefect::NoConsole { kind }));
                }
                _ => {}
            }
            // A device without bytes of its own would be there again for ever.
            at = at.saturating_add(usize::from(device.length.get()).max(size_of::<Dbg2Device>()));
        }
        None
    }
}

/// Returns the port of a kind with these registers; none if it is of another kind, or behind a bus.
fn uart(kind: u16, gas: &Gas) -> Option<Uart> {
    let address = gas.address.get();
    if gas.space != SYSTEM_MEMORY || address == 0 {
        return None;
    }
    let kind = match kind {
        PL011 => Kind::Pl011,
        GENERIC_32 | GENERIC => Kind::Generic,
        FULL_16550 | SUBSET_16550 | GAS_16550 => registers(gas)?,
        _ => return None,
    };
    Some(Uart { kind, registers: Pa(address) })
}

/// Returns the registers of a 16550: so far apart as a register is wide, and accessed as the structure says. Without an
/// access size the accesses are as wide as a register.
fn registers(gas: &Gas) -> Option<Kind> {
    let shift = match gas.bits {
        // Firmware of the time before the structure counted leaves it out.
        0 | 8 => 0,
        16 => 1,
        32 => 2,
        _ => return None,
    };
    let width = match gas.access {
        0 if shift == 2 => Width::Word,
        0 | 1 => Width::Byte,
        ACCESS_32 => Width::Word,
        _ => return None,
    };
    // A word at the address of a byte is a register with three bytes that are not used.
    ns16550(if width == Width::Word { 2 } else { shift }, width)
}
