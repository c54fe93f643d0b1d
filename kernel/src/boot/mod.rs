//! From the entry code's map to the final one: the image by segment, RAM 1:1, the chosen granule.

use core::arch::global_asm;
use core::ops::Range;

use aarch64_cpu::registers::{Readable, TCR_EL1};
use kernel_plan::choice;
use kernel_plan::uart::{Consoles, FALLBACK};
use linmap::arm64::Counting;
use linmap::{
    AddressSpace, Attributes, Dsb, Error, Features, Geometry, Granule, Half, Leaves, Memory, MemoryType,
    OaFormat, Pa, Region, Tree, Va,
};

use crate::frames::Frames;
use crate::smp::slot;
use crate::{identity, psci};

/// Where the image is linked; the same number is in `image.ld`.
pub(crate) const KERNEL_VA: u64 = 0xffff_ffff_8000_0000;
/// Where the console's registers are mapped, above any image.
const DEVICE_VA: u64 = KERNEL_VA + (256 << 20);
/// Where the fallback console is mapped beside the one in use, for when that one faults.
pub(crate) const EMERGENCY_UART: Va = Va(DEVICE_VA + (1 << 20));
/// From where on other registers are mapped.
pub(crate) const REGISTERS_VA: u64 = EMERGENCY_UART.0 + (64 << 10);

/// Whether an address is a register of the console in use.
pub(crate) const fn is_console(va: Va) -> bool {
    va.0 >= DEVICE_VA && va.0 < EMERGENCY_UART.0
}

/// SCTLR_EL1: the bits that are RES1 or keep their meaning on a CPU without newer features
/// (LSMAOE, nTLSMD, SPAN, EIS, TSCXT, EOS).
const SCTLR_OFF: u64 = 1 << 29 | 1 << 28 | 1 << 23 | 1 << 22 | 1 << 20 | 1 << 11;
/// With the MMU, both caches, and a check that the stack is aligned.
const SCTLR_ON: u64 = SCTLR_OFF | 1 << 12 | 1 << 3 | 1 << 2 | 1;

global_asm!(
    include_str!("entry.s"),
    sctlr_off = const SCTLR_OFF,
    sctlr_on = const SCTLR_ON,
    tcr_4k = const tcr(Granule::K4, OaFormat::Bits48, 48, 48),
    tcr_16k = const tcr(Granule::K16, OaFormat::Bits48, 48, 48),
    tcr_64k = const tcr(Granule::K64, OaFormat::Bits48, 48, 48),
    mair = const MemoryType::mair(false),
    normal = const EARLY_NORMAL,
    device = const EARLY_DEVICE,
    early_uart = const FALLBACK.0,
    simd = const cfg!(target_feature = "neon") as u8,
);

global_asm!(
    include_str!("secondary.s"),
    sctlr_off = const SCTLR_OFF,
    sctlr_on = const SCTLR_ON,
    cpu_off = const psci::CPU_OFF,
    arrived = const slot::ARRIVED,
    features = const slot::FEATURES,
    orders = const slot::ORDERS,
    verdict = const slot::VERDICT,
    conduit = const slot::CONDUIT,
    tables = const slot::TABLES,
    stack = const slot::STACK,
    admitted = const slot::ADMITTED,
);

/// The leaves of the entry code: valid, the image writable and executable until it is mapped properly.
const EARLY_NORMAL: u64 = Attributes::KERNEL_DATA.difference(Attributes::PXN).bits() | 1;
const EARLY_DEVICE: u64 = Attributes::DEVICE.bits() | 1;

/// TCR_EL1 without the physical address size: both halves in one granule, walks cacheable and inner
/// shareable.
const fn tcr(granule: Granule, format: OaFormat, lower_bits: u32, upper_bits: u32) -> u64 {
    let (tg0, tg1) = match granule {
        Granule::K4 => (0, 2),
        Granule::K16 => (2, 1),
        Granule::K64 => (1, 3),
    };
    let walks = 1 | 1 << 2 | 3 << 4;
    let lower = (64 - lower_bits) as u64 | walks << 8 | tg0 << 14;
    let upper = (64 - upper_bits) as u64 | walks << 8 | tg1 << 14;
    let ds = matches!(format, OaFormat::Lpa2) as u64;
    lower | upper << 16 | ds << 59
}

