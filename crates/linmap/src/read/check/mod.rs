//! Checks tables for entries that must never be in a map: live tables, dumps, anything that can be read.
//!
//! One pass over all tables of a half. Most entries of a map are equal to the entry before them plus the size of a
//! leaf. Such an entry costs two comparisons, and only the first of each series is examined in full. Section references
//! are to the Arm ARM (DDI 0487).

mod finding;
mod guarded;
mod run;

use core::ops::ControlFlow;

pub use finding::{Finding, RunFault};

use crate::format::{
    Attributes, Descriptor, Entry, Geometry, Half, Leaf, Level, OaFormat, Pa, Span, TableLimits, Va,
    in_place_bits,
};
use crate::plan::linear_range;
use crate::platform::Slot;
use crate::read::cursor::{Source, Stop, Visitor, visit_span};
use crate::read::reader::{ReadTables, Reading};
use crate::read::table::{Entries, Table};
use crate::read::walk::{Visited, visit};
use guarded::{Guarded, Refusal};

/// The properties of the machine that [`check`] depends on, and a limit.
///
/// ```
/// let checks = linmap::read::Checks { pa_bits: 40, ..Default::default() };
/// assert!(checks.linear_offset.is_none());
/// ```
#[derive(Clone, Copy)]
pub struct Checks<'a> {
    /// The physical address size in bits that the CPU has or TCR.IPS allows, if it is smaller than the format's.
    pub pa_bits: u32,
    /// True if the restrictions in table descriptors apply. They do not where TCR.HPD0 or HPD1 is set.
    pub hierarchical: bool,
    /// True if walkers of some CPU set the access flag or manage the dirty state (TCR_EL1.HA, HD): a leaf that they update
    /// is a finding.
    pub hardware_updates: bool,
    /// VA less PA in the linear map. If given, two more things are findings: a writable alias of memory that is
    /// read-only or executable elsewhere in the half, and a leaf of the linear map that is not at this offset. Only for
    /// the upper half.
    pub linear_offset: Option<u64>,
    /// The first and the last address of the linear map, if they are not those of [`linear_range`].
    pub linear_range: Option<(Va, Va)>,
    /// Returns true if there is RAM at an address. Tables outside RAM are not read.
    pub is_ram: Option<&'a dyn Fn(Pa) -> bool>,
    /// Returns true if it was called before for the same table, which is then not read again.
    ///
    /// That takes memory, so the caller provides it. Without it, the check still finds tables that point back to one
    /// above them and, in a linear map of known offset, memory that is mapped twice.
    pub is_known: Option<&'a dyn Fn(Pa) -> bool>,
    /// The number of slots to read before the check gives up, which is a finding.
    pub limit: u64,
}

impl Default for Checks<'_> {
    /// The address size of the format, no linear map, tables anywhere, and a limit of 2^30 slots, which are 4 TiB in 4K
    /// pages.
    fn default() -> Self {
        Self {
            pa_bits: 52,
            hierarchical: true,
            hardware_updates: false,
            linear_offset: None,
            linear_range: None,
            is_ram: None,
            is_known: None,
            limit: 1 << 30,
        }
    }
}

