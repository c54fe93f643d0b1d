//! The functions that the kernel provides. The library calls them directly, by these names. All may be called with any arguments of
//! their types, except that an unlock follows a lock, and a page that is freed or retired was allocated.

use crate::types::LinmapUpdate;

unsafe extern "C" {
    /// Returns the physical address of a page for tables, with undefined contents, or 0 if there is none. No lock is held.
    /// may_wait is false if the caller has passed LINMAP_ATOMIC. It may change the map, if that change takes no page.
    pub(crate) fn linmap_table_alloc(may_wait: bool) -> u64;

    /// Takes back a page that no CPU has ever walked, or that a creation did not need. No lock is held. It may
    /// change the map as linmap_table_alloc may.
    pub(crate) fn linmap_table_free(pa: u64);

    /// Takes back a page that was a live table. No CPU walks it any more, but code that reads the tables without a lock
    /// may. Until that has ended the page must not be written: hand it to call_rcu or its like. Locks may be held, so this
    /// does not wait and calls nothing of the library.
    pub(crate) fn linmap_table_retire(pa: u64);

    /// Returns the address at which a new table page, which will be a table at `level`, can be written until
    /// linmap_table_unmap(level). linmap_init, linmap_adopt and linmap_create reach new tables by this alone, and one of each
    /// level at a time, so that a fixmap with a slot for each level can serve, if these calls do not run at the same time.
    /// Locks may be held. Levels are -1 to 3; 3 is that of pages.
    pub(crate) fn linmap_table_map(pa: u64, level: i32) -> *mut u64;

    /// Ends the use of the page that linmap_table_map returned last for this level.
    pub(crate) fn linmap_table_unmap(level: i32);

    /// Stores an entry of the live root table at the physical address `root`, by a single 64-bit store.
    pub(crate) fn linmap_root_set(root: u64, index: usize, descriptor: u64);

    /// Takes a lock. Several are taken in the order of their numbers and released in reverse order.
    pub(crate) fn linmap_lock(number: u32);

    /// Releases a lock.
    pub(crate) fn linmap_unlock(number: u32);

    /// Waits a moment, for example by cond_resched, since another caller's long operation has claimed the same addresses.
    /// No lock is held. Returns false if this context cannot wait; the call then fails with -EAGAIN. It is not called where
    /// the caller has passed LINMAP_ATOMIC.
    pub(crate) fn linmap_wait() -> bool;

    /// Asks all CPUs whether they answer, and waits until they have. No lock is held. Returns false if one does not, or if
    /// this kernel cannot park CPUs.
    pub(crate) fn linmap_ask_cpus() -> bool;

    /// Applies updates in their order while no CPU uses the tables; all CPUs then continue with the tables of `root`. Meanwhile
    /// each translates by other tables, holds no entry of these in its TLB, and takes no exception; before it uses `root`,
    /// its TLB has dropped all that it had. Locks are held. An update says for each index from its first on:
    /// table[index] = (from[index] & ~clear) | set. Returns false, and has stored nothing, if the CPUs cannot be parked.
    pub(crate) fn linmap_park(root: u64, updates: *const LinmapUpdate, count: usize) -> bool;

    /// Does not return: the library has found its own state, or a table, to be wrong. The text is not terminated by a zero.
    #[cfg(feature = "object")]
    pub(crate) fn linmap_panic(message: *const core::ffi::c_char, length: usize) -> !;

    /// Issues the TLB invalidation of `bytes` bytes from va on, on all CPUs and for every ASID: of everything where bytes is
    /// UINT64_MAX. If tables is false, entries of the last level suffice. A DSB ISHST comes before it, and the library
    /// executes the DSB ISH that completes it. Only in a build with the feature tlbi-callback, or not for arm64.
    #[cfg(any(feature = "tlbi-callback", not(target_arch = "aarch64")))]
    pub(crate) fn linmap_tlbi(va: u64, bytes: u64, tables: bool);
}