/// A root table's address as TTBR holds it (D8.2.3): with 52-bit addresses bits 51:48 stand in 5:2.
pub(crate) const fn ttbr(root: Pa, format: OaFormat) -> u64 {
    match format {
        OaFormat::Bits48 => root.0,
        OaFormat::Lpa | OaFormat::Lpa2 => (root.0 & ((1 << 48) - 1)) | ((root.0 >> 48) & 0xf) << 2,
    }
}

/// TCR_EL1 as this CPU has it, for another one: of its own physical address size.
pub(crate) fn tcr_for(geometry: Geometry, cpu: &Features) -> u64 {
    TCR_EL1.get() & !(7 << 32) | ips(choice::pa_bits(cpu, geometry))
}

/// MAIR_EL1 as [`enter`] sets it on a boot CPU of these features.
pub(crate) const fn mair(features: &Features) -> u64 {
    MemoryType::mair(features.has_tags())
}

/// TCR_EL1.IPS for a physical address size in bits.
const fn ips(pa_bits: u32) -> u64 {
    let field = match pa_bits {
        ..=32 => 0,
        33..=36 => 1,
        37..=40 => 2,
        41..=42 => 3,
        43..=44 => 4,
        45..=48 => 5,
        _ => 6,
    };
    field << 32
}

unsafe extern "C" {
    static image_start: u8;
    static rodata_start: u8;
    static data_start: u8;
    static bss_end: u8;
    static boot_stack_top: u8;
    static pool_start: u8;
    static emergency_stack_top: u8;
    static image_end: u8;
    fn switch_tables(ttbr0: u64, ttbr1: u64, tcr: u64, mair: u64);
}

/// Where the loader put the image, and what is in it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    start: Pa,
}

impl Image {
    /// The image that runs, loaded at `start`.
    pub(crate) const fn at(start: Pa) -> Self {
        Self { start }
    }

    /// The physical address of something in the image.
    pub(crate) const fn pa(&self, va: u64) -> Pa {
        Pa(va.wrapping_sub(KERNEL_VA).wrapping_add(self.start.0))
    }

    /// What to add to a physical address in the image to get its virtual one, wrapping.
    pub(crate) const fn offset(&self) -> u64 {
        KERNEL_VA.wrapping_sub(self.start.0)
    }

    fn symbols(&self, from: *const u8, to: *const u8) -> Range<Pa> {
        self.pa(from as u64)..self.pa(to as u64)
    }

    /// All of it.
    pub(crate) fn range(&self) -> Range<Pa> {
        self.symbols(&raw const image_start, &raw const image_end)
    }

    /// Code and constants: what is never written.
    pub(crate) fn read_only(&self) -> Range<Pa> {
        self.symbols(&raw const image_start, &raw const data_start)
    }

    /// Code.
    pub(crate) fn text(&self) -> Range<Pa> {
        self.symbols(&raw const image_start, &raw const rodata_start)
    }

    /// Memory for the tables of the image map and of the 1:1 map, up to the guard of the emergency stack.
    pub(crate) fn pool(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const pool_start, stack_guards(page)[1])
    }

    /// Memory that held the entry code's tables, free once others are in use, up to the guard of the boot
    /// stack.
    pub(crate) fn boot_tables(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const bss_end, stack_guards(page)[0])
    }

    /// Static storage for tables, sized for the largest page size: what is not kept is given back.
    pub(crate) fn static_bytes(&self, page: u64) -> u64 {
        [self.pool(page), self.boot_tables(page)].iter().map(|r| r.end.0 - r.start.0).sum()
    }

    /// The segments at their high addresses, each with its permissions: all but the guards of the stacks.
    fn segments(&self, page: u64) -> [Region; 5] {
        let segment = |from: *const u8, to: *const u8, attributes| Region {
            va: Va(from as u64),
            oa: self.pa(from as u64),
            bytes: to as u64 - from as u64,
            attributes,
            leaves: Leaves::Largest,
        };
        let (text, rodata) = (&raw const image_start, &raw const rodata_start);
        let (data, end) = (&raw const data_start, &raw const image_end);
        let [boot, emergency] = stack_guards(page);
        [
            segment(text, rodata, Attributes::KERNEL_TEXT),
            segment(rodata, data, Attributes::KERNEL_RODATA),
            segment(data, boot, Attributes::KERNEL_DATA),
            segment(boot.wrapping_add(page as usize), emergency, Attributes::KERNEL_DATA),
            segment(emergency.wrapping_add(page as usize), end, Attributes::KERNEL_DATA),
        ]
    }
}

