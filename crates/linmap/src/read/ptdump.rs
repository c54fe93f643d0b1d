//! The text of Linux's `kernel_page_tables`, byte for byte.
//!
//! Adjacent entries share a line if their level and the printed bits are equal; output addresses are not compared. A
//! hole is printed at the level where it was found. Levels are named as in Linux, which folds unused ones.
//!
//! As in Linux, bits are printed without regard to their meaning. An invalid page is a line with `F` if any printed bit
//! is set, and its bit 11 is `NG`, although there it is the software-present bit. Linux up to 6.17 does not set that
//! bit in its own map.

use core::fmt::{self, Write};
use core::ops::ControlFlow;

use crate::format::{Attributes, Entry, Geometry, Level, MemoryType, OaFormat, Pa, Va};
use crate::plan::{Stats, linear_range};
use crate::read::reader::ReadTables;
use crate::read::walk::{Visited, visit};

/// A printed region: its first and last address, and the lines before and after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MarkedRange {
    /// First and last address, both included.
    pub range: (Va, Va),
    /// The name in the line before the region, without its dashes.
    pub start: &'static str,
    /// The name in the line after the region.
    pub end: &'static str,
}

impl MarkedRange {
    /// Returns the region of the linear map.
    pub const fn linear_map(geometry: Geometry) -> Self {
        let range = linear_range(geometry);
        Self { range, start: "Linear Mapping start", end: "Linear Mapping end" }
    }
}

/// The reason why a dump ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DumpError<E> {
    /// A table could not be read. Everything before it has been printed.
    Read(E),
    /// The text could not be written.
    Write,
}

/// Prints one region of the tables below `root`. Returns the counts of the printed leaves and tables.
///
/// # Errors
///
/// A table that cannot be read, or a writer that fails.
pub fn dump<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    region: MarkedRange,
    out: &mut impl Write,
) -> Result<Stats, DumpError<R::Error>> {
    dump_with(reader, geometry, root, region, &|memory_type| memory_type.name(), out)
}

/// Does the same as [`dump`], with names of memory types from the caller, for example for a MAIR_EL1 that differs from
/// that of Linux ([`Mair::name`](crate::arch::Mair::name)).
///
/// # Errors
///
/// As for [`dump`].
pub fn dump_with<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    root: Pa,
    region: MarkedRange,
    name_of: &dyn Fn(MemoryType) -> Option<&'static str>,
    out: &mut impl Write,
) -> Result<Stats, DumpError<R::Error>> {
    writeln!(out, "---[ {} ]---", region.start).map_err(|_| DumpError::Write)?;
    let mut lines = Lines { out: &mut *out, geometry, name_of, line: None };
    let mut stats = Stats::ROOT;
    let walked = visit(reader, geometry, root, region.range, |visited| {
        stats.add_entry(visited.level, visited.entry);
        match lines.entry(visited.va, visited.level, Shown::of(geometry, visited)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(fmt::Error) => ControlFlow::Break(()),
        }
    });
    let walked = match (walked, lines.finish()) {
        (Ok(flow), Ok(())) => flow,
        (Err(e), _) => return Err(DumpError::Read(e)),
        (_, Err(fmt::Error)) => return Err(DumpError::Write),
    };
    match (walked, writeln!(out, "---[ {} ]---", region.end)) {
        (ControlFlow::Continue(()), Ok(())) => Ok(stats),
        _ => Err(DumpError::Write),
    }
}

/// The bits that distinguish leaves from tables, and valid from invalid entries.
const TYPE: u64 = 3;
const VALID: u64 = 1;
const BLOCK: u64 = 1;
/// The contiguous bit.
const CONTIGUOUS: u64 = 1 << 52;

/// The printed properties of an entry. Adjacent entries with equal properties share a line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Hole,
    Reserved,
    /// The bits of a descriptor that are printed.
    Bits(u64),
}

impl Shown {
    /// Returns the printed properties of an entry, or `None` for a table.
    fn of(geometry: Geometry, &Visited { level, entry, descriptor, .. }: &Visited) -> Option<Self> {
        let is_lpa2 = geometry.oa_format() == OaFormat::Lpa2;
        let shareable = if is_lpa2 { Attributes::empty() } else { Attributes::INNER_SHAREABLE };
        let flags = Attributes::USER
            | Attributes::READ_ONLY
            | Attributes::PXN
            | Attributes::ACCESSED
            | Attributes::NOT_GLOBAL
            | Attributes::UXN
            | Attributes::GUARDED
            | Attributes::MEMORY_TYPE;
        // Bit 1 of an invalid leaf is not compared: it says whether the leaf was global.
        let kind = if descriptor.is_valid() { TYPE } else { 0 };
        let bits = descriptor.0 & ((flags | shareable).bits() | CONTIGUOUS | kind);
        match entry {
            Entry::Table(_) => None,
            Entry::Reserved => Some(Self::Reserved),
            Entry::Leaf(_) => Some(Self::Bits(bits)),
            Entry::Hole if level == Level::PAGE && bits != 0 => Some(Self::Bits(bits)),
            Entry::Hole => Some(Self::Hole),
        }
    }
}

