//! Reading live tables without a lock, while others change them.
//!
//! A reader loads each descriptor once. The tables that it reaches are not given back before its section ends
//! ([`Sharing::read`](crate::Sharing::read)). Entries that it reads may be of different moments; it can ask whether
//! anything changed meanwhile.

use core::fmt::{self, Write};
use core::ops::ControlFlow;

use crate::edit::tables::Tables;
use crate::format::{Descriptor, Entry, Geometry, Level, MemoryType, Pa, Va};
use crate::plan::Stats;
use crate::platform::Memory;
use crate::read::{
    Checks, DumpError, Finding, Live, MarkedRange, Visited, check, count_collapsed, count_live, dump_with,
    visit, visit_series,
};

/// A number that changes whenever tables do.
pub(crate) trait Versions {
    /// Returns a number that changes whenever tables change, or `None` while someone may be at it.
    fn version(&self) -> Option<u64>;
}

/// A reader of a live map: [`Live::read`](crate::Live::read) and [`Space::reader`](crate::Space::reader) make it.
///
/// Every entry is as it was at some moment since the reader began. If another caller works meanwhile, they may be of
/// different moments; [`watch`](Self::watch) tells.
pub struct Reader<'a, M> {
    tables: &'a Tables,
    /// The number that changes with the tables, if others may change them.
    versions: Option<&'a dyn Versions>,
    memory: &'a M,
}

impl<'a, M: Memory> Reader<'a, M> {
    /// Returns a reader. It is used only within one section of the platform.
    #[inline]
    pub(crate) const fn new(tables: &'a Tables, versions: Option<&'a dyn Versions>, memory: &'a M) -> Self {
        Self { tables, versions, memory }
    }

    /// Calls `work`. Returns what it returns, and true if tables may have changed meanwhile: then what it read may be of different
    /// moments. False means that all of it was so at one time.
    pub fn watch<R>(&self, work: impl FnOnce() -> R) -> (R, bool) {
        let Some(versions) = self.versions else { return (work(), false) };
        let before = versions.version();
        let result = work();
        // What was read is ordered before this.
        core::sync::atomic::fence(core::sync::atomic::Ordering::Acquire);
        (result, before.is_none() || versions.version() != before)
    }

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`visit`] does.
    pub fn visit(&self, range: (Va, Va), each: impl FnMut(&Visited) -> ControlFlow<()>) -> ControlFlow<()> {
        visit(&self.live(), self.geometry(), self.tables.root(), range, each).unwrap_or_else(|e| match e {})
    }

    /// Calls `each` for leaves from `first` to `last`, valid or present-invalid, with the number of leaf descriptors from that one
    /// on that continue it: each maps what follows the one before to the memory that follows, with the same attributes, in the
    /// same table. They are not as many as possible: some may come one by one. An entry may be read twice.
    ///
    /// It is [`visit`](Self::visit) for those who look for memory, in a tenth of the instructions where much is adjacent.
    pub fn visit_series(
        &self,
        range: (Va, Va),
        each: impl FnMut(&Visited, u64) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit_series(&self.live(), self.geometry(), self.tables.root(), range, each)
    }

    /// Returns the memory that an address is mapped to, or `None` if no valid leaf maps it: what
    /// [`entry`](Self::entry) says, without the rest.
    #[inline]
    pub fn translate(&self, va: Va) -> Option<Pa> {
        let from_base = self.tables.offset_of(va)?;
        let (entry, shift, level) = self.last_entry(from_base);
        if !entry.is_valid() || !self.tables.is_leaf(entry, level) {
            return None;
        }
        let within = (1 << shift) - 1;
        Some(Pa(entry.next_table(self.geometry()).0 & !within | from_base & within))
    }

    /// Returns the entry that translates an address: a leaf, a hole, or a reserved or restricted descriptor, with the
    /// first address that the entry translates and its level. Returns `None` if the address is not in this half.
    ///
    /// The result does not include restrictions by the tables above a leaf.
    pub fn entry(&self, va: Va) -> Option<(Va, Level, Entry)> {
        let (va, level, entry) = self.descriptor(va)?;
        Some((va, level, entry.decode(self.geometry(), level)))
    }

    /// Returns the same with the descriptor as it is.
    #[inline(always)]
    pub(crate) fn descriptor(&self, va: Va) -> Option<(Va, Level, Descriptor)> {
        let from_base = self.tables.offset_of(va)?;
        let (entry, shift, level) = self.last_entry(from_base);
        Some((Va(va.0 & (u64::MAX << shift)), level, entry))
    }

    /// Counts the leaves and tables from `first` to `last`, as [`count`](crate::read::count) does. An entry may be read twice.
    pub fn count(&self, range: (Va, Va)) -> Stats {
        count_live(&self.live(), self.geometry(), self.tables.root(), range)
    }

    /// Counts what a collapse would leave from `first` to `last`, as [`count_collapsed`] does.
    pub fn count_collapsed(&self, range: (Va, Va)) -> Stats {
        count_collapsed(&self.live(), self.geometry(), self.tables.root(), range)
            .unwrap_or_else(|e| match e {})
    }

    /// Prints a region, as [`dump`](crate::read::dump) does.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump(&self, region: MarkedRange, out: &mut impl Write) -> Result<Stats, fmt::Error> {
        self.dump_with(region, &|memory_type| memory_type.name(), out)
    }

    /// Prints a region with memory types named by the caller, as [`dump_with`] does.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump_with(
        &self,
        region: MarkedRange,
        name_of: &dyn Fn(MemoryType) -> Option<&'static str>,
        out: &mut impl Write,
    ) -> Result<Stats, fmt::Error> {
        let dumped = dump_with(&self.live(), self.geometry(), self.tables.root(), region, name_of, out);
        dumped.map_err(|e| match e {
            DumpError::Write => fmt::Error,
            DumpError::Read(e) => match e {},
        })
    }

    /// Checks the tables for entries that must never be in a map, as [`check`] does.
    pub fn check(
        &self,
        checks: &Checks<'_>,
        each: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let root = (self.tables.root(), self.tables.half());
        check(&self.live(), self.geometry(), root, checks, each).unwrap_or_else(|e| match e {})
    }

    const fn geometry(&self) -> Geometry {
        self.tables.geometry()
    }

    /// Goes down to the entry that translates an address, which is so many bytes above the map's first one. Returns it with log2 of
    /// the bytes that it spans, and its level.
    #[inline(always)]
    fn last_entry(&self, from_base: u64) -> (Descriptor, u32, Level) {
        let (g, tables) = (self.geometry(), self.live());
        let (mut table, mut shift, mut level) = (self.tables.root(), self.tables.root_shift(), g.root());
        loop {
            let index = (from_base >> shift) as usize & ((1 << g.index_bits()) - 1);
            let entry = tables.slots(table).load(index);
            if shift == g.page_shift() || !entry.is_link() {
                return (entry, shift, level);
            }
            (table, shift, level) = (entry.next_table(g), shift - g.index_bits(), level.down(1));
        }
    }

    /// Returns the tables, for as long as the section lasts.
    pub(crate) fn live(&self) -> Live<'a, M> {
        // SAFETY: only tables below the root of this map are read. They are live, or were when the section began, and
        // are not given back before it ends. A memory that they do not belong to refuses them.
        unsafe { Live::new(self.memory) }
    }
}
