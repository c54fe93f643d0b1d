//! The machine that ACPI tables describe. RAM and boot arguments, which ACPI has not, come from the loader.
//!
//! Firmware is not trusted: what is missing, damaged or makes no sense is noted and left out. A machine without tables
//! still boots, with one CPU and no interrupts.
//!
//! A file uses only those before it in this list: `layout`, the bytes of tables; `tables`, finding them; `structures`, the
//! parts of a table; `cpus`, `gic`, `serial` and `nodes`, each a part of the machine; this file.

mod cpus;
mod gic;
mod layout;
mod nodes;
mod serial;
mod structures;
mod tables;
#[cfg(test)]
mod tests;

use arrayvec::ArrayString;

use self::layout::{Fadt, Gtdt};
use self::tables::Table;
pub use self::tables::{Memory, NoTables, Tables};
use crate::efi::memory_map::{self, MemoryMap};
use crate::machine::{Conduit, Machine, MachineError, Source};
use crate::note::{Note, TableDefect};
use crate::ranges::{Lost, Ranges};
use crate::text::copy;

/// The part of a machine's description that the loader hands over beside ACPI tables.
#[derive(Clone, Debug, Default)]
pub struct FromLoader<'a> {
    /// The boot arguments.
    pub bootargs: &'a [u8],
    /// RAM, without what must not be mapped.
    pub ram: Ranges,
    /// RAM that is mapped and not free. The tables are in it, if they are in RAM and are read again later.
    pub reserved: Ranges,
    /// Memory that would be RAM but must not be mapped.
    pub no_map: Ranges,
    /// Ranges of RAM that there was no room for.
    pub left_out: Lost,
}

impl Machine {
    /// Reads a machine from tables, which lie one after the other, and the firmware's memory map. It has no boot arguments. Calls
    /// `note` for each thing that is left out.
    ///
    /// # Errors
    ///
    /// The map has no RAM.
    pub fn read_acpi(
        tables: &[u8],
        map: MemoryMap<'_>,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Result<Self, MachineError> {
        let mut left_out = Lost::default();
        let memory_map::Memory { ram, reserved, no_map } = map.memory(&mut left_out, note);
        if ram.as_slice().is_empty() {
            return Err(MachineError::NoRam);
        }
        let given = FromLoader { bootargs: b"", ram, reserved, no_map, left_out };
        Ok(Tables::in_file(tables, note).machine(given, note))
    }
}

impl Tables<'_> {
    /// Makes a machine of the tables and what the loader adds. Calls `note` for each thing that is left out.
    pub fn machine(&self, given: FromLoader<'_>, note: &mut dyn FnMut(Note<'_>)) -> Machine {
        let FromLoader { bootargs, ram, reserved, no_map, left_out } = given;
        if left_out != Lost::default() {
            note(Note::MemoryLeftOut(left_out));
        }
        let uart = self.console(note);
        if uart.is_none() {
            note(Note::NoConsole);
        }
        let conduit = self.conduit(note);
        Machine {
            source: Source::Acpi,
            model: self.model(),
            bootargs: copy(bootargs, "bootargs", note),
            ram,
            reserved,
            no_map,
            left_out,
            nodes: self.nodes(note),
            uart,
            conduit,
            interrupts: self.interrupts(note),
            translation_services: self.translation_services(note),
            timer: self.timer(note),
            cpus: self.cpus(conduit.is_some(), note),
        }
    }

    /// Returns the names that the manufacturer gives itself and the machine.
    fn model(&self) -> ArrayString<64> {
        let Some((fadt, _)) = self.get::<Fadt>(Table::Fadt, false, &mut |_| {}) else {
            return ArrayString::from("unknown machine").unwrap_or_default();
        };
        let mut model = ArrayString::new();
        for name in [&fadt.header.oem[..], &fadt.header.oem_table] {
            // There is room: 14 bytes and a space.
            for byte in name.trim_ascii().iter().filter(|byte| byte.is_ascii_graphic() || **byte == b' ') {
                _ = model.try_push(char::from(*byte));
            }
            _ = model.try_push(' ');
        }
        let end = model.trim_end().len();
        model.truncate(end);
        model
    }

    /// Returns the conduit of PSCI (ACPI, Arm boot architecture flags of the FADT); none without PSCI.
    fn conduit(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<Conduit> {
        const COMPLIANT: u16 = 1 << 0;
        const USE_HVC: u16 = 1 << 1;
        let (fadt, _) = self.get::<Fadt>(Table::Fadt, true, note)?;
        let flags = fadt.arm_boot.get();
        let conduit = if flags & USE_HVC != 0 { Conduit::Hvc } else { Conduit::Smc };
        (flags & COMPLIANT != 0).then_some(conduit)
    }

    /// Returns the INTID of the virtual timer.
    fn timer(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<u32> {
        let (gtdt, _) = self.get::<Gtdt>(Table::Gtdt, true, note)?;
        let intid = gtdt.virtual_timer.get();
        if !(16..32).contains(&intid) {
            note(Table::Gtdt.wrong(TableDefect::NotPrivate { intid }));
            return None;
        }
        Some(intid)
    }
}
