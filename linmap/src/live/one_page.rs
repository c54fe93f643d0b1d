//! Takes one page out of the map or puts it back, in the shortest way: what a kernel does for each allocation that it guards,
//! from any context.
//!
//! It goes this way where the page has an entry of its own in a page table. Then nothing is allocated, nothing changes its size
//! and no CPU is waited for, so nothing but the address can be refused.

use core::mem::ManuallyDrop;

use crate::format::{Change, Level, Va};
use crate::live::address_space::AddressSpace;
use crate::live::change_flags::ChangeFlags;
use crate::live::error::ChangeError;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::reserve::Reserve;
use crate::platform::{Dsb, Platform};

impl AddressSpace {
    /// Makes one page invalid, or valid again, and leaves the invalidation to a [`flush`](Self::flush):
    /// [`change`](Self::change) with [`ChangeFlags::LATER`], in half the instructions where the page is in a page table and in no
    /// run. There it allocates nothing and cannot fail, so it may be called from any context in which the platform's lock may be
    /// taken. A kernel that guards single pages [pins](Self::pin) their range before.
    ///
    /// # Errors
    ///
    /// As for [`protect`](Self::protect).
    ///
    /// # Safety
    ///
    /// As for [`set_valid`](Self::set_valid). CPUs may use the old translation until the page has been flushed.
    pub unsafe fn set_page_valid<P: Platform>(
        &self,
        platform: &P,
        va: Va,
        valid: bool,
    ) -> Result<(), ChangeError> {
        if self.state().is_page(va) && set_valid(self.state(), platform, va.0, valid) {
            return Ok(());
        }
        let change = if valid { Change::VALID } else { Change::INVALID };
        // SAFETY: the caller's promise.
        unsafe { self.change(platform, va, 1, change, ChangeFlags::LATER) }
    }
}

/// Makes a page valid or invalid, and leaves the invalidation to a flush. Returns false, and has done nothing, if the page
/// is not mapped by an entry of its own, if it would be both writable and executable, or if others have claimed something or
/// a repaint is under way.
#[inline(always)]
fn set_valid<P: Platform>(state: &MapState, platform: &P, va: u64, valid: bool) -> bool {
    // It stays empty, so there is nothing to give back, and as nobody else sees it, it takes no instruction.
    let reserve = ManuallyDrop::new(Reserve::new(platform));
    let number = LockSet::number::<P>(va);
    let _held = platform.lock(number);
    if state.attention.is_needed_for_more() {
        return false;
    }
    let locked = Locked::of_one(platform, state, number, &reserve);
    let Some((table, index)) = locked.page_entry(va) else { return false };
    let old = locked.load(&table, index);
    if old.is_contiguous() || !old.is_leaf_from(Level::PAGE, Level::PAGE) {
        return false;
    }
    let new = old.with_validity(valid, Level::PAGE);
    if valid && new.is_write_execute() && !state.allows_write_execute() {
        return false;
    }
    if new == old {
        return true;
    }
    let share = state.share(number);
    let version = share.changes_begin();
    locked.store(&table, index, new);
    if old.is_valid() {
        let last = va | ((1 << table.shift) - 1);
        state.leave_pending_in(number, Invalidated { first: va, last, entry_shift: table.shift });
    }
    platform.dsb(Dsb::Ishst);
    platform.isb();
    share.changes_end(version);
    true
}
