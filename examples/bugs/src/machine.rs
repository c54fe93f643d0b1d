//! The machine of the bugs: RAM where it is in the lower half, pages of one table in the upper half, and a second CPU that uses both.
//!
//! What a bug does to tables and TLBs are macros, so that it has its lines in the bug's file.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

/// A size of pages of the upper half.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Granule {
    K4,
    K16,
}

/// 16K of RAM: a table, or a page, of any granule.
#[repr(C, align(16384))]
pub(crate) struct Page(UnsafeCell<[u64; 2048]>);

// SAFETY: the second CPU touches none.
unsafe impl Sync for Page {}

impl Page {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; 2048]))
    }

    /// Its address: physical, and virtual in the lower half.
    pub(crate) fn at(&self) -> u64 {
        self.0.get() as u64
    }

    /// A word of it.
    pub(crate) fn word(&self, n: usize) -> *mut u64 {
        assert!(n < 2048);
        self.0.get().cast::<u64>().wrapping_add(n)
    }
}

/// The root of the lower half.
pub(crate) static LOWER: Page = Page::new();
static UPPER: Page = Page::new();
/// The table of level 2 of the upper half, and that of level 3.
pub(crate) static MIDDLE: Page = Page::new();
pub(crate) static TABLE: Page = Page::new();
/// Pages for anything.
pub(crate) static SPARE: [Page; 6] = [const { Page::new() }; 6];

/// Normal memory and Device, as MAIR_EL1 has them; accessed, inner shareable.
const NORMAL: u64 = 0x700;
const DEVICE: u64 = 0x404;
/// A page that cannot be written to, and one of a process.
pub(crate) const READ_ONLY: u64 = 1 << 7;
pub(crate) const NOT_GLOBAL: u64 = 1 << 11;

/// A descriptor of a page.
pub(crate) fn leaf(page: &Page) -> u64 {
    page.at() | NORMAL | 3
}

/// A descriptor of a table.
pub(crate) fn table(page: &Page) -> u64 {
    page.at() | 3
}

/// The address of a page of the upper half that the table maps.
pub(crate) const fn va(granule: Granule, page: u64) -> u64 {
    match granule {
        Granule::K4 => (!0 << 39u32) + (page << 12u32),
        Granule::K16 => (!0 << 36u32) + (page << 14u32),
    }
}

/// The operand of a TLBI of an address (C5.5, TLBI VAE1): its bits 55:12, whatever the size of a page.
pub(crate) const fn operand(va: u64) -> u64 {
    va << 8u32 >> 20u32
}

/// Stores a descriptor.
#[collapse_debuginfo(yes)]
macro_rules! store {
    ($slot:expr, $word:expr) => {{
        let (slot, word): (*mut u64, u64) = ($slot, $word);
        // SAFETY: the slot is a word of a table of this kernel, or an address that it maps.
        unsafe { core::arch::asm!("str {}, [{}]", in(reg) word, in(reg) slot) }
    }};
}

/// Executes instructions without a register.
#[collapse_debuginfo(yes)]
macro_rules! execute {
    ($($instruction:literal),*) => {
        // SAFETY: barriers, and TLBIs of translations that this kernel has ended.
        unsafe { core::arch::asm!($($instruction),*) }
    };
}

/// Executes a TLBI with an operand.
#[collapse_debuginfo(yes)]
macro_rules! tlbi {
    ($op:literal, $operand:expr) => {{
        let operand: u64 = $operand;
        // SAFETY: it drops what the TLBs hold, which tables have.
        unsafe { core::arch::asm!(concat!("tlbi ", $op, ", {}"), in(reg) operand) }
    }};
}

/// The CPU has ended what it did, and waits for an interrupt that is there at once: WFIT XZR.
#[collapse_debuginfo(yes)]
macro_rules! idle {
    () => {
        // SAFETY: it changes nothing.
        unsafe { core::arch::asm!(".inst 0xd503103f") }
    };
}

pub(crate) use {execute, idle, store, tlbi};

/// Maps a page, uses it, and has no barrier left to execute.
#[collapse_debuginfo(yes)]
macro_rules! map {
    ($granule:expr, $number:expr, $page:expr) => {{
        $crate::machine::store!($crate::machine::TABLE.word($number), $crate::machine::leaf($page));
        $crate::machine::execute!("dsb ishst", "isb");
        $crate::machine::store!($crate::machine::va($granule, $number as u64) as *mut u64, 1);
    }};
}

pub(crate) use map;

/// With the MMU off: fills the tables, turns the MMU on, and starts the second CPU, which does the same.
pub(crate) fn start(granule: Granule) {
    store!(LOWER.word(0), DEVICE | 1);
    store!(LOWER.word(1), 1 << 30u32 | NORMAL | 1);
    store!(MIDDLE.word(0), table(&TABLE));
    // 39 bits and 4K in the lower half; in the upper one the same, or 36 bits and 16K, which has its root at level 2.
    let (root, upper) = match granule {
        Granule::K4 => (UPPER.at(), 2 << 30u32 | 25 << 16u32),
        Granule::K16 => (MIDDLE.at(), 1 << 30u32 | 28 << 16u32),
    };
    store!(UPPER.word(0), table(&MIDDLE));
    // Write-back walks, inner shareable; 40 bits of physical addresses.
    let tcr = 2u64 << 32u32 | upper | 25 | 0x3500_3500;
    for (n, value) in [tcr, root, LOWER.at() | 1 << 48u32].into_iter().enumerate() {
        store!(SPARE[0].word(n), value);
    }
    // SAFETY: the lower half maps all of this kernel where it is. PSCI's CPU_ON starts CPU 1, which loads the same registers and waits.
    unsafe {
        asm!("bl enable", in("x0") SPARE[0].at(), out("x1") _, out("x2") _, out("x30") _);
        asm!("hvc #0", inout("x0") 0xc400_0003_u64 => _, in("x1") 1u64, in("x2") second as *const () as u64, in("x3") SPARE[0].at());
    }
    // It says so.
    // SAFETY: a word of this kernel's, which the second CPU stores to.
    while unsafe { SPARE[0].word(3).read_volatile() } == 0 {}
}

unsafe extern "C" {
    fn second() -> !;
}

global_asm!(
    r#"
.section .start, "ax"
.global _start
_start:
    mov     x0, #0x00300000         // FP does not trap
    msr     cpacr_el1, x0
    isb
    adr     x0, vectors
    msr     vbar_el1, x0
    ldr     x0, =stack_top
    mov     sp, x0
    b       main

second:                             // x0: the registers' values
    bl      enable
    mov     x1, #1
    str     x1, [x0, #24]
1:  wfe
    b       1b

enable:                             // loads the registers from x0, and turns the MMU on
    mov     x1, #0xff
    msr     mair_el1, x1
    ldr     x1, [x0]
    msr     tcr_el1, x1
    ldp     x1, x2, [x0, #8]
    msr     ttbr1_el1, x1
    msr     ttbr0_el1, x2
    dsb     ish
    isb
    tlbi    vmalle1
    dsb     nsh
    isb
    mrs     x1, sctlr_el1
    mov     x2, #0x1005
    orr     x1, x1, x2
    msr     sctlr_el1, x1
    isb
    ret
"#
);
