//! The interrupt controller of the MADT: a distributor, and CPU interfaces or redistributors.
//!
//! Redistributors come in ranges (GICR) or, if they may lose power, one for each CPU (in its GICC). Single ones that are next
//! to each other are joined, so that few ranges are mapped.

use core::ops::Range;

use arrayvec::ArrayVec;
use linmap::Pa;

use super::cpus::{ENABLED, GICC};
use super::layout::{GicIts, Gicc, Gicd, Gicr, Madt};
use super::structures::each;
use super::tables::{Table, Tables};
use crate::cpus::MAX;
use crate::gic::{InterruptController, REGIONS, Regions, TranslationServices};
use crate::note::{Note, TableDefect};

const GICD: u8 = 0xc;
const GICR: u8 = 0xe;
const GIC_ITS: u8 = 0xf;

/// The bytes of registers, which the table does not have: of a distributor, of a GICv2 and of others; of a CPU interface.
const DISTRIBUTOR_V2: u64 = 0x1000;
const DISTRIBUTOR: u64 = 0x1_0000;
const CPU_INTERFACE: u64 = 0x2000;
/// The bytes of a redistributor without frames for virtual interrupts, and with them.
const TWO_FRAMES: u64 = 0x2_0000;
const FOUR_FRAMES: u64 = 0x4_0000;

/// A note of the MADT.
const fn wrong(defect: TableDefect) -> Note<'static> {
    Table::Madt.wrong(defect)
}

impl Tables<'_> {
    /// Returns the interrupt controller.
    pub(super) fn interrupts(&self, note: &mut dyn FnMut(Note<'_>)) -> Option<InterruptController> {
        let (_, bytes) = self.get::<Madt>(Table::Madt, true, note)?;
        let parts = Parts::of(bytes, note);
        let Some((base, version)) = parts.distributor else {
            note(wrong(TableDefect::NoDistributor));
            return None;
        };
        let controller = parts.controller(base, version, note);
        if controller.is_none() {
            note(wrong(TableDefect::NotGic));
        }
        controller
    }
}

impl Tables<'_> {
    /// Returns the interrupt translation services (type 15, ACPI 5.2.12.18), by their registers.
    pub(super) fn translation_services(&self, note: &mut dyn FnMut(Note<'_>)) -> TranslationServices {
        let (mut all, mut left_out) = (TranslationServices::new(), false);
        // What is wrong with the table itself is noted with the interrupt controller.
        let Some((_, bytes)) = self.get::<Madt>(Table::Madt, false, &mut |_| {}) else { return all };
        each((Table::Madt, bytes), size_of::<Madt>(), &mut |_| {}, |part, _| {
            let its = (part.kind == GIC_ITS).then(|| part.read::<GicIts>(note)).flatten();
            let base = its.map(|its| Pa(its.base.get())).filter(|base| !all.contains(base));
            left_out |= base.is_some_and(|base| all.try_push(base).is_err());
        });
        if left_out {
            note(wrong(TableDefect::Ranges { most: all.capacity() }));
        }
        all
    }
}

/// The registers that the MADT names.
#[derive(Default)]
struct Parts {
    /// The base of the distributor, and the version of the architecture; 0 if the table does not have it.
    distributor: Option<(u64, u8)>,
    /// The CPU interface of a GICv2, which has the same address on every CPU.
    cpu_interface: u64,
    /// Ranges of redistributors.
    ranges: Regions,
    /// Single ones.
    single: ArrayVec<u64, MAX>,
}

impl Parts {
    fn of(bytes: &[u8], note: &mut dyn FnMut(Note<'_>)) -> Self {
        let mut parts = Self::default();
        each((Table::Madt, bytes), size_of::<Madt>(), note, |part, note| match part.kind {
            GICD => part.read(note).into_iter().for_each(|gicd| parts.add_distributor(gicd, note)),
            GICR => part.read(note).into_iter().for_each(|gicr| parts.add_range(gicr, note)),
            GICC => part.read(note).into_iter().for_each(|gicc| parts.add_cpu(gicc)),
            _ => {}
        });
        parts
    }

    fn add_distributor(&mut self, gicd: &Gicd, note: &mut dyn FnMut(Note<'_>)) {
        match self.distributor {
            Some(_) => note(wrong(TableDefect::Distributors)),
            None => self.distributor = Some((gicd.base.get(), gicd.version)),
        }
    }

    fn add_range(&mut self, gicr: &Gicr, note: &mut dyn FnMut(Note<'_>)) {
        let (start, size) = (gicr.base.get(), u64::from(gicr.length.get()));
        let Some(range) = range(start, size) else {
            return note(wrong(TableDefect::BeyondAddresses { start, size }));
        };
        if self.ranges.try_push(range).is_err() {
            note(wrong(TableDefect::Ranges { most: REGIONS }));
        }
    }

    fn add_cpu(&mut self, gicc: &Gicc) {
        if gicc.flags.get() & ENABLED == 0 {
            return;
        }
        if self.cpu_interface == 0 {
            self.cpu_interface = gicc.cpu_interface.get();
        }
        if gicc.redistributor.get() != 0 {
            // CPUs beyond the most are left out, and are noted as such.
            _ = self.single.try_push(gicc.redistributor.get());
        }
    }

    /// Makes the controller of these parts, of a version that the table gives, or 0 for one that the parts show.
    fn controller(
        mut self,
        base: u64,
        version: u8,
        note: &mut dyn FnMut(Note<'_>),
    ) -> Option<InterruptController> {
        let is_v3 = match version {
            0 => !self.ranges.is_empty() || !self.single.is_empty(),
            version => version >= 3,
        };
        if !is_v3 {
            let interface = Some(self.cpu_interface).filter(|at| *at != 0)?;
            return InterruptController::v2(range(base, DISTRIBUTOR_V2)?, range(interface, CPU_INTERFACE)?);
        }
        let distributor = range(base, DISTRIBUTOR)?;
        if !self.ranges.is_empty() {
            return InterruptController::v3(distributor, self.ranges, None, false);
        }
        self.single.sort_unstable();
        let stride = stride(&self.single, version);
        InterruptController::v3(distributor, joined(&self.single, stride, note), Some(stride), true)
    }
}

/// Returns the bytes from one redistributor to the next: as few as between any two, but what one has by the version of the
/// architecture, and no more than one can have.
fn stride(single: &[u64], version: u8) -> u64 {
    let usual = if version >= 4 { FOUR_FRAMES } else { TWO_FRAMES };
    let between = single.windows(2).map(|two| two[1] - two[0]).filter(|bytes| *bytes != 0);
    between.min().map_or(usual, |least| if least >= FOUR_FRAMES { FOUR_FRAMES } else { TWO_FRAMES })
}

/// Joins redistributors, in the order of their addresses, that are a stride apart.
fn joined(single: &[u64], stride: u64, note: &mut dyn FnMut(Note<'_>)) -> Regions {
    let mut regions = Regions::new();
    let mut left_out = false;
    for &start in single {
        let Some(own) = range(start, stride) else {
            note(wrong(TableDefect::BeyondAddresses { start, size: stride }));
            continue;
        };
        match regions.last_mut() {
            Some(last) if last.end == own.start => last.end = own.end,
            Some(last) if last.end > own.start => {}
            _ => left_out |= regions.try_push(own).is_err(),
        }
    }
    if left_out {
        note(wrong(TableDefect::Ranges { most: REGIONS }));
    }
    regions
}

fn range(start: u64, bytes: u64) -> Option<Range<Pa>> {
    Some(Pa(start)..Pa(start.checked_add(bytes)?))
}
