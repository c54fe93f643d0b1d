//! A kernel that stores to its tables by each instruction that stores, for QEMU's machine `virt`: as a kernel should, or, where the word at
//! [`IS_WRONG`] is not 0, as none should. `linmap judge` has to be told of each of these stores.
//!
//!     make judge bare-metal
//!     linmap judge --plugins target/judge -- -M virt,mte=on -cpu max -nographic -kernel target/tables.elf
//!     linmap judge --plugins target/judge -- -M virt,mte=on -cpu max -nographic -kernel target/tables.elf -device loader,addr=0x47000000,data=1,data-len=8
//!
//! The ways to store are in ways.s. They take turns with one table, which translates 2M of the upper half at one of two places.
#![cfg_attr(not(test), deny(clippy::default_numeric_fallback))]
#![no_std]
#![no_main]

#[path = "../../../../examples/bugs/src/last_words.rs"]
mod last_words;

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;

use last_words::end;

global_asm!(include_str!("ways.s"), options(raw));

/// A way to store: makes the first page what the second one is, as far as it can, and then stores the word to the slot, with nothing
/// between.
type Way = unsafe extern "C" fn(&Page, &Page, *mut u64, u64);

macro_rules! ways {
    ($($list:ident: $($name:ident)*;)*) => {
        unsafe extern "C" {
            $($(fn $name(to: &Page, from: &Page, slot: *mut u64, word: u64);)*)*
        }
        $(const $list: &[Way] = &[$($name),*];)*
    };
}

ways! {
    ANY: by_str by_halves by_stp by_stp_q by_st1 by_stlr by_stxr by_stxp by_cas by_casp by_swp by_ldeor by_ldclr by_set by_setg
        by_cpyf by_cpy by_sve_st1d by_sve_scatter by_sve_str by_sme_st1d by_sme_str;
    ZEROS_ALONE: by_dc_zva by_dc_gzva by_stzgm by_stzg;
    BITS_ALONE: by_ldset;
}

/// The ways that can make a page zero, and those that can store descriptors.
fn clearing() -> impl Iterator<Item = Way> {
    ANY.iter().chain(ZEROS_ALONE).copied()
}

fn filling() -> impl Iterator<Item = Way> {
    ANY.iter().chain(BITS_ALONE).copied()
}

fn all() -> impl Iterator<Item = Way> {
    clearing().chain(BITS_ALONE.iter().copied())
}

/// The place of the word that QEMU's loader writes.
const IS_WRONG: *const u64 = 0x4700_0000 as *const u64;

#[repr(C, align(4096))]
struct Page(UnsafeCell<[u64; 512]>);

// SAFETY: there is one CPU, and it takes no interrupts.
unsafe impl Sync for Page {}

impl Page {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; 512]))
    }

    /// Its address: physical, and virtual in the lower half.
    fn at(&self) -> u64 {
        self.0.get() as u64
    }

    fn word(&self, n: usize) -> *mut u64 {
        assert!(n < 512);
        self.0.get().cast::<u64>().wrapping_add(n)
    }

    fn set(&self, n: usize, word: u64) {
        // SAFETY: it is a word of the page, which is mapped where it is, or the MMU is off.
        unsafe { self.word(n).write_volatile(word) }
    }

    fn fill(&self, word: u64) {
        (0..512).for_each(|n| self.set(n, word));
    }
}

/// The roots of both halves, and the table of level 2 and that of level 3 below the upper one.
static LOWER: Page = Page::new();
static UPPER: Page = Page::new();
static MIDDLE: Page = Page::new();
static TABLE: Page = Page::new();
/// Pages that are mapped, by turns.
static OLD: Page = Page::new();
static NEW: Page = Page::new();
/// The contents that the ways give to the table.
static ZEROS: Page = Page::new();
static LEAVES: Page = Page::new();
/// Memory that means nothing.
static OTHER: Page = Page::new();

/// Normal memory and Device, as MAIR_EL1 has them; accessed, inner shareable.
const NORMAL: u64 = 0x700;
const DEVICE: u64 = 0x404;

fn leaf(page: &Page) -> u64 {
    page.at() | NORMAL | 3
}

fn table(page: &Page) -> u64 {
    page.at() | 3
}

/// The address of a page that the table maps, at its place in the table of level 2.
fn va(place: usize, page: u64) -> u64 {
    (!0 << 39u32) + ((place as u64) << 21u32) + (page << 12u32)
}

