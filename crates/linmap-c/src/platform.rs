//! The library's memory and hardware, made of the kernel's callbacks. A value lives as long as one call.

use core::ptr::with_exposed_provenance_mut;

use linmap::arch::{Descriptor, Level, Tlbi};
use linmap::{
    Access, CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Reason, Sharing,
    Slot, Va,
};

use crate::callbacks;
use crate::types::{
    LINMAP_LOCKS, LINMAP_NEVER_ABORTS, LINMAP_PARKS, LINMAP_RANGE_TLBI, LINMAP_REPEAT_TLBI, LinmapUpdate,
};

/// The kernel, as one call of it sees it.
pub(crate) struct Kernel<T = AtOffset> {
    geometry: Geometry,
    /// The address of a table less its physical address, wrapping.
    offset: u64,
    /// Bits of LINMAP_NEVER_ABORTS and its like.
    promise: u32,
    may_wait: bool,
    reason: Reason,
    /// How new tables are reached.
    new: T,
}

/// New tables are reached like all others.
pub(crate) struct AtOffset;

/// New tables are reached by their level. There may be many of them, so that what is asked of each is computed once.
pub(crate) struct ByLevel(Pages);

/// The pages of a geometry.
#[derive(Clone, Copy)]
pub(crate) struct Pages {
    /// The bits that are 0 in the address of each page.
    never: u64,
    /// The number of entries of a page.
    entries: usize,
}

impl Pages {
    #[inline]
    const fn of(geometry: Geometry) -> Self {
        let bytes = geometry.page_size();
        Self { never: u64::MAX << geometry.oa_bits() | (bytes - 1), entries: bytes as usize / 8 }
    }
}

/// How new tables are reached.
pub(crate) trait NewTables {
    const BY_LEVEL: bool;

    /// Returns the pages that they are.
    fn pages(&self, geometry: Geometry) -> Pages;
}

impl NewTables for AtOffset {
    const BY_LEVEL: bool = false;

    #[inline(always)]
    fn pages(&self, geometry: Geometry) -> Pages {
        Pages::of(geometry)
    }
}

impl NewTables for ByLevel {
    const BY_LEVEL: bool = true;

    #[inline(always)]
    fn pages(&self, _: Geometry) -> Pages {
        self.0
    }
}

impl Kernel {
    pub(crate) const fn new(geometry: Geometry, offset: u64, promise: u32, may_wait: bool) -> Self {
        Self { geometry, offset, promise, may_wait, reason: Reason::NONE, new: AtOffset }
    }

    /// Gives the changes of this call a reason.
    pub(crate) const fn with_reason(self, reason: Reason) -> Self {
        Self { reason, ..self }
    }

    /// Reaches new tables by their level, as a call does that makes whole trees.
    pub(crate) const fn by_level(self) -> Kernel<ByLevel> {
        let Self { geometry, offset, promise, may_wait, reason, .. } = self;
        Kernel { geometry, offset, promise, may_wait, reason, new: ByLevel(Pages::of(geometry)) }
    }
}

impl<T> Kernel<T> {
    /// Returns the reason of the changes.
    pub(crate) const fn reason(&self) -> Reason {
        self.reason
    }

    /// Returns true if the kernel promises that it parks CPUs.
    pub(crate) const fn parks(&self) -> bool {
        self.promise & LINMAP_PARKS != 0
    }
}

// SAFETY:
// - pages come from the kernel's callback, which hands over whole pages that nothing else uses, at their physical address
//   plus the offset (`linmap_init`). An address that cannot be one is refused;
// - `words` is that one page;
// - there is one memory for each map.
unsafe impl<T: NewTables> Memory for Kernel<T> {
    const ACCESS: Access = Access::PlainButRoot;

    fn page_size(&self) -> u64 {
        self.geometry.page_size()
    }

    fn take(&self) -> Option<Frame> {
        // SAFETY: no lock is held, since the library takes pages before any.
        let pa = unsafe { callbacks::linmap_table_alloc(self.may_wait) };
        if pa == 0 {
            return None;
        }
        let never = self.new.pages(self.geometry).never;
        assert!(pa & never == 0, "linmap_table_alloc has returned an address that is not that of a page");
        // SAFETY: the callback hands the page over.
        Some(unsafe { Frame::from_pa(Pa(pa)) })
    }

    fn give(&self, frame: Frame) {
        // SAFETY: the page came from the kernel, and no CPU walks it.
        unsafe { callbacks::linmap_table_free(frame.into_pa().0) };
    }

    #[inline(always)]
    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        let (entries, number) = (self.new.pages(self.geometry).entries, i32::from(level.number()));
        // SAFETY: the page was allocated, and no other of this level is mapped, by the contract of this method.
        let words = unsafe {
            if T::BY_LEVEL {
                callbacks::linmap_table_map(frame.pa().0, number)
            } else {
                self.words(frame.pa())
            }
        };
        assert!(!T::BY_LEVEL || !words.is_null(), "linmap_table_map has returned no address");
        // SAFETY: the frame owns the page and is borrowed mutably; the kernel has mapped it.
        let result = work(unsafe { core::slice::from_raw_parts_mut(words, entries) });
        if T::BY_LEVEL {
            // SAFETY: it was mapped above.
            unsafe { callbacks::linmap_table_unmap(number) };
        }
        result
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: it is the live root, and has such an entry, by the caller's promise.
        unsafe { callbacks::linmap_root_set(slot.table.0, slot.index, new.0) };
    }

    #[inline(always)]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        with_exposed_provenance_mut(table.0.wrapping_add(self.offset) as usize)
    }
}

