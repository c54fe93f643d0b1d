//! The CPUs of the MADT: one GICC structure each (ACPI 5.2.12.14).

use core::fmt::Write;

use arrayvec::ArrayString;

use super::layout::{Gicc, Madt};
use super::structures::each;
use super::tables::{Table, Tables};
use crate::cpus::{Cpus, Listed, Start};
use crate::note::{Note, Signature, Subject, TableDefect};

/// The type of a GICC structure.
pub(super) const GICC: u8 = 0xb;
/// A CPU that can be used. Others are not there, or only once they are added.
pub(super) const ENABLED: u32 = 1 << 0;

impl Tables<'_> {
    /// Returns the CPUs that are enabled, in the order of the table. If there is PSCI, that starts them.
    pub(super) fn cpus(&self, by_psci: bool, note: &mut dyn FnMut(Note<'_>)) -> Cpus {
        let start = if by_psci { Start::Psci } else { Start::Unknown };
        let mut cpus = Cpus::default();
        let mut not_enabled = 0;
        // The interrupt controller's part notes what is wrong with the table.
        let Some((_, bytes)) = self.get::<Madt>(Table::Madt, false, &mut |_| {}) else { return cpus };
        each((Table::Madt, bytes), size_of::<Madt>(), &mut |_| {}, |part, silent| {
            let gicc = (part.kind == GICC).then(|| part.read::<Gicc>(silent)).flatten();
            let Some(gicc) = gicc else { return };
            if gicc.flags.get() & ENABLED == 0 {
                not_enabled += 1;
                return;
            }
            let mut name = ArrayString::<32>::new();
            // There is room for any number.
            _ = write!(name, "the CPU with UID {}", gicc.uid.get());
            cpus.add(&name, Ok(Listed { mpidr: gicc.mpidr.get(), start }), note);
        });
        if not_enabled != 0 {
            let table: Signature = Table::Madt.signature();
            let defect = TableDefect::NotEnabled { cpus: not_enabled };
            note(Note::Table { subject: Subject::Cpus, table, defect });
        }
        cpus.note_left_out(note);
        cpus
    }
}
