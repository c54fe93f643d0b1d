//! Calls that change a map in use, and its counts.

use core::sync::atomic::Ordering::Relaxed;

use linmap::error::{ChangeError, RepaintError};
use linmap::{Change, ChangeFlags, Pa, SplitCost, Va};

use crate::create::{policy, promise};
use crate::errno::{
    Errno, Invalid, LINMAP_EAGAIN, LINMAP_EINVAL, LINMAP_EOPNOTSUPP, LINMAP_ETIMEDOUT, answer,
};
use crate::map::{Map, reason};
use crate::platform::Kernel;
use crate::regions::attributes;
use crate::types::*;

/// The reason why a call was refused.
pub(crate) enum Refusal {
    Invalid(Invalid),
    Change(ChangeError),
    Repaint(RepaintError),
    /// A repaint where the kernel does not promise LINMAP_PARKS.
    NeedsParks,
}

impl Errno for Refusal {
    fn errno(self) -> i32 {
        match self {
            Self::Invalid(invalid) => invalid.errno(),
            Self::Change(error) => error.errno(),
            Self::Repaint(error) => error.errno(),
            Self::NeedsParks => LINMAP_EOPNOTSUPP,
        }
    }
}

impl From<Invalid> for Refusal {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<ChangeError> for Refusal {
    fn from(error: ChangeError) -> Self {
        Self::Change(error)
    }
}

impl From<RepaintError> for Refusal {
    fn from(error: RepaintError) -> Self {
        Self::Repaint(error)
    }
}

/// Runs an operation on a map with the kernel of a call with these flags.
///
/// # Safety
///
/// As for [`Map::of`].
#[inline(always)]
pub(crate) unsafe fn on(
    map: *const Linmap,
    flags: u32,
    work: impl FnOnce(&Map, &Kernel) -> Result<(), Refusal>,
) -> i32 {
    // SAFETY: the caller's promise.
    let checked = unsafe { Map::of(map) }.and_then(|map| Ok((map, map.kernel(flags)?)));
    match answer(checked.map_err(Refusal::from).and_then(|(map, kernel)| work(map, &kernel))) {
        // No CPU was asked, since the caller may not wait for them.
        error if error == -LINMAP_ETIMEDOUT && flags & LINMAP_ATOMIC != 0 => -LINMAP_EAGAIN,
        other => other,
    }
}

/// The flags that only a change knows.
const OF_CHANGES: u32 = LINMAP_NOFLUSH | LINMAP_SKIP_HOLES;

/// Returns a change of the bits of a valid descriptor, and its manner.
#[inline]
fn change_of(set: u64, clear: u64, flags: u32) -> Result<(Change, ChangeFlags), Invalid> {
    let change = Change::from_bits(set, clear).map_err(|_| Invalid)?;
    let mut manner = ChangeFlags::empty();
    manner.set(ChangeFlags::LATER, flags & LINMAP_NOFLUSH != 0);
    manner.set(ChangeFlags::SKIP_HOLES, flags & LINMAP_SKIP_HOLES != 0);
    Ok((change, manner))
}

/// Changes the leaves of `pages` pages from va on: clears some bits of a valid descriptor, then sets some. These are
/// LINMAP_VALID, AP, DBM, GP, PXN, UXN and the software bits (58, 56, 55), and LINMAP_NOT_GLOBAL, which can be set only; all others cannot
/// change in place and are kept. Pages that become
/// invalid keep all else that they say, and are no holes. A leaf that is partly in the range is split first. Returns 0 or a
/// negative error; no translation has changed then.
///
/// Flags: LINMAP_ATOMIC, LINMAP_NOFLUSH, LINMAP_SKIP_HOLES, a reason (LINMAP_BY).
///
/// # Safety
///
/// The map is one. All users of the addresses expect the change.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_change(
    map: *mut Linmap,
    va: u64,
    pages: u64,
    set: u64,
    clear: u64,
    flags: u32,
) -> i32 {
    let work = |map: &Map, kernel: &Kernel| {
        let (change, manner) = change_of(set, clear, flags)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { map.on(kernel).change(Va(va), pages, change, manner) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, flags & !OF_CHANGES, work) }
}

