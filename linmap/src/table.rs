//! Table pages: who owns them, and how they are read and written.
//!
//! A [`Frame`] is a table page that no walker can reach: one owner, plain memory, wide stores. Once it
//! is published it is no frame any more but a set of live slots, which are loaded and stored one
//! descriptor at a time. [`Memory`] is the platform's half of that bargain.

use core::cell::Cell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Descriptor, Level, Pa};

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

/// Something whose tables can be read: a live machine, a dump, a model.
///
/// Reading may fail, and nothing read is trusted. `level` is a hint for readers that keep tables apart.
pub trait ReadTables {
    /// What can go wrong.
    type Error;

    /// The descriptor in `slot`, of a table at `level`.
    ///
    /// # Errors
    ///
    /// The slot can not be read, for instance because a dump does not have that page.
    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error>;
}

/// A reader that is asked for so many slots and no more.
///
/// For tables that nobody vouches for: a walk is never deeper than the geometry has levels, but tables that
/// point to one another, or to themselves, have paths without number.
///
/// ```
/// use linmap::{Bounded, Descriptor, Geometry, Granule, Level, OaFormat, Pa, ReadTables, Refused, Slot};
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
/// assert_eq!(counted, Err(Refused::Limit));
/// # Ok::<(), linmap::GeometryError>(())
/// ```
#[derive(Debug)]
pub struct Bounded<'a, R> {
    reader: &'a R,
    left: Cell<u64>,
}

/// Why a [`Bounded`] reader did not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Refused<E> {
    /// It was asked for more slots than it may read.
    #[error("more slots would have to be read than the limit; tables may point to one another in circles")]
    Limit,
    /// The reader itself could not.
    #[error("{0}")]
    Read(E),
}

impl<'a, R> Bounded<'a, R> {
    /// A reader that reads at most `limit` slots. 2^27 are the last level of 512 GiB in 4K pages.
    pub const fn new(reader: &'a R, limit: u64) -> Self {
        Self { reader, left: Cell::new(limit) }
    }
}

impl<R: ReadTables> ReadTables for Bounded<'_, R> {
    type Error = Refused<R::Error>;

    fn entry(&self, slot: Slot, level: Level) -> Result<Descriptor, Self::Error> {
        self.left.set(self.left.get().checked_sub(1).ok_or(Refused::Limit)?);
        self.reader.entry(slot, level).map_err(Refused::Read)
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
/// - that size is always the same; [`slots`](Self::slots) is all of a page's memory, 8 bytes an entry, and of no other;
/// - [`load`](Self::load) and [`store`](Self::store) are single 64-bit single-copy atomic accesses, not
///   torn, repeated or left out;
/// - where [`PLAIN`](Self::PLAIN) is true, [`words`](Self::words) is all of the table's memory, 8 bytes an
///   entry, at which such accesses may be made for as long as the table is live;
/// - where there is more than one memory, each refuses, by a panic, pages that are another's.
pub unsafe trait Memory {
    /// Whether live tables are plain memory, which [`words`](Self::words) says where to find. Then the library
    /// makes the accesses of [`load`](Self::load) and [`store`](Self::store) by itself, which spares it
    /// to look up the table for each.
    const PLAIN: bool = false;

    /// The entries of a live table, where those are [`PLAIN`](Self::PLAIN) memory.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that is neither a [`Frame`] nor given back.
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
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64];

    /// The descriptor in a slot of a live table.
    ///
    /// # Safety
    ///
    /// The table is a page of this memory that is neither a [`Frame`] nor given back, and has a slot of
    /// that index.
    unsafe fn load(&self, slot: Slot) -> Descriptor;

    /// Replaces the descriptor in a slot of a live table.
    ///
    /// # Safety
    ///
    /// As for [`load`](Self::load); and whoever uses the addresses that the slot translates can live
    /// with the change.
    unsafe fn store(&self, slot: Slot, new: Descriptor);
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
}

impl<M: Memory> ReadTables for Live<'_, M> {
    type Error = core::convert::Infallible;

    #[inline]
    fn entry(&self, slot: Slot, _: Level) -> Result<Descriptor, Self::Error> {
        if M::PLAIN {
            // SAFETY: whoever made this value promised that the table is live; its memory is plain.
            let entry = unsafe { AtomicU64::from_ptr(self.0.words(slot.table).add(slot.index)) };
            return Ok(Descriptor(entry.load(Relaxed)));
        }
        // SAFETY: whoever made this value promised that the table is live.
        Ok(unsafe { self.0.load(slot) })
    }
}