/// Reports everything in the tables of a half that must never be there, in address order.
///
/// `each` ends the check with `ControlFlow::Break`. Returns `Continue` if everything was checked. Invalid entries are
/// never findings.
///
/// # Errors
///
/// The reader's error for the first slot that it cannot read. The findings before that have been reported.
/// reported.
pub fn check<R: ReadTables>(
    reader: &R,
    geometry: Geometry,
    (root, half): (Pa, Half),
    checks: &Checks<'_>,
    each: impl FnMut(Finding) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, R::Error> {
    let linear = checks.linear_offset.filter(|_| half == Half::Upper).map(|offset| {
        let (first, last) = checks.linear_range.unwrap_or(linear_range(geometry));
        Linear { first, last, offset }
    });
    let (path, limits) = ([Pa(0); Level::COUNT], TableLimits::empty());
    let mut checker =
        Checker { reader, geometry, root, checks, linear, left: checks.limit, path, limits, each };
    match checker.half(half) {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(Stop::Enough) => Ok(ControlFlow::Break(())),
        Err(Stop::Read(error)) => Err(error),
    }
}

/// Returns true if EL0 or EL1 can execute it. EL1 never executes memory that EL0 can write (D8.4.1.2.3, table D8-65).
const fn is_executable(a: Attributes) -> bool {
    let written_by_el0 = a.contains(Attributes::USER) && a.is_writable();
    !a.contains(Attributes::UXN) || !(a.contains(Attributes::PXN) || written_by_el0)
}

/// Returns the bits that must be zero in a leaf whose address starts at bit `shift`, or in a table descriptor (D8.3.1).
///
/// NS and NSTable, which depend on the security state, are not included.
fn reserved_bits(geometry: Geometry, shift: u32) -> u64 {
    const PAGE_OFFSET: u64 = (1 << 12) - 1;
    let in_place = in_place_bits(geometry.oa_format());
    let elsewhere = if geometry.oa_format() == OaFormat::Lpa { 0b1111 << 12u32 } else { 0 };
    let below = ((1 << shift) - 1) & !PAGE_OFFSET & !elsewhere;
    let above = (1 << 50u32) - (1 << in_place);
    below | above
}

/// Returns the address bits beyond a size in bits.
const fn beyond(bits: u32) -> u64 {
    if bits < 64 { u64::MAX << bits } else { 0 }
}

/// The linear map: its first and last address, and VA less PA.
#[derive(Clone, Copy)]
struct Linear {
    first: Va,
    last: Va,
    offset: u64,
}

/// An entry and its place.
#[derive(Clone, Copy)]
struct Found {
    table: Pa,
    index: usize,
    va: Va,
    level: Level,
    limits: TableLimits,
    descriptor: Descriptor,
}

impl Found {
    const fn new(table: &Table, index: usize, limits: TableLimits, descriptor: Descriptor) -> Self {
        Self { table: table.pa, index, va: Va(table.va(index)), level: table.level, limits, descriptor }
    }
}

/// The state of the check of one table.
#[derive(Clone, Copy)]
struct Progress {
    /// The size of a leaf, and the bits that stay the same in a series. Only address bits change in a series, and none
    /// of them carries into another field.
    step: u64,
    fixed: u64,
    /// The next entry of the series: the entry before plus the size of a leaf.
    next: u64,
    /// The entry of the series that was examined in full.
    judged: u64,
    /// The first entry of the run that was checked last.
    run_checked: Option<usize>,
    /// The restrictions from the tables above.
    limits: TableLimits,
}

impl Progress {
    /// Returns true if an entry continues a series without findings.
    #[inline(always)]
    const fn continues(&self, bits: u64) -> bool {
        bits == self.next && (bits ^ self.judged) & self.fixed == 0
    }

    /// Starts a series with an entry that was examined, or ends the series.
    const fn series(&mut self, from: Option<u64>) {
        (self.next, self.judged) = match from {
            Some(bits) => (bits.wrapping_add(self.step), bits),
            // No entry continues this series.
            None => (0, 1),
        };
    }
}

struct Checker<'a, R, F> {
    reader: &'a R,
    geometry: Geometry,
    root: Pa,
    checks: &'a Checks<'a>,
    linear: Option<Linear>,
    /// The number of reads that are left.
    left: u64,
    /// The tables from the root down to the one being read, by level ordinal.
    path: [Pa; Level::COUNT],
    /// The restrictions on the next table.
    limits: TableLimits,
    each: F,
}

