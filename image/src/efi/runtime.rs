//! Runtime services after boot services are left: in a map of their own in the lower half, which exists only for them.
//!
//! The firmware was never told of other addresses (SetVirtualAddressMap), so its services run 1:1. The upper half stays, with the
//! stack and all that is handed to them.

use core::arch::asm;
use core::fmt;
use core::ptr::{self, NonNull};

use aarch64_cpu::registers::{Readable, TCR_EL1};
use kernel_plan::choice;
use kernel_plan::efi::memory_map::BadStride;
use kernel_plan::efi::runtime::{NoRuntime, regions};
use linmap::{BuildError, Dsb, Geometry, GeometryError, Half, Pa, Registers};

use super::handed::HandedOver;
use super::variables::Services;
use crate::cpus::{HARDWARE, Masked};
use crate::frames::Frames;
use crate::identity;

/// The reason why runtime services cannot be called.
pub(crate) enum NoServices {
    /// The firmware says that they have no variables.
    NoVariables,
    /// The firmware's memory map cannot be read.
    Map(BadStride),
    /// Their memory cannot be mapped.
    Regions(NoRuntime),
    /// They are beyond the addresses of this page size.
    Geometry(GeometryError),
    /// The tree of tables cannot be built.
    Build(BuildError),
    /// Their table is not in their memory: at this address.
    Elsewhere(Pa),
}

impl fmt::Display for NoServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoVariables => f.write_str("the firmware has no variables once its boot services are left"),
            Self::Map(e) => e.fmt(f),
            Self::Regions(e) => e.fmt(f),
            Self::Geometry(e) => write!(f, "the firmware's runtime services cannot be mapped: {e}"),
            Self::Build(e) => write!(f, "the firmware's runtime services cannot be mapped: {e}"),
            Self::Elsewhere(at) => {
                write!(f, "the table of the firmware's runtime services, at {at}, is not in their memory")
            }
        }
    }
}

/// Calls `work` with runtime services, on a CPU whose upper half has this geometry. Interrupts are masked meanwhile. The table pages
/// of the map are given back.
///
/// # Errors
///
/// The services cannot be mapped; nothing was called.
pub(crate) fn with_services<R>(
    handed: &HandedOver,
    (frames, geometry): (&Frames, Geometry),
    work: impl FnOnce(&mut Services<'_>) -> R,
) -> Result<R, NoServices> {
    let table = Pa(handed.runtime());
    let at: *mut _ = ptr::with_exposed_provenance_mut(table.0 as usize);
    let at = NonNull::new(at).ok_or(NoServices::NoVariables)?;
    let regions = handed
        .memory_map()
        .map_err(NoServices::Map)
        .and_then(|map| regions(map, geometry.page_size()).map_err(NoServices::Regions))?;
    if !regions.iter().any(|region| (region.oa.0..region.oa.0 + region.bytes).contains(&table.0)) {
        return Err(NoServices::Elsewhere(table));
    }
    let end = regions.last().map_or(0, |last| last.oa.0 + last.bytes);
    let lower = choice::identity_geometry(geometry, end).map_err(NoServices::Geometry)?;
    let tree = frames.tree(lower, Half::Lower, &mut regions.into_iter()).map_err(NoServices::Build)?;
    HARDWARE.cpu.dsb(Dsb::Ishst);
    let result = {
        let _masked = Masked::new();
        let before = TCR_EL1.get();
        let of_tree = before & !0x3f | u64::from(64 - lower.va_bits());
        // SAFETY: the tree is complete and visible to walkers. It maps what the firmware says that its services need, as it
        // says; the upper half does not change.
        unsafe { use_lower(Registers::ttbr(tree.root(), lower.oa_format()), of_tree) };
        // SAFETY: mapped until below; this CPU alone calls them.
        let result = work(&mut unsafe { Services::at(at) });
        // SAFETY: the empty table that is always there.
        unsafe { use_lower(identity::empty(), before) };
        result
    };
    tree.discard(frames);
    Ok(result)
}

/// Uses a table for the lower half, with TCR_EL1 as it is wanted for that. In between no address of the lower half is translated.
///
/// # Safety
///
/// The table is a root of the geometry that `tcr` has for the lower half, or an empty one; it stays until another is used. Nothing
/// uses an address of the lower half meanwhile.
unsafe fn use_lower(ttbr0: u64, tcr: u64) {
    /// TCR_EL1.EPD0: a miss of the lower half faults without a walk.
    const NO_WALKS: u64 = 1 << 7;
    // SAFETY: the caller's promise for the table. T0SZ may be held in the TLB, so it is emptied before walks are allowed.
    unsafe {
        asm!(
            "msr tcr_el1, {tcr_off}",
            "isb",
            "msr ttbr0_el1, {ttbr0}",
            "isb",
            "tlbi vmalle1",
            "dsb nsh",
            "msr tcr_el1, {tcr}",
            "isb",
            tcr_off = in(reg) tcr | NO_WALKS,
            ttbr0 = in(reg) ttbr0,
            tcr = in(reg) tcr,
            options(nostack, preserves_flags),
        );
    }
}