/// Changes single pages as linmap_change does one range: all of them, or none. `addresses` are those of `count` pages in any
/// order; adjacent ones change together. TLBs are invalidated once, at the end.
///
/// # Safety
///
/// As for linmap_change. There are so many addresses, and nothing writes to them meanwhile.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_change_pages(
    map: *mut Linmap,
    addresses: *const u64,
    count: usize,
    set: u64,
    clear: u64,
    flags: u32,
) -> i32 {
    if count != 0 && (addresses.is_null() || !addresses.is_aligned()) {
        return -LINMAP_EINVAL;
    }
    let work = |map: &Map, kernel: &Kernel| {
        let (change, manner) = change_of(set, clear, flags)?;
        let addresses = match count {
            0 => &[],
            // SAFETY: the caller's promise.
            _ => unsafe { core::slice::from_raw_parts(addresses, count) },
        };
        let pages = addresses.iter().map(|&va| Va(va));
        // SAFETY: the caller's promise.
        Ok(unsafe { map.on(kernel).change_pages(pages, change, manner) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, flags & !OF_CHANGES, work) }
}

/// Invalidates what changes with LINMAP_NOFLUSH have left to invalidate in `pages` pages from va on. On return no CPU uses an
/// old translation of them. Returns 0 or a negative error.
///
/// # Safety
///
/// The map is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_flush(map: *mut Linmap, va: u64, pages: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { on(map, 0, |map, kernel| Ok(map.on(kernel).flush(Va(va), pages)?)) }
}

/// Maps `pages` pages from va on to memory from pa on. Nothing may be mapped there. In the largest leaves if all CPUs
/// promise LINMAP_NEVER_ABORTS or the kernel promises LINMAP_PARKS, otherwise in pages. Returns 0 or a negative error;
/// nothing has changed then.
///
/// Another CPU uses the addresses only after a context synchronisation event. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// As for linmap_create.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_map(
    map: *mut Linmap,
    va: u64,
    pages: u64,
    pa: u64,
    attributes: u64,
    flags: u32,
) -> i32 {
    let work = |map: &Map, kernel: &Kernel| {
        let attributes = self::attributes(attributes)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { map.on(kernel).map(Va(va), pages, Pa(pa), attributes) }?)
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, work) }
}

/// Removes the mapping of `pages` pages from va on, invalid ones included. Tables that become empty are retired. Returns 0
/// or a negative error; no translation has changed then. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// The map is one. Nothing uses the addresses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_unmap(map: *mut Linmap, va: u64, pages: u64, flags: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, |map, kernel| Ok(map.on(kernel).unmap(Va(va), pages)?)) }
}

/// Splits `pages` pages from va on into pages that are in no contiguous run. Translations stay as they are. Returns 0 or a
/// negative error. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// The map is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_split(map: *mut Linmap, va: u64, pages: u64, flags: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, |map, kernel| Ok(map.on(kernel).split_to_pages(Va(va), pages)?)) }
}

/// Returns to the largest leaves where `pages` pages from va on, with their neighbours in the same tables, are uniform.
/// Translations stay as they are; tables are retired. Without LINMAP_NEVER_ABORTS they collapse while the other CPUs
/// are parked, and without LINMAP_PARKS nothing does. Returns 0 or a negative error. Flags: LINMAP_ATOMIC.
///
/// # Safety
///
/// The map is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_collapse(map: *mut Linmap, va: u64, pages: u64, flags: u32) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { on(map, flags, |map, kernel| Ok(map.on(kernel).collapse(Va(va), pages)?)) }
}

