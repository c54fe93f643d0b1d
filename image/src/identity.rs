//! The 1:1 map of the lower half: in use while a CPU comes up or is away from the upper half, and only then.
//!
//! A CPU runs on it while it turns its MMU on or changes the tables of the upper half. It has the image's code and all
//! RAM that table pages may come from. At other times TTBR0 has an empty table, so that what is read-only in the upper
//! half cannot be written through the lower one.

use core::ops::Range;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use aarch64_cpu::registers::{TTBR0_EL1, Writeable};
use kernel_plan::plan::Plan;
use linmap::arm64::Uses;
use linmap::cpu::Registers;
use linmap::error::BuildError;
use linmap::{Attributes, Dsb, Geometry, Half, Leaves, Pa, Region, Va};

use crate::cpus::HARDWARE;
use crate::frames::Frames;
use crate::image::Image;

/// TTBR0_EL1 while the 1:1 map is in use.
static TTBR0: AtomicU64 = AtomicU64::new(0);
/// TTBR0_EL1 at other times.
static EMPTY: AtomicU64 = AtomicU64::new(0);

/// Returns TTBR0_EL1 for the 1:1 map; 0 if there is none.
pub(crate) fn ttbr0() -> u64 {
    TTBR0.load(Relaxed)
}

/// Returns TTBR0_EL1 and TTBR1_EL1 for the empty table.
pub(crate) fn empty() -> u64 {
    EMPTY.load(Relaxed)
}

/// Uses the table at this address as the empty one from now on.
pub(crate) fn set_empty(table: Pa, geometry: Geometry) {
    EMPTY.store(Registers::ttbr(table, geometry.oa_format()), Relaxed);
}

/// Makes the 1:1 map for good. Returns how many table pages it takes.
///
/// `lower` is the geometry of the lower half that TCR_EL1 has.
///
/// # Errors
///
/// Out of frames; there is no 1:1 map then.
pub(crate) fn make(
    plan: &Plan<'_>,
    frames: &Frames,
    image: &Image,
    lower: Geometry,
) -> Result<u64, BuildError> {
    let page = lower.page_size();
    let region = |r: Range<Pa>, attributes| Region {
        va: Va(r.start.0),
        oa: r.start,
        bytes: (r.end.0 & !(page - 1)) - r.start.0,
        attributes,
        leaves: Leaves::Largest,
    };
    let (whole, read_only, text) = (image.range(), image.read_only(page), image.text(page));
    let free = |below: bool| plan.free.as_slice().iter().filter(move |r| (r.start < whole.start) == below);
    let of_image = [
        (text.clone(), Attributes::KERNEL_TEXT),
        (text.end..read_only.end, Attributes::KERNEL_RODATA),
        (read_only.end..image.range().end, Attributes::RAM),
    ];
    let ram = |r: &Range<Pa>| (r.clone(), Attributes::RAM);
    let all = free(true).map(ram).chain(of_image).chain(free(false).map(ram));
    let mut regions = all.map(|(range, attributes)| region(range, attributes));
    let tree = frames.tree(lower, Half::Lower, &mut regions)?;
    let tables = tree.stats().tables;
    // Before a walker of any CPU reaches it.
    HARDWARE.cpu.dsb(Dsb::Ishst);
    TTBR0.store(Registers::ttbr(tree.into_root().into_pa(), lower.oa_format()), Relaxed);
    Ok(tables)
}

/// Leaves the 1:1 map on the CPU that runs this.
pub(crate) fn leave() {
    TTBR0_EL1.set(empty());
    // SAFETY: dropping this CPU's TLB entries is always allowed. The barriers make the change of TTBR0 take
    // effect first, and wait until the entries are gone.
    unsafe {
        core::arch::asm!("isb", "tlbi vmalle1", "dsb nsh", "isb", options(nostack, preserves_flags));
    }
    HARDWARE.cpu.note(Uses { tlbi: 1, dsb: 1, isb: 2 });
}
