//! Table pages: who owns them, and how they are read and written.
//!
//! A [`Frame`] is a table page that no walker can reach: one owner, plain memory, wide stores. Once it
//! is published it is no frame any more but a set of live slots, which are loaded and stored one
//! descriptor at a time. [`Memory`] is the platform's half of that bargain.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::format::{Descriptor, Pa};

/// A table page that no walker can reach, owned by whoever holds this value.
///
/// It is neither `Copy` nor freed on drop: give it back with [`Memory::give`], or it leaks.
#[must_use = "a dropped frame is leaked: give it back to its memory"]
#[derive(PartialEq, Eq, Debug)]
pub struct Frame(Pa);

impl Frame {
    /// Takes ownership of the table page at `pa`.
    ///
    /// # Safety
    ///
    /// - `pa` is aligned to the page size and the whole page is RAM that the [`Memory`] in use reaches.
    /// - Nothing else reads or writes it, no table that a walker can reach points to it, and no other
    ///   `Frame` is made for it until this one is given up by [`Frame::into_pa`].
    pub const unsafe fn from_pa(pa: Pa) -> Self {
        Self(pa)
    }

    /// Its physical address.
    pub const fn pa(&self) -> Pa {
        self.0
    }

    /// Gives up ownership: to publish the page as a table, or to keep it in a free list.
    pub const fn into_pa(self) -> Pa {
        self.0
    }
}

/// One descriptor's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Slot {
    /// The table.
    pub table: Pa,
    /// Which of its entries, from 0.
    pub index: usize,
}

/// The platform's memory for tables.
///
/// # Safety
///
/// An implementation promises that
///
/// - a frame from [`take`](Self::take) is a whole page of [`page_size`](Self::page_size) bytes, aligned to that, and
///   stays reachable, exclusive and unmoved until it is given back;
/// - that size is always the same; [`slots`](Self::slots) is all of a page's memory, 8 bytes an entry, and of no other;
/// - [`load`](Self::load) and [`store`](Self::store) are single 64-bit single-copy atomic accesses, not
///   torn, repeated or left out;
/// - where [`PLAIN`](Self::PLAIN) is true, [`words`](Self::words) is all of a page's memory, 8 bytes an
///   entry, at which such accesses may be made until the page is given back, and of no other;
/// - where there is more than one memory, each refuses, by a panic, pages that are another's.
pub unsafe trait Memory {
    /// Whether live tables are plain memory, which [`words`](Self::words) says where to find. Then the library
    /// makes the accesses of [`load`](Self::load) and [`store`](Self::store) by itself, which spares it
    /// to look up the table for each. An implementation can leave out [`slots`](Self::slots), [`load`](Self::load) and
    /// [`store`](Self::store) then.
    const PLAIN: bool = false;

    /// The entries of a page, where pages are [`PLAIN`](Self::PLAIN) memory.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that has not been given back.
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        _ = table;
        core::ptr::null_mut()
    }

    /// The size of its table pages, in bytes. A tree is built for a geometry with pages of that size alone, so that
    /// nobody has to ask for it again.
    fn page_size(&self) -> u64;

    /// A table page with undefined contents, or `None` when there is no more.
    fn take(&self) -> Option<Frame>;

    /// Takes back a page from [`take`](Self::take) that no walker can reach any more.
    fn give(&self, frame: Frame);

    /// The entries of a page that no walker can reach.
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        const { assert!(Self::PLAIN, "a memory that is not PLAIN says how a page is reached: `slots`") };
        let entries = self.page_size() as usize / size_of::<u64>();
        // SAFETY: the frame owns the page and is borrowed mutably, and its memory is plain; any bits are a valid `u64`.
        unsafe { core::slice::from_raw_parts_mut(self.words(frame.pa()), entries) }
    }

    /// The descriptor in a slot of a live table.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that is neither a [`Frame`] nor given back, and has a slot of
    /// that index.
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        const { assert!(Self::PLAIN, "a memory that is not PLAIN says how a descriptor is read: `load`") };
        // SAFETY: the table is live and has such a slot, by the caller's promise, and its memory is plain.
        Descriptor(unsafe { AtomicU64::from_ptr(self.words(slot.table).add(slot.index)) }.load(Relaxed))
    }

    /// Replaces the descriptor in a slot of a live table.
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load); and whoever uses the addresses that the slot translates can live
    /// with the change.
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        const { assert!(Self::PLAIN, "a memory that is not PLAIN says how a descriptor is written: `store`") };
        // SAFETY: as for `load`.
        unsafe { AtomicU64::from_ptr(self.words(slot.table).add(slot.index)) }.store(new.0, Relaxed);
    }
}
