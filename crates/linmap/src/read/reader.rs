//! Sources of tables: a live machine, a dump, a model.

use core::cell::Cell;
use core::sync::atomic::AtomicU64;

use crate::format::{Descriptor, Geometry, Level, Pa};
use crate::platform::{FOLLOWED, Memory, Slot, load_eight};
use crate::read::cursor::Source;
use crate::read::table::Table;

/// A source of tables: a live machine, a dump, a model.
///
/// Reading may fail, and the library trusts nothing that it reads. `level` is a hint for readers that store tables by
/// level.
pub trait ReadTables {
    /// The error of a read.
    type Error;

    /// Returns the descriptor in `slot`, which belongs to a table at `level`.
    ///
    /// # Errors
    ///
    /// The slot cannot be read, for instance because a dump does not contain its page.
    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error>;
}

/// A reader with a limit on the number of slots that it reads.
///
/// Use it for tables from an untrusted source. A walk is never deeper than the geometry has levels, but tables that
/// point to each other, or to themselves, can make it take practically forever.
///
/// ```
/// use linmap::{Bounded, Descriptor, Geometry, Granule, Level, OaFormat, Pa, ReadTables, BoundedError, Slot};
///
/// /// Every table there is points to itself in every slot.
/// struct Loops;
/// impl ReadTables for Loops {
///     type Error = std::convert::Infallible;
///     fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Self::Error> {
///         Ok(Descriptor(slot.table.0 | 3))
///     }
/// }
/// let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48)?;
/// let counted = linmap::count(&Bounded::new(&Loops, 1 << 20), g, Pa(0x1000), linmap::linear_range(g));
/// assert_eq!(counted, Err(BoundedError::Limit));
/// # Ok::<(), linmap::GeometryError>(())
/// ```
#[derive(Debug)]
pub struct Bounded<'a, R> {
    reader: &'a R,
    left: Cell<u64>,
}

/// The reason why a [`Bounded`] reader did not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BoundedError<E> {
    /// The limit on the number of slots has been reached.
    #[error("the limit on slots was reached; tables may point to one another in circles")]
    Limit,
    /// The error of the reader below.
    #[error("{0}")]
    Read(E),
}

impl<'a, R> Bounded<'a, R> {
    /// Returns a reader that reads at most `limit` slots. The last level of 512 GiB in 4K pages has 2^27.
    pub const fn new(reader: &'a R, limit: u64) -> Self {
        Self { reader, left: Cell::new(limit) }
    }
}

impl<R: ReadTables> ReadTables for Bounded<'_, R> {
    type Error = BoundedError<R::Error>;

    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error> {
        self.left.set(self.left.get().checked_sub(1).ok_or(BoundedError::Limit)?);
        self.reader.entry(slot, level).map_err(BoundedError::Read)
    }
}

/// The tables of a reader, as a source for the cursor.
pub(crate) struct Reading<'a, R> {
    pub(crate) reader: &'a R,
    pub(crate) geometry: Geometry,
}

impl<R: ReadTables> Source for Reading<'_, R> {
    type Error = R::Error;

    #[inline(always)]
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    #[inline(always)]
    fn load(&self, table: &Table, index: usize) -> Result<Descriptor, R::Error> {
        self.reader.entry(Slot { table: table.pa, index }, table.level)
    }

    #[inline(always)]
    fn below(&self, table: &Table, index: usize, entry: Descriptor) -> Table {
        Table::below(table, index, entry.next_table(self.geometry), self.geometry)
    }
}

/// Live tables, read through their memory.
pub(crate) struct Live<'m, M>(&'m M);

impl<'m, M: Memory> Live<'m, M> {
    /// # Safety
    ///
    /// Only live tables of this memory are read.
    pub(crate) const unsafe fn new(memory: &'m M) -> Self {
        Self(memory)
    }