/// With the MMU off: maps RAM and the devices where they are, and turns the MMU on.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    LOWER.set(0, DEVICE | 1);
    LOWER.set(1, 1 << 30u32 | NORMAL | 1);
    UPPER.set(0, table(&MIDDLE));
    OLD.fill(1);
    NEW.fill(2);
    LEAVES.fill(leaf(&NEW));
    // 39 bits in both halves, pages of 4K, write-back walks, 40 bits of physical addresses.
    let tcr = 2u64 << 32u32 | 2 << 30u32 | 25 << 16u32 | 25 | 0x3500_3500;
    // SAFETY: the lower half maps all of this kernel where it is. QEMU has no caches.
    unsafe {
        asm!(
            "dsb ishst",
            "msr mair_el1, {mair}", "msr tcr_el1, {tcr}", "msr ttbr0_el1, {lower}", "msr ttbr1_el1, {upper}",
            "isb", "tlbi vmalle1", "dsb nsh", "isb",
            "mrs {sctlr}, sctlr_el1", "orr {sctlr}, {sctlr}, {on}", "msr sctlr_el1, {sctlr}", "isb",
            mair = in(reg) 0xffu64, tcr = in(reg) tcr, lower = in(reg) LOWER.at(), upper = in(reg) UPPER.at(),
            sctlr = out(reg) _, on = in(reg) 0x1005u64,
        );
    }
    // SAFETY: it is RAM, and nothing else is there.
    if unsafe { IS_WRONG.read_volatile() } == 0 {
        right();
    } else {
        wrong();
    }
    end(format_args!("all ways were taken"))
}

/// The places of the table: its slots in the table of level 2.
const HERE: usize = 0;
const THERE: usize = 1;

fn right() {
    // A table in use is cleared, and filled with other leaves after the TLBIs.
    for way in clearing() {
        map_old();
        store(way, &TABLE, &ZEROS);
        invalidate(HERE);
        TABLE.fill(leaf(&NEW));
        order();
        expect(HERE, &NEW);
        unmap(HERE);
    }
    // A table is unlinked, stored to after the TLBIs, and linked elsewhere.
    for way in all() {
        map_old();
        unmap(HERE);
        store(way, &TABLE, &LEAVES);
        // As some ways can only clear.
        TABLE.set(0, leaf(&NEW));
        order();
        MIDDLE.set(THERE, table(&TABLE));
        order();
        expect(THERE, &NEW);
        unmap(THERE);
    }
}

fn wrong() {
    // A table in use is cleared, and no TLBI comes.
    for way in clearing() {
        map_old();
        store(way, &TABLE, &ZEROS);
        order();
        idle();
        unmap(HERE);
    }
    // A table is unlinked, and descriptors are stored to its page without a TLBI.
    for way in filling() {
        map_old();
        MIDDLE.set(HERE, 0);
        order();
        store(way, &TABLE, &LEAVES);
        invalidate(HERE);
    }
    // A page is stored to, and linked as a table without a barrier.
    for way in all() {
        map_old();
        unmap(HERE);
        store_and(way, &TABLE, &LEAVES, MIDDLE.word(THERE), table(&TABLE));
        unmap(THERE);
    }
    // A page is mapped, and stored to without a barrier.
    for way in all() {
        map_old();
        TABLE.set(0, 0);
        invalidate(HERE);
        TABLE.set(0, leaf(&OTHER));
        // SAFETY: it is mapped to a page.
        store(way, unsafe { &*(va(HERE, 0) as *const Page) }, &LEAVES);
        unmap(HERE);
    }
}

/// Stores to a page by a way.
fn store(way: Way, to: &Page, from: &Page) {
    store_and(way, to, from, OTHER.word(0), 0);
}

/// Stores to a page by a way, and then to a slot.
fn store_and(way: Way, to: &Page, from: &Page, slot: *mut u64, word: u64) {
    // SAFETY: both are pages of RAM, and the slot is in one. Nothing of this kernel is where the table translates.
    unsafe { way(to, from, slot, word) }
}

/// Fills the table with leaves, links it and uses it.
fn map_old() {
    TABLE.fill(leaf(&OLD));
    order();
    MIDDLE.set(HERE, table(&TABLE));
    order();
    expect(HERE, &OLD);
}

/// Unlinks the table.
fn unmap(place: usize) {
    MIDDLE.set(place, 0);
    invalidate(place);
}

fn order() {
    // SAFETY: barriers.
    unsafe { asm!("dsb ishst", "isb") }
}

fn idle() {
    // SAFETY: WFIT XZR, which waits until the time 0.
    unsafe { asm!(".inst 0xd503103f") }
}

/// Invalidates all that the table translated, and the way to it.
fn invalidate(place: usize) {
    order();
    for page in 0..512 {
        // SAFETY: it drops what the table had.
        unsafe { asm!("tlbi vaae1is, {}", in(reg) va(place, page) << 8u32 >> 20u32) }
    }
    // SAFETY: barriers.
    unsafe { asm!("dsb ish", "isb") }
}

/// Reads the first page of the table.
fn expect(place: usize, page: &Page) {
    // SAFETY: it is mapped, and that page is all that it can be.
    let (seen, there) =
        unsafe { ((va(place, 0) as *const u64).read_volatile(), page.word(0).read_volatile()) };
    assert_eq!(seen, there);
}
