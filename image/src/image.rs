//! The image that runs: where the loader put it, what is in it, and the stacks in it.

use core::ops::Range;

use kernel_plan::plan::read_only_bytes;
use linmap::{Attributes, Leaves, Pa, Region, Va};

use crate::virtual_addresses::KERNEL_VA;

unsafe extern "C" {
    static image_start: u8;
    static text_end: u8;
    static rodata_start: u8;
    static rodata_end: u8;
    static data_start: u8;
    static bss_end: u8;
    static boot_stack_top: u8;
    static pool_start: u8;
    static emergency_stack_top: u8;
    static image_end: u8;
}

/// The place where the loader put the image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    start: Pa,
}

impl Image {
    /// Returns the image that runs, loaded at `start`.
    pub(crate) const fn at(start: Pa) -> Self {
        Self { start }
    }

    /// Returns the physical address of something in the image.
    pub(crate) const fn pa(&self, va: u64) -> Pa {
        Pa(va.wrapping_sub(KERNEL_VA).wrapping_add(self.start.0))
    }

    /// Returns the difference of a virtual address in the image to its physical one, wrapping.
    pub(crate) const fn offset(&self) -> u64 {
        KERNEL_VA.wrapping_sub(self.start.0)
    }

    fn symbols(&self, from: *const u8, to: *const u8) -> Range<Pa> {
        self.pa(from as u64)..self.pa(to as u64)
    }

    /// Returns all of it.
    pub(crate) fn range(&self) -> Range<Pa> {
        self.symbols(&raw const image_start, &raw const image_end)
    }

    /// Returns code and constants, which are never written, in whole pages.
    pub(crate) fn read_only(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const image_start, end_in_pages(&raw const rodata_end, page))
    }

    /// Returns the pages between constants and data, which the alignment of segments for larger pages leaves.
    pub(crate) fn tail(&self, page: u64) -> Range<Pa> {
        self.symbols(end_in_pages(&raw const rodata_end, page), &raw const data_start)
    }

    /// Returns data and bss.
    pub(crate) fn data(&self) -> Range<Pa> {
        self.symbols(&raw const data_start, &raw const bss_end)
    }

    /// Returns the code, in whole pages.
    pub(crate) fn text(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const image_start, end_in_pages(&raw const text_end, page))
    }

    /// Returns the pages between code and constants, which the alignment of segments for larger pages leaves. The linear
    /// map has them read-only, as their neighbours, so they are memory that is used at another address alone.
    fn gap(&self, page: u64) -> Range<Pa> {
        self.symbols(end_in_pages(&raw const text_end, page), &raw const rodata_start)
    }

    /// Returns the memory that the emergency stack has without the [gap](Self::gap): free RAM as far as it uses that.
    pub(crate) fn spared(&self, page: u64) -> Range<Pa> {
        let (gap, from) = (self.gap(page), stack_guards(page)[1].wrapping_add(page as usize));
        let stack = self.symbols(from, &raw const image_end);
        stack.start..Pa(stack.end.0.min(stack.start.0 + (gap.end.0 - gap.start.0)))
    }

    /// Returns the memory for tables of the image map and of the 1:1 map, up to the guard of the emergency stack.
    pub(crate) fn pool(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const pool_start, stack_guards(page)[1])
    }

    /// Returns the memory of the entry code's tables, which is free once others are in use, up to the guard of the boot
    /// stack.
    pub(crate) fn boot_tables(&self, page: u64) -> Range<Pa> {
        self.symbols(&raw const bss_end, stack_guards(page)[0])
    }

    /// Returns the bytes for tables in the image, enough for the largest page size; unused ones are given back.
    pub(crate) fn static_bytes(&self, page: u64) -> u64 {
        [self.pool(page), self.boot_tables(page)].iter().map(|r| r.end.0 - r.start.0).sum()
    }

    /// Returns the segments at their high addresses, each with its permissions: all but the guards of the stacks. The
    /// [tail](Self::tail) of the constants is writable, as the data behind it; the [gap](Self::gap) behind the code is not
    /// mapped, but for the emergency stack.
    pub(crate) fn segments(&self, page: u64) -> [Region; 6] {
        let segment = |from: *const u8, to: *const u8, attributes| Region {
            va: Va(from as u64),
            oa: self.pa(from as u64),
            bytes: to as u64 - from as u64,
            attributes,
            leaves: Leaves::Largest,
        };
        let (text, rodata, end) = (&raw const image_start, &raw const rodata_start, &raw const image_end);
        let [code_end, data] =
            [&raw const text_end, &raw const rodata_end].map(|end| end_in_pages(end, page));
        let [boot, emergency] = stack_guards(page);
        let (stack, spared) = (emergency.wrapping_add(page as usize), self.spared(page));
        let rest = stack.wrapping_add((spared.end.0 - spared.start.0) as usize);
        [
            segment(text, code_end, Attributes::KERNEL_TEXT),
            segment(rodata, data, Attributes::KERNEL_RODATA),
            segment(data, boot, Attributes::KERNEL_DATA),
            segment(boot.wrapping_add(page as usize), emergency, Attributes::KERNEL_DATA),
            Region { oa: self.gap(page).start, ..segment(stack, rest, Attributes::KERNEL_DATA) },
            segment(rest, end, Attributes::KERNEL_DATA),
        ]
    }
}

/// Returns the end of code or constants, in whole pages.
fn end_in_pages(end: *const u8, page: u64) -> *const u8 {
    let start = &raw const image_start;
    start.wrapping_add(read_only_bytes(end as u64 - start as u64, page) as usize)
}

/// Returns true for an address in the unmapped page below a stack of the image.
pub(crate) fn is_stack_guard(va: Va, page: u64) -> bool {
    stack_guards(page).iter().any(|guard| va.0 & !(page - 1) == *guard as u64)
}

/// Returns the page below the boot stack, which is not mapped.
pub(crate) fn boot_stack_guard(page: u64) -> Va {
    Va(stack_guards(page)[0] as u64)
}

/// Returns the pages below the boot stack and below the emergency stack, which are not mapped, so that an overflow
/// faults. Stacks are whole pages; image.ld has room for these sizes at the largest page size.
fn stack_guards(page: u64) -> [*const u8; 2] {
    const BOOT_STACK: u64 = 256 << 10;
    const EMERGENCY_STACK: u64 = 32 << 10;
    let guard = |top: *const u8, stack: u64| top.wrapping_sub((stack.max(page) + page) as usize);
    [guard(&raw const boot_stack_top, BOOT_STACK), guard(&raw const emergency_stack_top, EMERGENCY_STACK)]
}
