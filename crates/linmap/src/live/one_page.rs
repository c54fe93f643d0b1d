//! Changes one page that has an entry in a page table: what most changes are.
//!
//! Nothing is allocated then, and no CPU is waited for. If the page is in a contiguous run, that is dissolved where it may be
//! while it is in use. All else is left to the general way
//! (`protect.rs`), which is told how far this one came.

use core::mem::ManuallyDrop;
use core::sync::atomic::AtomicU64;

use crate::build::Counters;
use crate::format::{Change, Descriptor, Geometry, Granule, LeafChange, Level, OaFormat, Pa, Va};
use crate::live::change_flags::ChangeFlags;
use crate::live::cut_page::change_in_leaf;
use crate::live::error::ChangeError;
use crate::live::invalidated::Invalidated;
use crate::live::lock_set::LockSet;
use crate::live::locked::Locked;
use crate::live::map_state::MapState;
use crate::live::protect::{change_held, change_range};
use crate::live::reserve::Reserve;
use crate::live::resize::dissolve;
use crate::live::tlb_batch::complete_one;
use crate::platform::{LEADING, Platform, Reason, Slot};
use crate::read::{Live, Table, page_entry};

/// The entry of a page in a page table.
struct PageEntry {
    slot: Slot,
    /// Its address, if the memory is plain.
    word: *mut u64,
    has: Descriptor,
}

/// The reason why a page has not changed in this way. Nothing has changed.
enum Other<H> {
    /// It is in a leaf at this level, above the last.
    In(Level),
    /// Others have claimed or left something, and a hole is refused. The lock is still held.
    Held(H),
    /// Any other.
    Way,
}

/// Changes a range, in the shortest way if it is one page with an entry in a page table.
///
/// # Errors
///
/// As for [`change_range`].
#[inline(always)]
pub(crate) fn change<P: Platform>(
    state: &MapState,
    platform: &P,
    (va, pages): (Va, u64),
    change: Change,
    flags: ChangeFlags,
) -> Result<(), ChangeError> {
    if pages == 1 {
        if flags.contains(ChangeFlags::LATER) {
            return change_one_later(state, platform, va, change, flags);
        }
        match change_page::<P, false>(state, platform, va, (change, flags)) {
            Ok(()) => return Ok(()),
            Err(Other::In(level)) => return change_in_leaf(state, platform, va, change, flags, level),
            Err(Other::Held(held)) => return change_held::<P, false>(state, platform, va, change, held),
            Err(Other::Way) => {}
        }
    }
    change_range(state, platform, va, pages, change, flags)
}

/// Changes one page, and leaves the invalidation to a flush.
///
/// # Errors
///
/// As for [`change_range`].
#[inline(never)]
pub(crate) fn change_one_later<P: Platform>(
    state: &MapState,
    platform: &P,
    va: Va,
    change: Change,
    flags: ChangeFlags,
) -> Result<(), ChangeError> {
    match change_page::<P, true>(state, platform, va, (change, flags)) {
        Ok(()) => Ok(()),
        Err(Other::Held(held)) => change_held::<P, true>(state, platform, va, change, held),
        Err(_) => change_range(state, platform, va, 1, change, flags),
    }
}

/// Changes one page. If `LATER`, its invalidation is left to a flush.
///
/// # Errors
///
/// Something else is needed, or the change is refused.
#[inline(always)]
fn change_page<'a, P: Platform, const LATER: bool>(
    state: &MapState,
    platform: &'a P,
    va: Va,
    (change, flags): (Change, ChangeFlags),
) -> Result<(), Other<P::Held<'a>>> {
    // Read once: the compiler does not know that they stay.
    let (g, from_base) = (state.geometry(), va.0.wrapping_sub(state.base()));
    let within = g.page_size() - 1;
    if va.0 & within != 0 || from_base >> g.va_bits() != 0 || change.may_make_clean() {
        return Err(Other::Way);
    }
    let number = LockSet::number::<P>(va.0);
    let Some(held) = platform.try_lock(number) else { return Err(Other::Way) };
    let looks = if LATER { state.attention.is_needed_for_more() } else { state.attention.is_needed() };
    if looks {
        let skips = flags.contains(ChangeFlags::SKIP_HOLES);
        return Err(if skips { Other::Way } else { Other::Held(held) });
    }
    let entry = match entry_of(state, platform, (g, from_base)) {
        Ok(entry) => entry,
        Err(Some((_, block))) if is_right(block, change) => return Ok(()),
        Err(Some((level, _))) => return Err(Other::In(level)),
        Err(None) => return Err(Other::Way),
    };
    let old = entry.has;
    let Some(new) = becomes(old, change).filter(|new| !new.is_write_execute()) else {
        return Err(Other::Way);
    };
    if new != old {
        let cuts = old.is_contiguous();
        if cuts && (LATER || !old.is_valid() || !may_cut(state, platform, va)) {
            return Err(Other::Way);
        }
        let share = state.share(number);
        let version = share.changes_begin();
        if cuts {
            entry.cut(state, platform, va, &share.counters);
        }
        entry.store(platform, new.without_contiguous());
        if LATER && old.is_valid() {
            let pending = Invalidated { first: va.0, last: va.0 | within, entry_shift: g.page_shift() };
            state.leave_pending_in(number, pending);
        }
        complete_one(platform, g, &share.counters, !LATER && old.is_valid(), va.0);
        share.changes_end(version);
    }
    Ok(())
}