/// Whether an address is in the unmapped page below a stack.
pub(crate) fn is_stack_guard(va: Va, page: u64) -> bool {
    stack_guards(page).iter().any(|guard| va.0 & !(page - 1) == *guard as u64)
}

/// The page below the boot stack, which is not mapped.
pub(crate) fn boot_stack_guard(page: u64) -> Va {
    Va(stack_guards(page)[0] as u64)
}

/// Where the pages begin that lie below the boot stack and below the emergency stack: not mapped, so that an
/// overflow faults. Stacks are whole pages; image.ld has room for these sizes at the largest page size.
fn stack_guards(page: u64) -> [*const u8; 2] {
    const BOOT_STACK: u64 = 128 << 10;
    const EMERGENCY_STACK: u64 = 32 << 10;
    let guard = |top: *const u8, stack: u64| top.wrapping_sub((stack.max(page) + page) as usize);
    [guard(&raw const boot_stack_top, BOOT_STACK), guard(&raw const emergency_stack_top, EMERGENCY_STACK)]
}

/// The kernel's own map, live: the image by segment and the console.
pub(crate) struct Booted {
    /// The upper half.
    pub(crate) space: AddressSpace,
    /// Where the registers of the console are that the device tree names.
    pub(crate) named_console: Option<Va>,
    /// Where a PL011 may be that it does not name.
    pub(crate) fallback_console: Option<Va>,
    /// The root of the 1:1 map, to be taken down.
    identity: Temporary,
}

struct Temporary {
    root: linmap::Frame,
    geometry: Geometry,
    /// A table without entries.
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
) -> Result<Booted, Error> {
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
        return Err(Error::OutOfFrames { taken: 0 });
    };
    frames.slots(&mut empty).fill(0);

    let bits = (lower.geometry().va_bits(), geometry.va_bits());
    let format = geometry.oa_format();
    let tcr = tcr(geometry.granule(), format, bits.0, bits.1) | ips(choice::pa_bits(features, geometry));
    let mair = mair(features);
    let (ttbr0, ttbr1) = (ttbr(lower.root(), format), ttbr(upper.root(), format));
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
    let identity = Temporary { root: identity_root, geometry: identity_geometry, empty };
    let within = |registers: Pa| registers.0 & (page - 1);
    Ok(Booted {
        space,
        named_console: named.map(|registers| Va(DEVICE_VA + within(registers))),
        fallback_console: fallback.map(|registers| Va(EMERGENCY_UART.0 + within(registers))),
        identity,
    })
}

/// The temporary 1:1 map, of a `geometry` that reaches it: the image's code, and RAM to take table pages from.
///
/// # Errors
///
/// The pool is too small for its tables.
pub(crate) fn identity_tree(
    frames: &Frames,
    geometry: Geometry,
    text: &Range<Pa>,
    ram: &Range<Pa>,
) -> Result<Tree, Error> {
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

impl Booted {
    /// Takes the 1:1 map down and returns its table pages, depth first. `frames` no longer uses it.
    ///
    /// The empty table stays in TTBR0 from now on, so that the lower half faults.
    pub(crate) fn leave_identity(self, frames: &Frames, cpu: &Counting) -> AddressSpace {
        let Temporary { root, geometry, empty } = self.identity;
        cpu.dsb(Dsb::Ishst);
        identity::set_empty(empty.into_pa(), geometry);
        identity::leave();
        // SAFETY: `root` came from `into_root` of a tree of this geometry; TTBR0 has changed and the
        // TLBI is complete, so no walker and no TLB knows its tables; no other CPU has run yet.
        let tree = unsafe { Tree::from_root(root, geometry, Half::Lower) };
        tree.discard(frames);
        self.space
    }
}
