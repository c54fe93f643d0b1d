//! The way from the entry code's map to the final one: the image by segment, RAM 1:1, the chosen granule.

use core::arch::global_asm;
use core::ops::Range;

use kernel_plan::choice;
use kernel_plan::serial::Kind;
use kernel_plan::uart::{Consoles, FALLBACK};
use linmap::arch::Level;
use linmap::arm64::Uses;
use linmap::cpu::{Features, Registers};
use linmap::error::BuildError;
use linmap::{
    Attributes, BlankSpace, Dsb, Geometry, Granule, Half, Leaves, MemoryType, OaFormat, Pa, Region,
    SharedSpace, Tree, Va,
};

use crate::cpus::Counted;
use crate::frames::{Frames, Together};
use crate::identity;
use crate::image::Image;
use crate::translation::{mair, updates};
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

/// The place of the kernel's own map, which [`enter`] uses once.
static mut SPACE: BlankSpace = BlankSpace::new();

/// The kernel's own map, live: the image by segment, and the console.
pub(crate) struct Booted {
    /// The upper half.
    pub(crate) space: &'static mut SharedSpace,
    /// The console that the machine's description names: its kind and its registers.
    pub(crate) named_console: Option<(Kind, Va)>,
    /// The page where a PL011 may be that the description does not name.
    pub(crate) fallback_console: Option<Va>,
    /// The table that takes the place of the temporary 1:1 map.
    pub(crate) empty: Empty,
}

/// An empty table for the lower half.
pub(crate) struct Empty {
    root: linmap::Frame,
    geometry: Geometry,
}

/// Builds the image's own map, of `geometry`: its segments, and the consoles.
///
/// # Errors
///
/// The pool is too small for its tables.
pub(crate) fn image_tree(
    frames: &Frames,
    geometry: Geometry,
    image: &Image,
    consoles: &Consoles,
) -> Result<Tree, BuildError> {
    let page = geometry.page_size();
    let console = |va, registers: Pa| Region {
        va: Va(va),
        oa: Pa(registers.0 & !(page - 1)),
        bytes: page,
        attributes: Attributes::DEVICE,
        leaves: Leaves::Pages,
    };
    let Consoles { named, fallback } = *consoles;
    let named_page = named.map(|uart| console(DEVICE_VA, uart.registers));
    let fallback_page = fallback.map(|registers| console(EMERGENCY_UART.0, registers));
    let regions = image.segments(page).into_iter().chain(named_page).chain(fallback_page);
    Tree::build_regions(frames, geometry, Half::Upper, regions)
}

/// Leaves the entry code's map for tables of other geometries: an [`image_tree`] in the upper half, an [`identity_tree`] in
/// the lower one.
///
/// # Errors
///
/// There is no page for an empty table; nothing has changed, and the trees are lost.
pub(crate) fn enter(
    frames: &Frames,
    cpu: &Counted,
    image: &Image,
    features: &Features,
    (upper, lower): (Tree, Tree),
    consoles: &Consoles,
) -> Result<Booted, BuildError> {
    // It is empty as a root of either half.
    let both = [upper.geometry(), lower.geometry()];
    let [entries, of_lower] = both.map(|g| g.entries(g.root()));
    let [geometry, lower_geometry] = both;
    let larger = if entries < of_lower { lower_geometry } else { geometry };
    let empty = Tree::empty(frames, larger, Half::Lower)?.into_root();

    let format = geometry.oa_format();
    let tcr = Registers::tcr(geometry.granule(), format, lower_geometry.va_bits(), geometry.va_bits());
    let tcr = tcr | Registers::ips(choice::pa_bits(features, geometry)) | updates(features);
    let (ttbr0, ttbr1) = (Registers::ttbr(lower.root(), format), Registers::ttbr(upper.root(), format));
    // The pages of the lower tree are given back by `leave`.
    _ = lower.into_root().into_pa();
    // SAFETY: the boot enters once, on the first CPU, and nothing else names the static.
    let place: &'static mut BlankSpace = unsafe { &mut *core::ptr::addr_of_mut!(SPACE) };
    let space = place.adopt(upper);
    space.expect_hardware_updates(true);
    cpu.dsb(Dsb::Ish);
    let stub = image.pa(switch_tables as *const () as u64).0;
    // SAFETY:
    // - the entry code and `lower` both map the stub's page executable at its physical address;
    // - `upper` maps the image, the stack included, just as it is mapped now, so that execution goes on;
    // - both trees are complete and, after the barrier, visible to walkers; their owner gave them up.
    unsafe {
        let stub: unsafe extern "C" fn(u64, u64, u64, u64) = core::mem::transmute(stub as *const ());
        stub(ttbr0, ttbr1, tcr, mair(features));
    }
    cpu.note(Uses { tlbi: 1, dsb: 1, isb: 4 });
    let within = |registers: Pa| registers.0 & (geometry.page_size() - 1);
    Ok(Booted {
        space,
        named_console: consoles.named.map(|uart| (uart.kind, Va(DEVICE_VA + within(uart.registers)))),
        fallback_console: consoles.fallback.map(|registers| Va(EMERGENCY_UART.0 + within(registers))),
        empty: Empty { root: empty, geometry: lower_geometry },
    })
}

/// Builds the temporary 1:1 map, of a `geometry` that reaches it: the code of the switch, and RAM to take table pages from,
/// which may be none.
///
/// # Errors
///
/// The pool is too small for its tables.
pub(crate) fn identity_tree(
    frames: &Together<'_>,
    geometry: Geometry,
    image: &Image,
    ram: &Range<Pa>,
) -> Result<Tree, BuildError> {
    let code = around(image.pa(switch_tables as *const () as u64), &image.range(), geometry);
    let region = |r: &Range<Pa>, attributes| Region {
        va: Va(r.start.0),
        oa: r.start,
        bytes: (r.end.0 - r.start.0) & !(geometry.page_size() - 1),
        attributes,
        leaves: Leaves::Largest,
    };
    let (code, ram) = (region(&code, Attributes::KERNEL_TEXT), region(ram, Attributes::RAM));
    let regions = if ram.oa < code.oa { [ram, code] } else { [code, ram] };
    Tree::build_regions(frames, geometry, Half::Lower, regions)
}

/// Returns the block of level 2 that an address is in if all of it is the image's, which takes a table less; else its page.
fn around(pa: Pa, image: &Range<Pa>, geometry: Geometry) -> Range<Pa> {
    let part = |bytes: u64| Pa(pa.0 & !(bytes - 1))..Pa((pa.0 & !(bytes - 1)) + bytes);
    let block = part(geometry.level_size(Level::new(2)));
    if image.start <= block.start && block.end <= image.end { block } else { part(geometry.page_size()) }
}

/// Leaves the temporary 1:1 map, which is in TTBR0, and gives its table pages back. `frames` no longer uses it.
///
/// The empty table stays in TTBR0 from now on, so that the lower half faults.
pub(crate) fn leave_identity(empty: Empty, pages: &Together<'_>, cpu: &Counted) {
    cpu.dsb(Dsb::Ishst);
    identity::set_empty(empty.root.into_pa(), empty.geometry);
    identity::leave();
    // SAFETY: the pages are those of the tree that was in TTBR0. That has changed and the TLBI is complete, so no walker and
    // no TLB knows its tables; no other CPU has run yet.
    unsafe { pages.give_all() };
}
