//! The way from the entry code's map to the final one: the image by segment, RAM 1:1, the chosen granule.

use core::arch::global_asm;
use core::ops::Range;

use kernel_plan::choice;
use kernel_plan::uart::{Consoles, FALLBACK};
use linmap::arm64::{Counting, Uses};
use linmap::{
    AddressSpace, Attributes, BuildError, Dsb, Features, Geometry, Granule, Half, Leaves, Memory, MemoryType,
    OaFormat, Pa, Region, Registers, Tree, Va,
};

use crate::frames::Frames;
use crate::identity;
use crate::image::Image;
use crate::translation::mair;
use crate::virtual_addresses::{DEVICE_VA, EMERGENCY_UART};

global_asm!(
    include_str!("entry.s"),
    sctlr_off = const Registers::SCTLR_OFF,
    sctlr_on = const Registers::SCTLR_ON,
    tcr_4k = const Registers::tcr(Granule::K4, OaFormat::Bits48, 48, 48),
    tcr_16k = const Registers::tcr(Granule::K16, OaFormat::Bits48, 48, 48),
    tcr_64k = const Registers::tcr(Granule::K64, OaFormat::Bits48, 48, 48),
    mair = const MemoryType::mair(false),
    normal = const EARLY_NORMAL,
    device = const EARLY_DEVICE,
    early_uart = const FALLBACK.0,
    simd = const cfg!(target_feature = "neon") as u8,
);

/// Leaves of the entry code: valid; the image is writable and executable until it is mapped by segment.
const EARLY_NORMAL: u64 = Attributes::KERNEL_DATA.difference(Attributes::PXN).bits() | 1;
const EARLY_DEVICE: u64 = Attributes::DEVICE.bits() | 1;

unsafe extern "C" {
    fn switch_tables(ttbr0: u64, ttbr1: u64, tcr: u64, mair: u64);
}

/// The kernel's own map, live: the image by segment, and the console.
pub(crate) struct Booted {
    /// The upper half.
    pub(crate) space: AddressSpace,
    /// The registers of the console that the device tree names.
    pub(crate) named_console: Option<Va>,
    /// The page where a PL011 may be that the device tree does not name.
    pub(crate) fallback_console: Option<Va>,
    /// The temporary 1:1 map.
    pub(crate) identity: Temporary,
}

/// The temporary 1:1 map.
pub(crate) struct Temporary {
    root: linmap::Frame,
    geometry: Geometry,
    /// The empty table that takes its place.
    empty: linmap::Frame,
}

/// Leaves the entry code's map for tables of `geometry`: the image and the consoles in the upper half, an
/// [`identity_tree`] in the lower one.
///
/// # Errors
///
/// The pool is too small for the tables; nothing has changed.
pub(crate) fn enter(
    frames: &Frames,
    cpu: &Counting,
    image: &Image,
    geometry: Geometry,
    features: &Features,
    lower: Tree,
    consoles: &Consoles,
) -> Result<Booted, BuildError> {
    let page = geometry.page_size();
    let console = |va, registers: Pa| Region {
        va: Va(va),
        oa: Pa(registers.0 & !(page - 1)),
        bytes: page,
        attributes: Attributes::DEVICE,
        leaves: Leaves::Pages,
    };
    let Consoles { named, fallback } = *consoles;
    let named_page = named.map(|registers| console(DEVICE_VA, registers));
    let fallback_page = fallback.map(|registers| console(EMERGENCY_UART.0, registers));
    let regions = image.segments(page).into_iter().chain(named_page).chain(fallback_page);
    let upper = regions.flat_map(|r| r.runs(geometry));
    let upper = match Tree::build(frames, geometry, Half::Upper, upper) {
        Ok(upper) => upper,
        Err(e) => {
            lower.discard(frames);
            return Err(e);
        }
    };
    let Some(mut empty) = frames.take() else {
        upper.discard(frames);
        lower.discard(frames);
        return Err(BuildError::OutOfFrames { taken: 0 });
    };
    frames.slots(&mut empty).fill(0);

    let bits = (lower.geometry().va_bits(), geometry.va_bits());
    let format = geometry.oa_format();
    let tcr = Registers::tcr(geometry.granule(), format, bits.0, bits.1);
    let tcr = tcr | Registers::ips(choice::pa_bits(features, geometry));
    let mair = mair(features);
    let (ttbr0, ttbr1) = (Registers::ttbr(lower.root(), format), Registers::ttbr(upper.root(), format));
    let (identity_geometry, identity_root) = (lower.geometry(), lower.into_root());
    let space = AddressSpace::adopt(upper);
    cpu.dsb(Dsb::Ish);
    let stub = image.pa(switch_tables as *const () as u64).0;
    // SAFETY:
    // - the entry code and `lower` both map the stub's page executable at its physical address;
    // - `upper` maps the image, the stack included, just as it is mapped now, so that execution goes on;
    // - both trees are complete and, after the barrier, visible to walkers; their owner gave them up.
    unsafe {
        let stub: unsafe extern "C" fn(u64, u64, u64, u64) = core::mem::transmute(stub as *const ());
        stub(ttbr0, ttbr1, tcr, mair);
    }
    cpu.note(Uses { tlbi: 1, dsb: 1, isb: 3 });
    let identity = Temporary { root: identity_root, geometry: identity_geometry, empty };
    let within = |registers: Pa| registers.0 & (page - 1);
    Ok(Booted {
        space,
        named_console: named.map(|registers| Va(DEVICE_VA + within(registers))),
        fallback_console: fallback.map(|registers| Va(EMERGENCY_UART.0 + within(registers))),
        identity,
    })
}

/// Builds the temporary 1:1 map, of a `geometry` that reaches it: the image's code, and RAM to take table pages from.
///
/// # Errors
///
/// The pool is too small for its tables.
pub(crate) fn identity_tree(
    frames: &Frames,
    geometry: Geometry,
    text: &Range<Pa>,
    ram: &Range<Pa>,
) -> Result<Tree, BuildError> {
    let region = |r: &Range<Pa>, attributes| Region {
        va: Va(r.start.0),
        oa: r.start,
        bytes: (r.end.0 - r.start.0) & !(geometry.page_size() - 1),
        attributes,
        leaves: Leaves::Largest,
    };
    let mut regions = [region(text, Attributes::KERNEL_TEXT), region(ram, Attributes::RAM)];
    regions.sort_unstable_by_key(|r| r.oa);
    Tree::build(frames, geometry, Half::Lower, regions.into_iter().flat_map(|r| r.runs(geometry)))
}

impl Temporary {
    /// Takes the 1:1 map down and returns its table pages, depth first. `frames` no longer uses it.
    ///
    /// The empty table stays in TTBR0 from now on, so that the lower half faults.
    pub(crate) fn leave(self, frames: &Frames, cpu: &Counting) {
        let Self { root, geometry, empty } = self;
        cpu.dsb(Dsb::Ishst);
        identity::set_empty(empty.into_pa(), geometry);
        identity::leave();
        // SAFETY: `root` came from `into_root` of a tree of this geometry; TTBR0 has changed and the
        // TLBI is complete, so no walker and no TLB knows its tables; no other CPU has run yet.
        let tree = unsafe { Tree::from_root(root, geometry, Half::Lower) };
        tree.discard(frames);
    }
}