struct Line {
    start: u64,
    end: u64,
    level: Level,
    shown: Shown,
}

/// Merges entries into lines and prints them.
struct Lines<'a, W> {
    out: W,
    geometry: Geometry,
    name_of: &'a dyn Fn(MemoryType) -> Option<&'static str>,
    line: Option<Line>,
}

impl<W: Write> Lines<'_, W> {
    fn entry(&mut self, va: Va, level: Level, shown: Option<Shown>) -> fmt::Result {
        let Some(shown) = shown else { return Ok(()) };
        let end = va.0.wrapping_add(self.geometry.level_size(level));
        match &mut self.line {
            Some(line) if line.level == level && line.shown == shown && line.end == va.0 => {
                line.end = end;
                Ok(())
            }
            _ => {
                let new = Line { start: va.0, end, level, shown };
                let done = self.line.replace(new);
                self.print(done)
            }
        }
    }

    fn finish(mut self) -> fmt::Result {
        let last = self.line.take();
        self.print(last)
    }

    fn print(&mut self, line: Option<Line>) -> fmt::Result {
        let Some(Line { start, end, level, shown }) = line else { return Ok(()) };
        let (size, unit) = whole_units(end.wrapping_sub(start));
        let name = level_name(self.geometry, level, shown != Shown::Hole);
        write!(self.out, "{start:#018x}-{end:#018x}   {size:9}{unit} {name}")?;
        match shown {
            Shown::Hole => writeln!(self.out),
            Shown::Reserved => writeln!(self.out, " RESERVED"),
            Shown::Bits(bits) => {
                self.print_bits(bits)?;
                writeln!(self.out)
            }
        }
    }

    fn print_bits(&mut self, bits: u64) -> fmt::Result {
        let a = Attributes::from_bits_truncate(bits);
        let fields = [
            (bits & VALID == 0, "F", " "),
            (a.contains(Attributes::USER), "USR", "   "),
            (a.contains(Attributes::READ_ONLY), "ro", "RW"),
            (a.contains(Attributes::PXN), "NX", "x "),
            (a.contains(Attributes::INNER_SHAREABLE), "SHD", "   "),
            (a.contains(Attributes::ACCESSED), "AF", "  "),
            (a.contains(Attributes::NOT_GLOBAL), "NG", "  "),
            (bits & CONTIGUOUS != 0, "CON", "   "),
            (bits & TYPE == BLOCK, "BLK", "   "),
            (a.contains(Attributes::UXN), "UXN", "   "),
            (a.contains(Attributes::GUARDED), "GP", "  "),
        ];
        for (set, yes, no) in fields {
            write!(self.out, " {}", if set { yes } else { no })?;
        }
        match (self.name_of)(a.memory_type()) {
            Some(name) => write!(self.out, " {name}"),
            None => Ok(()),
        }
    }
}

/// Returns a size in the largest unit that divides it, from K to E.
fn whole_units(bytes: u64) -> (u64, char) {
    let mut size = bytes >> 10u32;
    for unit in ['K', 'M', 'G', 'T', 'P'] {
        if size == 0 || !size.is_multiple_of(1024) {
            return (size, unit);
        }
        size >>= 10u32;
    }
    (size, 'E')
}

/// Returns the name of a level, where upper levels are folded.
fn level_name(geometry: Geometry, level: Level, mapped: bool) -> &'static str {
    let names: &[&str] = match (geometry.levels(), mapped) {
        (5, _) => &["PGD", "P4D", "PUD", "PMD", "PTE"],
        (4, _) => &["PGD", "PUD", "PMD", "PTE"],
        (3, _) => &["PGD", "PMD", "PTE"],
        (_, true) => &["PMD", "PTE"],
        (_, false) => &["PGD", "PTE"],
    };
    let index = level.ordinal() - geometry.root().ordinal();
    names.get(index).copied().unwrap_or("PTE")
}