/// Returns true if a valid block is as the change makes it, and may be so.
#[inline(always)]
const fn is_right(block: Descriptor, change: Change) -> bool {
    // It stays valid then, so no bit has another place.
    let (clear, set) = change.bits();
    block.0 & !clear | set == block.0 && !block.is_write_execute()
}

/// Returns the changed entry of a page. Returns `None` if it is that of no page, or of a page that is not valid, unless it is
/// that which changes.
#[inline(always)]
const fn becomes(old: Descriptor, change: Change) -> Option<Descriptor> {
    let change = LeafChange::of_bits(change.bits());
    let is_page = old.is_link() || change.moved != 0 && !old.is_valid() && old.is_software_present();
    if is_page { Some(change.of_page(old)) } else { None }
}

/// Returns true if the run of a page in use may be dissolved, and nobody wants to know what that costs. A map owns all of a run
/// or nothing of it, as it has whole entries of the root, and a run has one lock.
#[inline(always)]
fn may_cut<P: Platform>(state: &MapState, platform: &P, va: Va) -> bool {
    state.may_resize(platform) && state.owned().covers(va.0, va.0) && platform.reason() == Reason::NONE
}

/// The level of a valid block, and the block. `None` if what is there is not valid, or constants of levels do not lead to it.
type Above = Option<(Level, Descriptor)>;

/// Returns the page table's entry that translates an address, which is so many bytes above the first one of the half.
///
/// # Errors
///
/// There is none.
#[inline(always)]
fn entry_of<P: Platform>(
    state: &MapState,
    platform: &P,
    (g, from_base): (Geometry, u64),
) -> Result<PageEntry, Above> {
    // SAFETY: only tables below the root of this map are read, under a lock of the address.
    let tables = unsafe { Live::new(platform) };
    let top = (state.root(), g.root());
    if g.oa_format() != OaFormat::Bits48 {
        return Err(None);
    }
    if !P::PLAIN {
        let (slot, has) = by_constants(top, (g, from_base), |slot| tables.one(slot))?;
        return Ok(PageEntry { slot, word: core::ptr::null_mut(), has });
    }
    let Some(tables) = tables.at_offset(top.0) else { return Err(None) };
    let (slot, has) = by_constants(top, (g, from_base), |slot| tables.load(slot))?;
    Ok(PageEntry { slot, word: tables.word(slot), has })
}

/// Goes down by the constants of a page size.
#[inline(always)]
fn by_constants(
    top: (Pa, Level),
    (g, from_base): (Geometry, u64),
    load: impl Fn(Slot) -> Descriptor,
) -> Result<(Slot, Descriptor), Above> {
    match g.granule() {
        Granule::K4 => page_entry::<12>(top, from_base, load),
        Granule::K16 => page_entry::<14>(top, from_base, load),
        Granule::K64 => page_entry::<16>(top, from_base, load),
    }
}

impl PageEntry {
    /// Dissolves the run that it is in. The barrier is that before a member changes (`resize.rs`).
    #[inline(always)]
    fn cut<P: Platform>(&self, state: &MapState, platform: &P, va: Va, counters: &Counters) {
        // It stays empty, and as nobody else sees it, it takes no instruction.
        let reserve = ManuallyDrop::new(Reserve::new(platform));
        let locked = &Locked::of_one(platform, state, LockSet::number::<P>(va.0), &reserve);
        let (g, index) = (state.geometry(), self.slot.index);
        let members = g.contiguous_entries(Level::PAGE);
        // Plain memory is reached by its address alone, so that of the run, which is aligned, takes the place of the table's.
        let first = if P::PLAIN { 0 } else { index };
        let words = self.word.map_addr(|at| at & !(members * size_of::<u64>() - 1));
        let pa = self.slot.table;
        let run = Table { pa, words, level: Level::PAGE, shift: g.page_shift(), base: 0 };
        dissolve(locked, &run, first, members);
        locked.publish_barrier();
        counters.dissolved(Level::PAGE, members as i64);
    }

    #[inline(always)]
    fn store<P: Platform>(&self, platform: &P, new: Descriptor) {
        if P::PLAIN {
            // SAFETY: an entry of a live table, whose memory is plain, under a lock of what it translates. The effect on users
            // of the page is the responsibility of the operation's caller, for whom it is unsafe.
            return unsafe { AtomicU64::from_ptr(self.word) }.store(new.0, LEADING);
        }
        // SAFETY: as above.
        unsafe { platform.store(self.slot, new) }
    }
}