/// Maps everything in `range`, which consists of whole entries of the root, in pages, although no live leaf changes its size:
/// second tables are built, and the CPUs switch to them while they are parked (linmap_park). What is within one of `kept`
/// ranges, at most LINMAP_MOST_KEPT, keeps its size. Needs LINMAP_PARKS. Returns 0 or a negative error; nothing has changed
/// then. From then on new mappings are in pages (linmap_promise says otherwise), and linmap_root returns another address,
/// except after linmap_adopt. `flags` is 0: this call waits for the other CPUs.
///
/// # Safety
///
/// The map is one, `range` is null or a range, and there are so many kept ones.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_repaint(
    map: *mut Linmap,
    range: *const LinmapRange,
    kept: *const LinmapRange,
    count: usize,
    flags: u32,
) -> i32 {
    let missing =
        range.is_null() || !range.is_aligned() || count != 0 && (kept.is_null() || !kept.is_aligned());
    if missing || count > LINMAP_MOST_KEPT || flags != 0 {
        return -LINMAP_EINVAL;
    }
    let work = |map: &Map, kernel: &Kernel| {
        if !kernel.parks() {
            return Err(Refusal::NeedsParks);
        }
        // SAFETY: the caller's promise, as for what follows.
        let range = unsafe { *range };
        let mut ranges = [(Va(0), Va(0)); LINMAP_MOST_KEPT];
        for (n, to) in ranges[..count].iter_mut().enumerate() {
            // SAFETY: there are so many.
            let LinmapRange { first, last } = unsafe { *kept.add(n) };
            *to = (Va(first), Va(last));
        }
        map.on(kernel).repaint((Va(range.first), Va(range.last)), &ranges[..count])?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, 0, work) }
}

/// Says what all CPUs promise that use the map from now on, for example because another one came. Returns 0 or a negative
/// error.
///
/// # Safety
///
/// The map is one. No other call is under way. All CPUs keep the promise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_promise(map: *mut Linmap, bits: u32) -> i32 {
    // SAFETY: the caller's promise.
    let promised = unsafe { Map::of(map) }.and_then(|map| {
        map.promise.store(promise(bits)?, Relaxed);
        map.space.set_policy(policy(bits));
        Ok(())
    });
    answer(promised)
}

/// Returns true if a call is under way that has claimed addresses, or a repaint: a caller that cannot wait may be refused
/// there. False for a map that was not initialised.
///
/// # Safety
///
/// The map is one, or all zero, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_is_busy(map: *const Linmap) -> bool {
    // SAFETY: the caller's promise.
    unsafe { Map::of(map) }.is_ok_and(|map| map.space.is_claimed())
}

/// Writes the counts of a map to `stats`. Takes all locks for a moment. Returns 0 or a negative error.
///
/// # Safety
///
/// The map is one, and `stats` is memory for the counts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_stats(map: *mut Linmap, stats: *mut LinmapStats) -> i32 {
    if stats.is_null() || !stats.is_aligned() {
        return -LINMAP_EINVAL;
    }
    let work = |map: &Map, kernel: &Kernel| {
        let (found, changes, geometry) = (map.on(kernel).stats(), map.on(kernel).changes(), map.geometry());
        let mut leaves = [LinmapLeaves::default(); LINMAP_LEAF_SIZES];
        for (leaves, size) in leaves.iter_mut().zip(geometry.leaf_sizes().iter()) {
            let count = found.descriptors(*size) / size.descriptors();
            *leaves = LinmapLeaves { bytes: size.bytes(), count };
        }
        let counts = LinmapStats {
            tables: found.tables,
            bytes: found.bytes(geometry),
            splits: changes.splits,
            collapses: changes.collapses,
            invalidations: changes.invalidations,
            leaves,
        };
        // SAFETY: memory for the counts, by the caller's promise.
        unsafe { stats.write(counts) };
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { on(map, 0, work) }
}

/// Says what the splits for a reason have cost, one of LINMAP_BY_MODULE and its like: each is counted once its stores are made.
/// Returns 0 or a negative error.
///
/// # Safety
///
/// The map is one. `cost` is null or a struct to write to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn linmap_split_cost(map: *const Linmap, by: u32, cost: *mut LinmapSplitCost) -> i32 {
    // SAFETY: the caller's promise.
    let known = unsafe { Map::of(map) }.ok().filter(|_| !cost.is_null() && cost.is_aligned());
    let Some(map) = known.filter(|_| by & !LINMAP_BY == 0 && by != 0) else { return -LINMAP_EINVAL };
    let SplitCost { splits, tlb_entries } = map.space.split_cost(reason(by));
    // SAFETY: the caller's promise.
    unsafe { cost.write(LinmapSplitCost { splits, tlb_entries }) };
    0
}
