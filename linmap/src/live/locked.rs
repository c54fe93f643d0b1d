//! Tables in use: how an operation that holds the lock reaches them.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::build::{Counters, Error, Replacement};
use crate::format::{Descriptor, Edit, Geometry, Level, Pa, Span, Va};
use crate::live::address_space::AddressSpace;
use crate::plan::Policy;
use crate::platform::{Dsb, Platform, Slot};
use crate::read::Table;

/// Live tables, for an operation that holds the lock.
#[derive(Debug)]
pub(crate) struct Access<'a, P> {
    pub(crate) platform: &'a P,
    pub(crate) geometry: Geometry,
    pub(crate) space: &'a AddressSpace,
}

impl<'a, P: Platform> Access<'a, P> {
    /// The same once more.
    pub(crate) const fn again(&self) -> Self {
        Self { platform: self.platform, geometry: self.geometry, space: self.space }
    }

    /// What the map is made of.
    #[inline(always)]
    pub(crate) fn counters(&self) -> &'a Counters {
        self.space.counters()
    }

    /// How a leaf is split for an edit.
    #[inline(always)]
    pub(crate) fn split(&self, edit: Edit, span: Span) -> Replacement<'a, P> {
        let (memory, geometry) = (self.platform, self.geometry);
        Replacement { memory, geometry, edit, span, pages: false, counters: self.counters() }
    }

    /// A live table.
    #[inline]
    pub(crate) fn table(&self, pa: Pa, level: Level, shift: u32, base: u64) -> Table {
        Table { pa, words: self.words(pa), level, shift, base }
    }

    /// Where a live table's entries are, if the memory is plain.
    #[inline]
    fn words(&self, pa: Pa) -> *mut u64 {
        // SAFETY: a table that was reached from the root of a live tree, under the lock.
        if P::PLAIN { unsafe { self.platform.words(pa) } } else { core::ptr::null_mut() }
    }

    /// The table that an entry, which is a table's descriptor, points to.
    #[inline]
    pub(crate) fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table {
        let g = self.geometry;
        self.table(entry.next_table(g), table.level.down(1), table.shift - g.index_bits(), table.va(index))
    }

    #[inline(always)]
    pub(crate) fn load(&self, table: &Table, index: usize) -> Descriptor {
        self.load_at((table.pa, table.words), index)
    }

    #[inline(always)]
    fn load_at(&self, (table, words): (Pa, *mut u64), index: usize) -> Descriptor {
        if P::PLAIN {
            // SAFETY: the table is live, and its memory plain; it has an entry of that index.
            return Descriptor(unsafe { AtomicU64::from_ptr(words.add(index)) }.load(Relaxed));
        }
        // SAFETY: the slot is one of a table that was reached from the root of a live tree, under the lock.
        unsafe { self.platform.load(Slot { table, index }) }
    }

    /// Two descriptors in a row, the first in a slot of even number.
    ///
    /// Plain memory is read by one access of 128 bits, which is a pair of 64-bit accesses, each single-copy
    /// atomic (Arm ARM B2.2.1), for those who hold the lock, so that nobody writes.
    #[inline(always)]
    pub(crate) fn load_pair(&self, table: &Table, index: usize) -> [Descriptor; 2] {
        if P::PLAIN {
            // SAFETY: the table is live, its memory plain and aligned to 16 bytes; nobody writes to it.
            let both = unsafe { table.words.add(index).cast::<u128>().read_volatile() };
            // The first is at the lower address, whatever the byte order.
            let [low, high] = [both as u64, (both >> 64) as u64].map(Descriptor);
            return if cfg!(target_endian = "little") { [low, high] } else { [high, low] };
        }
        [self.load(table, index), self.load(table, index + 1)]
    }

    /// Eight descriptors in a row, the first in a slot of even number.
    #[inline(always)]
    pub(crate) fn load_eight(&self, table: &Table, index: usize) -> [Descriptor; 8] {
        let pair = |n: usize| self.load_pair(table, index + n);
        let ([a, b], [c, d], [e, f], [g, h]) = (pair(0), pair(2), pair(4), pair(6));
        [a, b, c, d, e, f, g, h]
    }

    /// Replaces eight descriptors in a row, the first in a slot of even number.
    #[inline(always)]
    pub(crate) fn store_eight(&self, table: &Table, index: usize, new: [Descriptor; 8]) {
        let [a, b, c, d, e, f, g, h] = new;
        self.store_pair(table, index, [a, b]);
        self.store_pair(table, index + 2, [c, d]);
        self.store_pair(table, index + 4, [e, f]);
        self.store_pair(table, index + 6, [g, h]);
    }

    /// Whether eight entries are `next` and what follows it, which it becomes. All are compared, without a
    /// branch in between.
    #[inline(always)]
    pub(crate) fn eight(&self, table: &Table, index: usize, (next, step): (&mut u64, u64)) -> bool {
        let [a, b, c, d, e, f, g, h] = self.load_eight(table, index);
        let mut is_next = |entry: Descriptor| {
            let same = entry.0 == *next;
            *next = next.wrapping_add(step);
            same
        };
        let first_half = is_next(a) & is_next(b) & is_next(c) & is_next(d);
        first_half & is_next(e) & is_next(f) & is_next(g) & is_next(h)
    }

    /// Replaces two descriptors in a row, the first in a slot of even number: two stores, as in
    /// [`load_pair`](Self::load_pair).
    #[inline(always)]
    pub(crate) fn store_pair(&self, table: &Table, index: usize, [first, second]: [Descriptor; 2]) {
        if P::PLAIN {
            let [low, high] = if cfg!(target_endian = "little") { [first, second] } else { [second, first] };
            let both = u128::from(low.0) | u128::from(high.0) << 64;
            // SAFETY: as for `load_pair` and `store`.
            return unsafe { table.words.add(index).cast::<u128>().write_volatile(both) };
        }
        self.store(table, index, first);
        self.store(table, index + 1, second);
    }

    #[inline(always)]
    pub(crate) fn store(&self, table: &Table, index: usize, new: Descriptor) {
        if P::PLAIN {
            // SAFETY: as for `load`; what becomes of the addresses is what the caller of the operation,
            // whose methods are unsafe for that reason, answers for.
            return unsafe { AtomicU64::from_ptr(table.words.add(index)) }.store(new.0, Relaxed);
        }
        // SAFETY: as above.
        unsafe { self.platform.store(Slot { table: table.pa, index }, new) }
    }

    /// The table furthest down that translates all of a span.
    #[inline(always)]
    pub(crate) fn deepest(&self, from: Table, span: Span) -> Table {
        let (g, apart) = (self.geometry, span.first ^ span.last);
        let bits = g.index_bits();
        // An entry of at least so many bits translates all of the span, and is above the last level.
        let least = (g.page_shift() + 1).max(u64::BITS - apart.leading_zeros());
        // What changes from level to level, and nothing else, so that it stays in registers.
        let (mut at, mut shift, mut steps) = ((from.pa, from.words), from.shift, 0);
        let mut index = (span.first - from.base) >> shift;
        while shift >= least {
            let entry = self.load_at(at, index as usize);
            if !entry.is_plain_table() {
                break;
            }
            let below = entry.next_table(g);
            at = (below, self.words(below));
            shift -= bits;
            steps += 1;
            index = span.first >> shift & ((1 << bits) - 1);
        }
        // A table below the root translates an aligned range.
        let base = if steps == 0 { from.base } else { span.first & (u64::MAX << (shift + bits)) };
        Table { pa: at.0, words: at.1, level: from.level.down(steps), shift, base }
    }

    /// Whether the policy lets a leaf in use, which is at that address, change its size.
    pub(crate) fn may_resize(&self, policy: Policy, in_use: Option<u64>) -> Result<(), Error> {
        match (in_use, policy) {
            (None, _) | (_, Policy::Park) => Ok(()),
            (_, Policy::Live) if self.platform.promise().never_aborts => Ok(()),
            _ if broken!(PromiseIgnored) => Ok(()),
            (Some(va), policy) => Err(Error::NeedsResize { va: Va(va), policy }),
        }
    }

    /// Makes visible what was stored into new tables, before they are published, and that runs are dissolved, before
    /// their members change.
    #[inline(always)]
    pub(crate) fn filled(&self) {
        if !broken!(NoDsbBeforePublishing) {
            self.platform.dsb(Dsb::Ishst);
        }
    }
}
