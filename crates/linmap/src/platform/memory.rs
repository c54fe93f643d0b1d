//! Table pages: their ownership, and how they are read and written.
//!
//! A [`Frame`] is a table page that no walker can reach: one owner, plain memory, wide stores. A published table is no
//! longer a frame, but a set of live slots, which are loaded and stored one descriptor at a time. The platform
//! implements [`Memory`] for both.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::format::{Descriptor, Level, Pa};

/// The order in which the entries of live tables are loaded: before what they lead to.
pub(crate) const FOLLOWED: Ordering = ORDERS.0;

/// The order in which they are stored: after what they lead to.
pub(crate) const LEADING: Ordering = ORDERS.1;

/// Arm64 loads what an address leads to after the address itself (B2.3, address dependency), and a barrier comes before a store
/// ([`Dsb`](crate::Dsb)). The rules of Rust know no such dependency, and ThreadSanitizer no fence. So elsewhere, and for Miri,
/// both are asked for.
const ORDERS: (Ordering, Ordering) = if cfg!(all(target_arch = "aarch64", not(miri))) {
    (Ordering::Relaxed, Ordering::Relaxed)
} else {
    (Ordering::Acquire, Ordering::Release)
};

/// A table page that no walker can reach. This value owns it.
///
/// It is neither `Copy` nor freed on drop: return it with [`Memory::give`], or it leaks.
#[must_use = "a dropped frame is leaked: give it back to its memory"]
#[derive(PartialEq, Eq, Debug)]
pub struct Frame(Pa);

impl Frame {
    /// Takes ownership of the table page at `pa`.
    ///
    /// # Safety
    ///
    /// - `pa` is aligned to the page size, and the whole page is RAM that the [`Memory`] in use reaches.
    /// - Nothing else reads or writes it, no table that a walker can reach points to it, and no other `Frame` is made
    ///   for it until this one is given up by [`Frame::into_pa`].
    pub const unsafe fn from_pa(pa: Pa) -> Self {
        Self(pa)
    }

    /// Returns its physical address.
    pub const fn pa(&self) -> Pa {
        self.0
    }

    /// Gives up ownership: to publish the page as a table, or to keep it in a free list.
    pub const fn into_pa(self) -> Pa {
        self.0
    }
}

/// The place of one descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
#[repr(C)]
pub struct Slot {
    /// The physical address of the table.
    pub table: Pa,
    /// The index of the entry in the table, from 0.
    pub index: usize,
}

/// How the library reaches the entries of live tables in a [`Memory`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Each by a call of [`load`](Memory::load) or [`store`](Memory::store).
    Calls,
    /// At the address that [`words`](Memory::words) returns: the pages are plain memory there.
    Plain,
    /// At that address, but entries of a root are stored by [`store`](Memory::store): for example because it is mapped read-only there.
    PlainButRoot,
}

impl Access {
    /// Returns true if entries are loaded at the address of their table.
    pub(crate) const fn is_plain(self) -> bool {
        !matches!(self, Self::Calls)
    }

    /// Returns true if an entry is stored by a call.
    pub(crate) const fn stores_by_call(self, in_root: bool) -> bool {
        match self {
            Self::Calls => true,
            Self::Plain => false,
            Self::PlainButRoot => in_root,
        }
    }
}

/// The platform's memory for tables.
///
/// # Safety
///
/// An implementation promises that
///
/// - a frame from [`take`](Self::take) is a whole page of [`page_size`](Self::page_size) bytes, aligned to that, and
///   stays reachable, exclusive and unmoved until it is given back;
/// - the page size never changes;
/// - [`with_slots`](Self::with_slots) calls its closure once, with the entire memory of that page, 8 bytes an entry, and nothing else;
/// - [`load`](Self::load) and [`store`](Self::store) are single 64-bit single-copy atomic accesses, not torn, repeated or left out;
/// - where [`ACCESS`](Self::ACCESS) is not [`Calls`](Access::Calls), [`words`](Self::words) is the entire memory of that page, 8 bytes
///   an entry, and nothing else, and permits such accesses until the page is given back;
/// - where there is more than one memory, each panics if it is passed a page of another.
pub unsafe trait Memory {
    /// How entries of live tables are reached. A memory of [`Plain`](Access::Plain) pages provides [`words`](Self::words), and need not
    /// provide [`with_slots`](Self::with_slots), [`load`](Self::load) and [`store`](Self::store). Others provide these three.
    const ACCESS: Access = Access::Calls;