/// A held lock.
pub(crate) struct Held(u32);

impl Drop for Held {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: it was taken when this value was made.
        unsafe { callbacks::linmap_unlock(self.0) };
    }
}

// SAFETY:
// - each primitive is the instruction, by the library's own assembly; or the kernel's, which promises the same. On a machine
//   that is not arm64 no walker uses the tables, and a fence keeps accesses where they are;
// - the promise is what the kernel promises for all CPUs;
// - `linmap_park` parks CPUs as the header says, where the kernel promises that it can;
// - the header says what TCR_EL1.HA and HD demand.
unsafe impl<T: 'static> Hardware for Kernel<T> {
    #[inline]
    fn promise(&self) -> Promise {
        Promise {
            never_aborts: self.promise & LINMAP_NEVER_ABORTS != 0,
            range_tlbi: self.promise & LINMAP_RANGE_TLBI != 0,
            repeat_tlbi: self.promise & LINMAP_REPEAT_TLBI != 0,
        }
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        cpu::dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        cpu::isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        tlbi(op, geometry);
    }

    fn call(&self) -> Result<(), CannotPark> {
        // Who may not wait does not wait for the CPUs either, and parks none that have not answered.
        let asks = self.may_wait && self.parks();
        // SAFETY: no lock is held, by the contract of this method.
        let answered = asks && unsafe { callbacks::linmap_ask_cpus() };
        if answered { Ok(()) } else { Err(CannotPark) }
    }

    unsafe fn park(&self, _: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        let (first, count) = (updates.as_ptr().cast::<LinmapUpdate>(), updates.len());
        // SAFETY: so many updates are there, and a `LinmapUpdate` has the layout of an `EntryUpdate`.
        let parked = self.parks() && unsafe { callbacks::linmap_park(root.0, first, count) };
        if parked { Ok(()) } else { Err(CannotPark) }
    }

    fn sync_code(&self, _: Va, _: u64) {
        // No call of this interface synchronises code: a kernel does that itself.
        unreachable!("no call synchronises code");
    }
}

// SAFETY: the kernel's locks exclude, and `linmap_table_retire` waits for its readers, by the header.
unsafe impl<T: 'static> Sharing for Kernel<T> {
    const LOCKS: usize = LINMAP_LOCKS;

    type Held<'h> = Held;

    #[inline]
    fn lock(&self, number: usize) -> Held {
        let number = number as u32;
        // SAFETY: the library takes locks in the order of their numbers.
        unsafe { callbacks::linmap_lock(number) };
        Held(number)
    }

    fn wait(&self) -> bool {
        // SAFETY: no lock is held, by the contract of this method.
        self.may_wait && unsafe { callbacks::linmap_wait() }
    }

    fn retire(&self, _: &impl Memory, frame: Frame) {
        // SAFETY: the page came from the kernel, and no CPU walks it any more.
        unsafe { callbacks::linmap_table_retire(frame.into_pa().0) };
    }
}

#[cfg(target_arch = "aarch64")]
mod cpu {
    use linmap::Dsb;
    use linmap::arm64::Cpu;

    #[inline(always)]
    pub(super) fn dsb(kind: Dsb) {
        Cpu.dsb(kind);
    }

    #[inline(always)]
    pub(super) fn isb() {
        Cpu.isb();
    }
}

#[cfg(not(target_arch = "aarch64"))]
mod cpu {
    use core::sync::atomic::{Ordering::SeqCst, fence};
    use linmap::Dsb;

    pub(super) fn dsb(_: Dsb) {
        fence(SeqCst);
    }

    pub(super) fn isb() {
        fence(SeqCst);
    }
}

#[cfg(all(target_arch = "aarch64", not(feature = "tlbi-callback")))]
#[inline(always)]
fn tlbi(op: Tlbi, geometry: Geometry) {
    linmap::arm64::Cpu.tlbi(op, geometry);
}

#[cfg(any(not(target_arch = "aarch64"), feature = "tlbi-callback"))]
fn tlbi(op: Tlbi, geometry: Geometry) {
    use linmap::arch::Scope;
    let (va, bytes, scope) = match op {
        Tlbi::All => (0, u64::MAX, Scope::AnyLevel),
        Tlbi::Page(va, scope) => (va.0, geometry.page_size(), scope),
        Tlbi::Range { from, pages, scope } => (from.0, pages.count() << geometry.page_shift(), scope),
        Tlbi::Repeat => (0, geometry.page_size(), Scope::LastLevel),
    };
    // SAFETY: any invalidation may be issued at any time.
    unsafe { callbacks::linmap_tlbi(va, bytes, scope == Scope::AnyLevel) };
}

/// The kernel is shown the update itself, which has these fields in this order.
const _: () = assert!(size_of::<LinmapUpdate>() == size_of::<EntryUpdate>());