impl<R: ReadTables, F: FnMut(Finding) -> ControlFlow<()>> Checker<'_, R, F> {
    fn report(&mut self, finding: Finding) -> Result<(), Stop<R::Error>> {
        if (self.each)(finding).is_break() { Err(Stop::Enough) } else { Ok(()) }
    }

    /// Accounts for the next reads.
    fn spend(&mut self, slots: usize, va: Va) -> Result<(), Stop<R::Error>> {
        match self.left.checked_sub(slots as u64) {
            Some(left) => self.left = left,
            None => return self.give_up(va),
        }
        Ok(())
    }

    fn give_up(&mut self, va: Va) -> Result<(), Stop<R::Error>> {
        self.report(Finding::GaveUp { va, limit: self.checks.limit })?;
        Err(Stop::Enough)
    }

    fn read(&self, table: Pa, index: usize, level: Level) -> Result<Descriptor, Stop<R::Error>> {
        self.reader.entry(Slot { table, index }, level).map_err(Stop::Read)
    }

    /// Returns the finding if the table at `level` must not be read.
    fn unfit(&self, table: Pa, level: Level, va: Va) -> Option<Finding> {
        let pa_bits = self.checks.pa_bits;
        let above = &self.path[self.geometry.root().ordinal()..level.ordinal()];
        if table.0 & beyond(pa_bits) != 0 {
            Some(Finding::TableBeyondPa { va, table, level, pa_bits })
        } else if above.contains(&table) {
            Some(Finding::Loop { va, table, level })
        } else if self.checks.is_ram.is_some_and(|is_ram| !is_ram(table)) {
            Some(Finding::TableOutsideRam { va, table, level })
        } else if self.checks.is_known.is_some_and(|is_known| is_known(table)) {
            Some(Finding::SharedTable { va, table, level })
        } else {
            None
        }
    }

    /// Checks the root and all tables below it.
    fn half(&mut self, half: Half) -> Result<(), Stop<R::Error>> {
        let (g, base) = (self.geometry, self.geometry.base(half));
        if let Some(finding) = self.unfit(self.root, g.root(), Va(base)) {
            return self.report(finding);
        }
        self.spend(g.entries(g.root()), Va(base))?;
        let span = Span { first: base, last: base + ((1 << g.va_bits()) - 1) };
        let source = Reading { reader: self.reader, geometry: g };
        visit_span(&source, &Table::root(self.root, g, base), span, self)
    }

    /// Checks the run that contains an entry, if there is one.
    fn run_fits(&mut self, found: Found, progress: &mut Progress) -> Result<bool, Stop<R::Error>> {
        if (found.descriptor.0 | progress.next) & CONTIGUOUS == 0 {
            return Ok(true);
        }
        self.run(found, &mut progress.run_checked)
    }

    /// Checks an entry that is not a table descriptor. Returns true if it can start a series, so that the next entry
    /// needs no examination if it equals this one plus the size of a leaf.
    #[inline(never)]
    fn entry(&mut self, found: Found, progress: &mut Progress) -> Result<bool, Stop<R::Error>> {
        let run_fits = self.run_fits(found, progress)?;
        let Found { va, level, descriptor, .. } = found;
        match descriptor.decode(self.geometry, level) {
            Entry::Leaf(leaf) if leaf.valid => Ok(self.leaf(found, leaf)? && run_fits),
            Entry::Hole | Entry::Leaf(_) | Entry::Table(_) => Ok(false),
            Entry::Reserved => {
                self.report(Finding::Reserved { va, level, descriptor })?;
                Ok(false)
            }
        }
    }

    /// Checks a table descriptor. Returns true if the table is to be read.
    #[inline(never)]
    fn link(&mut self, found: Found, progress: &mut Progress) -> Result<bool, Stop<R::Error>> {
        self.run_fits(found, progress)?;
        progress.series(None);
        let (g, Found { va, level, descriptor, .. }) = (self.geometry, found);
        self.no_reserved_bits(found, reserved_bits(g, g.page_shift()) | TABLE_RESERVED)?;
        let (table, below) = (descriptor.next_table(g), level.next());
        if let Some(finding) = self.unfit(table, below, va) {
            self.report(finding)?;
            return Ok(false);
        }
        let limits =
            if self.checks.hierarchical { TableLimits::of(descriptor) } else { TableLimits::empty() };
        self.limits = progress.limits | limits;
        self.spend(g.entries(below), va)?;
        Ok(true)
    }

    fn no_reserved_bits(&mut self, found: Found, reserved: u64) -> Result<bool, Stop<R::Error>> {
        let Found { va, level, descriptor, .. } = found;
        let bits = descriptor.0 & reserved;
        if bits != 0 {
            self.report(Finding::ReservedBits { va, level, descriptor, bits })?;
        }
        Ok(bits == 0)
    }

    /// Checks a valid leaf, but not its run.
    fn leaf(&mut self, found: Found, leaf: Leaf) -> Result<bool, Stop<R::Error>> {
        let (g, Found { va, level, limits, .. }, oa) = (self.geometry, found, leaf.oa);
        let mut reserved = reserved_bits(g, g.level_shift(level));
        if g.contiguous_entries(level) == 1 {
            reserved |= CONTIGUOUS;
        }
        let mut fine = self.no_reserved_bits(found, reserved)?;
        let pa_bits = self.checks.pa_bits;
        if (oa.0 | (g.level_size(level) - 1)) & beyond(pa_bits) != 0 {
            fine = false;
            self.report(Finding::LeafBeyondPa { va, oa, level, pa_bits })?;
        }
        if self.checks.hardware_updates && leaf.attributes.is_hardware_updated() {
            fine = false;
            self.report(Finding::HardwareUpdated { va, level, descriptor: found.descriptor })?;
        }
        let attributes = limits.restrict(leaf.attributes);
        let (writable, executable) = (attributes.is_writable(), is_executable(attributes));
        if writable && executable {
            fine = false;
            self.report(Finding::WritableAndExecutable { va, oa, level })?;
        }
        let Some(linear) = self.linear else { return Ok(fine) };
        if linear.first <= va && va <= linear.last {
            let expected = Va(oa.0.wrapping_add(linear.offset));
            if expected != va {
                fine = false;
                self.report(Finding::NotLinear { va, oa, level, expected })?;
            }
        } else if !writable || executable {
            fine = false;
            self.aliases(linear, found, oa, executable)?;
        }
        Ok(fine)
    }

    /// Reports the parts of a leaf's memory that are writable through the linear map.
    fn aliases(
        &mut self,
        linear: Linear,
        found: Found,
        oa: Pa,
        executable: bool,
    ) -> Result<(), Stop<R::Error>> {
        let (g, Found { va, level, .. }) = (self.geometry, found);
        let start = oa.0.wrapping_add(linear.offset);
        let first = start.max(linear.first.0);
        let last = start.saturating_add(g.level_size(level) - 1).min(linear.last.0);
        if last < first {
            return Ok(());
        }
        let (hierarchical, each) = (self.checks.hierarchical, &mut self.each);
        let mut report = |(from, to): (u64, u64)| {
            let (alias, bytes) = (Va(from), to - from + 1);
            each(Finding::WritableAlias { va, oa, level, executable, alias, bytes })
        };
        // The first and the last address of adjacent writable entries.
        let mut piece: Option<(u64, u64)> = None;
        let Checks { is_ram, pa_bits, .. } = *self.checks;
        let reader = Guarded::new(self.reader, is_ram, beyond(pa_bits), self.left);
        let walked = visit(&reader, g, self.root, (Va(first), Va(last)), |visited| {
            let &Visited { va: Va(at), level, entry: Entry::Leaf(alias), limits, .. } = visited else {
                return ControlFlow::Continue(());
            };
            let attributes = if hierarchical { limits.restrict(alias.attributes) } else { alias.attributes };
            let is_alias = alias.oa.0.wrapping_add(linear.offset) == at;
            if !alias.valid || !is_alias || !attributes.is_writable() {
                return ControlFlow::Continue(());
            }
            let (from, to) = (at.max(first), (at + (g.level_size(level) - 1)).min(last));
            match &mut piece {
                Some((_, end)) if *end + 1 == from => *end = to,
                _ => {
                    if let Some(done) = piece.replace((from, to)) {
                        return report(done);
                    }
                }
            }
            ControlFlow::Continue(())
        });
        let told = piece.map_or(ControlFlow::Continue(()), &mut report);
        self.left = reader.left();
        match walked {
            _ if told.is_break() => Err(Stop::Enough),
            Ok(ControlFlow::Break(())) => Err(Stop::Enough),
            Ok(ControlFlow::Continue(())) | Err(Refusal::Unfit) => Ok(()),
            Err(Refusal::Limit) => self.give_up(va),
            Err(Refusal::Read(error)) => Err(Stop::Read(error)),
        }
    }

    /// Checks the run that contains an entry, unless it was checked before.
    fn run(&mut self, found: Found, checked: &mut Option<usize>) -> Result<bool, Stop<R::Error>> {
        let Found { table, index, va, level, .. } = found;
        let g = self.geometry;
        let members = g.contiguous_entries(level);
        let start = index - index % members;
        if members == 1 || *checked == Some(start) {
            // Entries of an inconsistent run start no series, so each of them is examined.
            return Ok(members == 1);
        }
        *checked = Some(start);
        let step = g.level_size(level);
        let va = Va(va.0 - (index - start) as u64 * step);
        self.spend(members, va)?;
        let found = run::fault(g, level, |member| self.read(table, start + member, level))?;
        let Some((fault, member)) = found else { return Ok(true) };
        let member = Va(va.0 + member as u64 * step);
        self.report(Finding::BrokenRun { va, level, fault, member })?;
        Ok(false)
    }
}