    /// Returns the size of its table pages in bytes. A tree is built only for a geometry with pages of that size.
    fn page_size(&self) -> u64;

    /// Returns a table page with undefined contents, or `None` when no page is left.
    fn take(&self) -> Option<Frame>;

    /// Takes back a page from [`take`](Self::take) that walkers can no longer reach.
    fn give(&self, frame: Frame);

    /// Returns the address of the entries of a page of plain memory.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that has not been given back.
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        _ = table;
        core::ptr::null_mut()
    }

    /// Calls `work` with the entries of a page that no walker can reach, and that is or will be a table at `level`.
    ///
    /// A page is reached several times and keeps its entries in between. Calls may be nested within this one for tables of lower
    /// levels, but never for two tables of one level. So a platform that can map one page of each level, such as a fixmap, maps it
    /// here and unmaps it when `work` has returned. A page that is no table yet is reached as one of the last level.
    #[inline(always)]
    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        const { assert!(Self::ACCESS.is_plain(), "a memory with calls says how a page is reached: `with_slots`") };
        _ = level;
        let entries = self.page_size() as usize / size_of::<u64>();
        // SAFETY: the frame owns the page and is borrowed mutably, and its memory is plain. Any bits are a valid `u64`.
        work(unsafe { core::slice::from_raw_parts_mut(self.words(frame.pa()), entries) })
    }

    /// Returns the descriptor in a slot of a live table.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that is in use as a table: neither a [`Frame`] nor given back, except that
    /// [`EntryUpdate::from`](crate::EntryUpdate::from) is a frame that nobody else accesses meanwhile. It has a slot with that
    /// index.
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        const { assert!(Self::ACCESS.is_plain(), "a memory with calls says how a descriptor is read: `load`") };
        // SAFETY: the table is live and has such a slot, by the caller's promise, and its memory is plain.
        Descriptor(unsafe { AtomicU64::from_ptr(self.words(slot.table).add(slot.index)) }.load(FOLLOWED))
    }

    /// Replaces the descriptor in a slot of a live table, of a root alone where [`ACCESS`](Self::ACCESS) is
    /// [`PlainButRoot`](Access::PlainButRoot).
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load). The users of the addresses that the slot translates must expect the change.
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        const {
            assert!(
                matches!(Self::ACCESS, Access::Plain),
                "a memory that is not plain says how a descriptor is written: `store`"
            );
        };
        // SAFETY: as for `load`.
        unsafe { AtomicU64::from_ptr(self.words(slot.table).add(slot.index)) }.store(new.0, LEADING);
    }
}

/// Makes the methods of [`Memory`] that wrappers leave to the memory below, all but `take` and `give`. A method that is new in the trait
/// goes here, so that no wrapper falls back to its default.
macro_rules! leave_to_memory {
    ($below:ty, $self:ident => $memory:expr) => {
        const ACCESS: $crate::platform::Access = <$below>::ACCESS;

        fn page_size(&$self) -> u64 {
            $memory.page_size()
        }

        #[inline]
        unsafe fn words(&$self, table: $crate::format::Pa) -> *mut u64 {
            // SAFETY: the caller's promise.
            unsafe { $memory.words(table) }
        }

        #[inline]
        unsafe fn load(&$self, slot: $crate::platform::Slot) -> $crate::format::Descriptor {
            // SAFETY: the caller's promise.
            unsafe { $memory.load(slot) }
        }

        #[inline]
        unsafe fn store(&$self, slot: $crate::platform::Slot, new: $crate::format::Descriptor) {
            // SAFETY: the caller's promise.
            unsafe { $memory.store(slot, new) }
        }

        #[inline(always)]
        fn with_slots<R>(
            &$self,
            frame: &mut $crate::platform::Frame,
            level: $crate::format::Level,
            work: impl FnOnce(&mut [u64]) -> R,
        ) -> R {
            $memory.with_slots(frame, level, work)
        }
    };
}
pub(crate) use leave_to_memory;