    /// Returns the same tables as a value without a type of its own, if all of them are at one offset. `root` is one of them.
    #[inline(always)]
    pub(crate) fn at_offset(&self, root: Pa) -> Option<AtOffset> {
        if !M::PLAIN || !self.0.has_one_offset() {
            return None;
        }
        // SAFETY: the root is live, as the creator of this value promised; the memory is plain.
        Some(AtOffset(unsafe { self.0.words(root) }.wrapping_byte_sub(root.0 as usize)))
    }

    /// Returns the index after the last entry, from one on and up to `last`, that is known to differ from `entry`, which is the
    /// first, only in its address. More are looked at by eights.
    #[inline(always)]
    pub(crate) fn alike(&self, table: Pa, (index, last): (usize, usize), entry: Descriptor) -> usize {
        let mut next = index;
        while next + 7 <= last {
            let eight = self.eight(table, next);
            if eight.iter().fold(0, |all, other| all | other.0 ^ entry.0) & !Descriptor::ADDRESS != 0 {
                break;
            }
            next += 8;
        }
        next.max(index + 1)
    }

    /// Returns the index after the last entry, from one on and up to `last`, that is `entry`, which is the first, or that plus a
    /// multiple of `step`, in sequence.
    #[inline(always)]
    pub(crate) fn series(
        &self,
        table: Pa,
        (index, last): (usize, usize),
        (entry, step): (Descriptor, u64),
    ) -> usize {
        let (mut next, mut expected) = (index + 1, entry.0.wrapping_add(step));
        let is_next = |next, expected| next <= last && self.one(Slot { table, index: next }).0 == expected;
        // An entry that nothing continues costs no more than this.
        if !is_next(next, expected) {
            return next;
        }
        while next + 7 <= last {
            let (mut differ, mut after) = (0, expected);
            for other in self.eight(table, next) {
                differ |= other.0 ^ after;
                after = after.wrapping_add(step);
            }
            if differ != 0 {
                break;
            }
            (next, expected) = (next + 8, after);
        }
        while is_next(next, expected) {
            (next, expected) = (next + 1, expected.wrapping_add(step));
        }
        next
    }

    /// Returns a descriptor.
    #[inline(always)]
    pub(crate) fn one(&self, Slot { table, index }: Slot) -> Descriptor {
        if M::PLAIN {
            // SAFETY: the table is live, as the creator of this value promised; its memory is plain.
            let entry = unsafe { AtomicU64::from_ptr(self.0.words(table).add(index)) };
            return Descriptor(entry.load(FOLLOWED));
        }
        // SAFETY: the table is live, as the creator of this value promised.
        unsafe { self.0.load(Slot { table, index }) }
    }

    /// Returns eight adjacent descriptors.
    #[inline(always)]
    pub(crate) fn eight(&self, table: Pa, index: usize) -> [Descriptor; 8] {
        if M::PLAIN {
            // SAFETY: the table is live, as the creator of this value promised; its memory is plain. The caller knows that there are
            // eight.
            return unsafe { load_eight::<0>(self.0.words(table).add(index)) }.map(Descriptor);
        }
        // SAFETY: the table is live, as the creator of this value promised.
        core::array::from_fn(|n| unsafe { self.0.load(Slot { table, index: index + n }) })
    }
}

impl<M: Memory> ReadTables for Live<'_, M> {
    type Error = core::convert::Infallible;

    #[inline]
    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Self::Error> {
        Ok(self.one(slot))
    }
}

/// Live tables, each at its physical address plus the same number. No part of it depends on the memory, so that code which reads
/// them exists once.
#[derive(Clone, Copy)]
pub(crate) struct AtOffset(*mut u64);

impl AtOffset {
    /// Returns the descriptor in `slot`.
    #[inline(always)]
    pub(crate) fn load(self, slot: Slot) -> Descriptor {
        // SAFETY: the table is live, as for `Live`; its memory is plain, and has each page at this offset.
        Descriptor(unsafe { AtomicU64::from_ptr(self.word(slot)) }.load(FOLLOWED))
    }

    /// Returns the address of `slot`.
    #[inline(always)]
    pub(crate) fn word(self, slot: Slot) -> *mut u64 {
        self.0.wrapping_byte_add(slot.table.0 as usize).wrapping_add(slot.index)
    }
}