impl<R: ReadTables, F: FnMut(Finding) -> ControlFlow<()>> Visitor<Reading<'_, R>> for Checker<'_, R, F> {
    type Stop = Stop<R::Error>;
    type Scratch = Progress;

    fn begin(&mut self, table: &Table) -> Progress {
        self.path[table.level.ordinal()] = table.pa;
        let in_place = in_place_bits(self.geometry.oa_format());
        let fixed = !(beyond(table.shift) & !beyond(self.checks.pa_bits.min(in_place)));
        let (step, limits) = (1 << table.shift, self.limits);
        Progress { step, fixed, next: 0, judged: 1, run_checked: None, limits }
    }

    #[inline(always)]
    fn leaves(
        &mut self,
        source: &Reading<'_, R>,
        progress: &mut Progress,
        Entries { table, mut index, last, mut entry }: Entries<'_>,
    ) -> Result<usize, Self::Stop> {
        while progress.continues(entry.0) {
            progress.next = entry.0.wrapping_add(progress.step);
            index += 1;
            if index > last {
                return Ok(index);
            }
            entry = source.load(table, index)?;
        }
        if entry.is_table(table.level) {
            return Ok(index);
        }
        let continues = self.entry(Found::new(table, index, progress.limits, entry), progress)?;
        progress.series(continues.then_some(entry.0));
        Ok(index + 1)
    }

    fn enter(
        &mut self,
        _: &Reading<'_, R>,
        progress: &mut Progress,
        Entries { table, index, entry, .. }: Entries<'_>,
    ) -> Result<bool, Self::Stop> {
        self.link(Found::new(table, index, progress.limits, entry), progress)
    }
}

/// The contiguous bit of a leaf.
const CONTIGUOUS: u64 = 1 << 52;
/// Bit 50 of a table descriptor, which must be zero. In a leaf it is GP.
const TABLE_RESERVED: u64 = 1 << 50;
