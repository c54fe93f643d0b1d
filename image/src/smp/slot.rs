//! A page by which a starting CPU and the boot CPU exchange words, before the first is let into the map.
//!
//! The starting CPU has its MMU off: what it reads and writes passes all caches by. So the boot CPU cleans what
//! it writes to the point of coherency, and drops what it has cached before it reads. Each half of a slot is
//! written by one side and is a whole number of cache lines, which are 2 KiB at most (CTR_EL0.CWG).

use core::arch::asm;
use core::mem::offset_of;
use linmap::arch::Level;

use aarch64_cpu::asm::sev;
use linmap::cpu::Features;
use linmap::{Frame, Memory, Pa};

use crate::clock::comes_true;
use crate::frames::Frames;
use crate::psci;

/// The words of a slot; `secondary.s` has the other end of it.
#[repr(C)]
pub(super) struct Slot {
    pub(super) report: Half<Report>,
    pub(super) orders: Half<Orders>,
}

/// Whole cache lines.
#[repr(C, align(2048))]
pub(super) struct Half<T>(pub(super) T);

/// The report of the starting CPU.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Report {
    /// 1 when the rest is there.
    pub(super) arrived: u64,
    /// MIDR_EL1, ID_AA64ISAR0_EL1, ID_AA64MMFR0_EL1 to MMFR3_EL1, ID_AA64PFR1_EL1, ID_AA64DFR0_EL1, CTR_EL0.
    pub(super) features: [u64; 9],
}

/// The answer of the boot CPU.
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Orders {
    /// [`ADMITTED`], [`REFUSED`] or nothing yet.
    pub(super) verdict: u64,
    /// A way to turn itself off: [`BY_HVC`], [`BY_SMC`] or [`NEVER_OFF`].
    pub(super) conduit: u64,
    /// TTBR0_EL1, TTBR1_EL1, TCR_EL1, MAIR_EL1.
    pub(super) tables: [u64; 4],
    /// The end of the stack, and TPIDR_EL1.
    pub(super) stack: [u64; 2],
}

/// The verdict that lets a CPU in.
pub(super) const ADMITTED: u64 = 1;
/// The verdict that turns it off again.
const REFUSED: u64 = 2;

/// The firmware turns a CPU off by HVC.
const BY_HVC: u64 = 0;
/// The firmware turns a CPU off by SMC.
pub(super) const BY_SMC: u64 = 1;
/// A CPU is never off, but sleeps without any map.
const NEVER_OFF: u64 = 2;

/// [`Report::arrived`] of a CPU that sleeps so.
pub(super) const ASLEEP: u64 = 2;

/// A slot in use.
pub(super) struct Exchange {
    page: Frame,
    at: *mut Slot,
    /// Firmware can turn the CPU off.
    by_psci: bool,
}

impl Exchange {
    /// Makes an empty slot; none if there is no memory.
    pub(super) fn new(frames: &Frames, by_psci: bool) -> Option<Self> {
        let mut page = frames.take()?;
        frames.with_slots(&mut page, Level::PAGE, |slots| slots.fill(0));
        let at = core::ptr::with_exposed_provenance_mut(frames.reach().va(page.pa()).0 as usize);
        let slot = Self { page, at, by_psci };
        clean_and_invalidate(at);
        Some(slot)
    }

    /// Gives its memory back; the CPU does not use it any more.
    pub(super) fn give_back(self, frames: &Frames) {
        frames.give(self.page);
    }

    /// Returns the physical address of the slot.
    pub(super) fn pa(&self) -> Pa {
        self.page.pa()
    }

    /// Waits for the report and returns it; none if it does not come in time.
    pub(super) fn report(&self) -> Option<Features> {
        // SAFETY: the page is this slot's, large enough, and mapped; an address is taken, nothing is read.
        let report = unsafe { &raw mut (*self.at).report.0 };
        let read = || {
            clean_and_invalidate(report);
            // SAFETY: within the page; any bits are a report. The CPU may write it meanwhile: whole words, `arrived`
            // last.
            unsafe { report.read_volatile() }
        };
        let arrived = comes_true(|| read().arrived != 0);
        let [midr, isar0, mmfr0, mmfr1, mmfr2, mmfr3, pfr1, dfr0, ctr] = read().features;
        arrived.then_some(Features { midr, isar0, mmfr0, mmfr1, mmfr2, mmfr3, pfr1, dfr0, ctr })
    }

    /// Gives the CPU its orders.
    pub(super) fn order(&self, orders: Orders) {
        // SAFETY: the page is this slot's, large enough, and mapped; an address is taken, nothing is read.
        let at = unsafe { &raw mut (*self.at).orders.0 };
        // SAFETY: within the page; the CPU reads nothing but the verdict until that is set.
        unsafe { at.write_volatile(Orders { verdict: 0, ..orders }) };
        clean_and_invalidate(at);
        // SAFETY: as above.
        unsafe { (&raw mut (*at).verdict).write_volatile(orders.verdict) };
        clean_and_invalidate(at);
        sev();
    }

    /// Turns the CPU off, or puts it to sleep where that is not possible.
    pub(super) fn refuse(&self) {
        self.order(Orders { verdict: REFUSED, conduit: self.conduit(), ..Orders::default() });
    }

    /// Returns the way in which the CPU turns itself off.
    pub(super) fn conduit(&self) -> u64 {
        match (self.by_psci, psci::is_smc()) {
            (false, _) => NEVER_OFF,
            (true, false) => BY_HVC,
            (true, true) => BY_SMC,
        }
    }

    /// Returns true if the CPU of this affinity has left the system again: it is off, or sleeps without any map and does not
    /// use the slot any more.
    pub(super) fn has_left(&self, mpidr: u64) -> bool {
        if self.by_psci {
            return psci::is_off(mpidr);
        }
        // SAFETY: the page is this slot's, large enough, and mapped; an address is taken, nothing is read.
        let arrived = unsafe { &raw mut (*self.at).report.0.arrived };
        clean_and_invalidate(arrived);
        // SAFETY: within the page; the CPU may write it meanwhile, as a whole word.
        unsafe { arrived.read_volatile() == ASLEEP }
    }
}

/// Cleans and invalidates the cache lines of something, to the point of coherency; complete on return.
pub(super) fn clean_and_invalidate<T>(what: *mut T) {
    let line: u64;
    // SAFETY: reading an ID register has no side effect.
    unsafe { asm!("mrs {}, ctr_el0", out(reg) line, options(nomem, nostack, preserves_flags)) };
    let line = 4u64 << (line >> 16u32 & 0xf);
    // SAFETY: a barrier and cache maintenance; contents do not change.
    unsafe { asm!("dsb ish", options(nostack, preserves_flags)) };
    let start = what as u64 & !(line - 1);
    for at in (start..what as u64 + size_of::<T>() as u64).step_by(line as usize) {
        // SAFETY: as above.
        unsafe { asm!("dc civac, {}", in(reg) at, options(nostack, preserves_flags)) };
    }
    // SAFETY: as above.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Offsets for `secondary.s`: in a report, in a slot, in orders.
pub(super) const ARRIVED: usize = offset_of!(Report, arrived);
pub(super) const FEATURES: usize = offset_of!(Report, features);
pub(super) const ORDERS: usize = offset_of!(Slot, orders);
pub(super) const VERDICT: usize = offset_of!(Orders, verdict);
pub(super) const CONDUIT: usize = offset_of!(Orders, conduit);
pub(super) const TABLES: usize = offset_of!(Orders, tables);
pub(super) const STACK: usize = offset_of!(Orders, stack);
