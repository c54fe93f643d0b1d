//! Registers of the controller: their mapping, and accesses to them.

use core::arch::asm;
use core::ops::Range;

use kernel_plan::gic::place;
use kernel_plan::ranges::Ranges;
use linmap::{Attributes, Pa, Platform, SharedSpace, Va};

use super::error::Error;
use crate::clock::comes_true;
use crate::virtual_addresses::REGISTERS_VA;

/// The most bytes that are mapped of one range: redistributors of 512 CPUs with frames for virtual interrupts.
const MOST: u64 = 128 << 20;

/// A range of mapped registers.
#[derive(Clone, Copy)]
pub(super) struct Registers {
    start: u64,
    bytes: u64,
}

impl Registers {
    /// Returns the number of bytes.
    pub(super) const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the registers from an offset on.
    pub(super) fn after(&self, offset: u64) -> Self {
        assert!(offset <= self.bytes, "{offset:#x} is after the registers");
        Self { start: self.start + offset, bytes: self.bytes - offset }
    }

    fn address(&self, offset: u64, bytes: u64) -> u64 {
        assert!(offset + bytes <= self.bytes && offset.is_multiple_of(bytes), "no register at {offset:#x}");
        self.start + offset
    }

    /// Reads 32 bits.
    pub(super) fn read(&self, offset: u64) -> u32 {
        let at = self.address(offset, 4);
        let value: u32;
        // SAFETY: within registers that `Mapper::map` has mapped as device memory for good. A plain load, the
        // only kind that hypervisors emulate.
        unsafe { asm!("ldr {:w}, [{}]", out(reg) value, in(reg) at, options(nostack, preserves_flags)) };
        value
    }

    /// Reads 64 bits.
    pub(super) fn read64(&self, offset: u64) -> u64 {
        let at = self.address(offset, 8);
        let value: u64;
        // SAFETY: as in `read`.
        unsafe { asm!("ldr {}, [{}]", out(reg) value, in(reg) at, options(nostack, preserves_flags)) };
        value
    }

    /// Writes 32 bits.
    pub(super) fn write(&self, offset: u64, value: u32) {
        let at = self.address(offset, 4);
        // SAFETY: as in `read`; the controller accesses no memory, so that none of its registers can do more
        // than send interrupts, which is safe.
        unsafe { asm!("str {:w}, [{}]", in(reg) value, in(reg) at, options(nostack, preserves_flags)) };
    }

    /// Waits until bits of a register are clear.
    ///
    /// # Errors
    ///
    /// They stay set until patience ends.
    pub(super) fn wait_clear(&self, offset: u64, bits: u32, name: &'static str) -> Result<(), Error> {
        if comes_true(|| self.read(offset) & bits == 0) { Ok(()) } else { Err(Error::Stuck(name)) }
    }
}

/// Maps ranges of registers one after the other.
pub(super) struct Mapper<'a, P> {
    ram: &'a Ranges,
    pa_bits: u32,
    space: &'a SharedSpace,
    platform: &'a P,
    /// The next free address.
    next: u64,
}

impl<'a, P: Platform> Mapper<'a, P> {
    pub(super) const fn new(ram: &'a Ranges, pa_bits: u32, space: &'a SharedSpace, platform: &'a P) -> Self {
        Self { ram, pa_bits, space, platform, next: REGISTERS_VA }
    }

    /// Maps a range for good, the first [`MOST`] bytes of it.
    ///
    /// # Errors
    ///
    /// It is RAM or no address, or there is no memory for tables.
    pub(super) fn map(&mut self, range: &Range<Pa>) -> Result<Registers, Error> {
        let mask = self.space.geometry().page_size() - 1;
        let range = range.start..range.end.min(Pa(range.start.0.saturating_add(MOST)));
        let not_registers = || Error::NotRegisters(range.clone());
        let end = range.end.0.checked_add(mask).ok_or_else(not_registers)? & !mask;
        let pages = Pa(range.start.0 & !mask)..Pa(end);
        let is_ram = self.ram.as_slice().iter().any(|r| r.start < pages.end && pages.start < r.end);
        if is_ram || (pages.end.0 - 1) >> self.pa_bits != 0 {
            return Err(not_registers());
        }
        let at = place(self.next, &range);
        let count = (pages.end.0 - pages.start.0) >> self.space.geometry().page_shift();
        let va = Va(at.start & !mask);
        // SAFETY: registers that the device tree describes, not RAM, accessed through this mapping alone, as device
        // memory.
        unsafe { self.space.on(self.platform).map(va, count, pages.start, Attributes::DEVICE) }
            .map_err(Error::Map)?;
        self.next = va.0 + (pages.end.0 - pages.start.0);
        Ok(Registers { start: at.start, bytes: at.end - at.start })
    }
}
