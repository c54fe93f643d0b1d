//! Sources of tables: a live machine, a dump, a model.

use core::cell::Cell;

use crate::format::{Descriptor, Geometry, Level, Pa};
use crate::platform::{Memory, Slot, Slots};
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
/// use linmap::arch::{Descriptor, Level};
/// use linmap::layout::linear_range;
/// use linmap::read::{Bounded, BoundedError, ReadTables, count};
/// use linmap::{Geometry, Granule, OaFormat, Pa, Slot};
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
/// let counted = count(&Bounded::new(&Loops, 1 << 20), g, Pa(0x1000), linear_range(g));
/// assert_eq!(counted, Err(BoundedError::Limit));
/// # Ok::<(), linmap::error::GeometryError>(())
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

    /// Returns the entries of a table.
    #[inline(always)]
    pub(crate) fn slots(&self, table: Pa) -> Slots<'m, M> {
        // SAFETY: the table is live, as the creator of this value promised.
        unsafe { Slots::new(self.0, (table, Slots::words(self.0, table))) }
    }
}

impl<M: Memory> ReadTables for Live<'_, M> {
    type Error = core::convert::Infallible;

    #[inline]
    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Self::Error> {
        Ok(self.slots(slot.table).load(slot.index))
    }
}
