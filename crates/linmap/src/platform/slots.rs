//! The entries of one live table. Each is loaded and stored by an access of its own, even where eight are named at once.
//!
//! The loops over many of them are in `bulk.rs`.

use core::ops::Deref;
use core::sync::atomic::AtomicU64;

use super::eights::{load_eight, store_eight};
use super::memory::{FOLLOWED, LEADING, Memory, Slot};
use crate::format::{Descriptor, Pa};

/// The entries of a live table, to be read.
pub(crate) struct Slots<'m, M> {
    memory: &'m M,
    table: Pa,
    /// Their address if the memory is plain. Null otherwise.
    words: *mut u64,
}

/// The entries of a live table, for one who may change them.
pub(crate) struct SlotsMut<'m, M> {
    slots: Slots<'m, M>,
    is_root: bool,
}

impl<M> Clone for Slots<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for Slots<'_, M> {}

impl<'m, M> Deref for SlotsMut<'m, M> {
    type Target = Slots<'m, M>;

    #[inline(always)]
    fn deref(&self) -> &Slots<'m, M> {
        &self.slots
    }
}

impl<'m, M: Memory> Slots<'m, M> {
    /// Returns the entries of the table at this address and with these words.
    ///
    /// # Safety
    ///
    /// The table is live, in this memory, for as long as the value and its copies are used, and the words are what
    /// [`words`](Self::words) returns. Each index that a method is called with is one of an entry, and so are the seven after it where
    /// eight are named.
    #[inline(always)]
    pub(crate) const unsafe fn new(memory: &'m M, (table, words): (Pa, *mut u64)) -> Self {
        Self { memory, table, words }
    }

    /// Returns the address of a table's entries if the memory is plain, null otherwise.
    ///
    /// # Safety
    ///
    /// It is the address of a live table in this memory.
    #[inline(always)]
    pub(crate) unsafe fn words(memory: &M, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        if M::ACCESS.is_plain() { unsafe { memory.words(table) } } else { core::ptr::null_mut() }
    }

    #[inline(always)]
    pub(crate) fn load(&self, index: usize) -> Descriptor {
        if M::ACCESS.is_plain() {
            // SAFETY: the table is live, as the creator of this value promised, and its memory plain.
            return Descriptor(unsafe { AtomicU64::from_ptr(self.words.add(index)) }.load(FOLLOWED));
        }
        // SAFETY: the table is live.
        unsafe { self.memory.load(self.slot(index)) }
    }

    /// Loads eight adjacent entries.
    #[inline(always)]
    pub(crate) fn load_eight(&self, index: usize) -> [Descriptor; 8] {
        if M::ACCESS.is_plain() {
            // SAFETY: as for `load`, and there are eight.
            return unsafe { load_eight(self.words.add(index)) }.map(Descriptor);
        }
        core::array::from_fn(|n| self.load(index + n))
    }

    const fn slot(&self, index: usize) -> Slot {
        Slot { table: self.table, index }
    }
}

impl<'m, M: Memory> SlotsMut<'m, M> {
    /// Returns the entries of a table that `is_root` or is not.
    ///
    /// # Safety
    ///
    /// `is_root` is true for the root. Users of the addresses that the table translates expect what is stored, and nobody else stores to
    /// these entries meanwhile.
    #[inline(always)]
    pub(crate) const unsafe fn new(slots: Slots<'m, M>, is_root: bool) -> Self {
        Self { slots, is_root }
    }

    #[inline(always)]
    pub(crate) fn store(&self, index: usize, new: Descriptor) {
        if self.stores_by_call() {
            // SAFETY: as for `load`. The users of the addresses expect it, as the creator of this value promised.
            return unsafe { self.memory.store(self.slot(index), new) };
        }
        // SAFETY: as above, and the memory is plain.
        unsafe { AtomicU64::from_ptr(self.words.add(index)) }.store(new.0, LEADING);
    }

    /// Stores eight adjacent entries.
    #[inline(always)]
    pub(crate) fn store_eight(&self, index: usize, new: [Descriptor; 8]) {
        if !self.stores_by_call() {
            // SAFETY: as for `load_eight` and `store`.
            return unsafe { store_eight(self.words.add(index), new.map(|new| new.0)) };
        }
        (0..8).for_each(|n| self.store(index + n, new[n]));
    }

    /// Returns true if the entries are stored by [`Memory::store`].
    #[inline(always)]
    const fn stores_by_call(&self) -> bool {
        M::ACCESS.stores_by_call(self.is_root)
    }
}
