//! The library's check with all facts that the source has of the machine: its RAM, its physical addresses, the place
//! of the linear map, and the effect of table restrictions. Then mappings of the same memory outside of the linear map.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::ops::ControlFlow;

use linmap::arch::Entry;
use linmap::cpu::Features;
use linmap::read::{Checks, Finding};
use linmap::{Half, Pa, Va};
use serde_json::{Value, json};

use crate::commands::names::Names;
use crate::commands::reading::{Failure, hex};
use crate::commands::selection::{Part, Selection};
use crate::linux::regions::{self, Name, Regions};
use crate::map::linear;
use crate::map::mappings::{Contradiction, Kind, sweep};
use crate::map::permissions::in_words;
use crate::map::stretches::{self, Permissions, words};
use crate::map::view::{View, WalkError};

/// The most findings that are kept; the others are counted.
const MAX_LISTED: usize = 100_000;
/// TCR.HPD1: table restrictions have no effect in the upper half.
const HPD1: u64 = 1 << 42;

/// A mapping that must not be there.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Found {
    /// One that the library's check finds.
    Entry(Finding),
    /// Two of the same memory that contradict each other.
    Pair(Contradiction),
}

/// The result of a check.
pub(super) struct Findings {
    /// The findings in order of address, those of pairs after the others, each with its region.
    pub(super) list: Vec<(&'static str, Found)>,
    /// The number of findings, kept or not.
    pub(super) count: u64,
    /// The number of tables that were checked.
    pub(super) tables: usize,
    /// Notes that are not findings.
    pub(super) notes: Vec<String>,
    /// The table that could not be read; nothing below it was checked.
    pub(super) ended_by: Option<WalkError>,
}

impl Findings {
    /// Checks all tables of a view, and keeps the findings at these addresses.
    pub(super) fn of(view: &View<'_>, regions: &Regions, parts: &[Part]) -> Result<Self, Failure> {
        let mut notes = Vec::new();
        if view.saved.is_some() {
            notes.push(
                "tables themselves are not saved: those outside RAM, shared, in a loop or with reserved bits were \
                 not looked for"
                    .to_owned(),
            );
        }
        let linear_offset = linear_offset(view, &mut notes).map_err(Failure::walk(view))?;
        let tables = RefCell::new(HashSet::new());
        let is_known = |table: Pa| !tables.borrow_mut().insert(table);
        let memory = view.tables.map(|tables| &tables.memory);
        let is_ram = |pa: Pa| memory.and_then(|memory| memory.is_ram(pa)).unwrap_or(true);
        let checks = Checks {
            pa_bits: pa_bits(view),
            hierarchical: view.cpu.tcr.is_none_or(|tcr| tcr & HPD1 == 0),
            // HA and HD.
            hardware_updates: view.cpu.tcr.is_some_and(|tcr| tcr & (1 << 39u32 | 1 << 40u32) != 0),
            linear_offset,
            linear_range: None,
            is_ram: Some(&is_ram),
            is_known: Some(&is_known),
            limit: view.limit(),
        };
        let mut found = Self { list: Vec::new(), count: 0, tables: 0, notes, ended_by: None };
        let mut excused = Excused::default();
        let half = (view.root, Half::Upper);
        let ended = linmap::read::check(&view.bounded(), view.geometry, half, &checks, |finding| {
            if Selection::has(parts, entry_address(&finding)) && !excused.takes(&finding, regions) {
                found.add(regions.name_at(entry_address(&finding)), Found::Entry(finding));
            }
            ControlFlow::Continue(())
        });
        found.ended_by = ended.err();
        found.tables = tables.borrow().len();
        found.notes.extend(excused.notes());
        if view.has_addresses && found.ended_by.is_none() {
            found.compare(view, regions, parts);
        }
        Ok(found)
    }

    /// Adds the mappings of the same memory that contradict each other.
    fn compare(&mut self, view: &View<'_>, regions: &Regions, parts: &[Part]) {
        let rows = match stretches::of(view, view.extent, Permissions::Effective) {
            Ok(rows) => rows,
            // Tables that are in a loop are findings already.
            Err(why) => {
                let why = Failure::rows(view)(why);
                self.notes.push(format!("mappings of the same memory were not compared: {why}"));
                return;
            }
        };
        let mut not_cached = 0;
        sweep(&rows, |pair| {
            if !pair.vas.iter().any(|va| Selection::has(parts, *va)) {
                return;
            }
            let is_linear = pair.vas.iter().any(|va| regions.of_address(*va) == Some(Name::Linear));
            match pair.kind {
                // The library finds what is writable in the linear map.
                Kind::WrittenAndExecuted if is_linear => {}
                Kind::CachedAndNot => not_cached += pair.bytes,
                _ => self.add(regions.name_at(address(&Found::Pair(pair))), Found::Pair(pair)),
            }
        });
        if not_cached != 0 {
            self.notes.push(format!(
                "{} of memory are mapped as Normal-NC and as cached memory, too: Linux maps its pool for devices that do not \
                 snoop so, and cleans the caches",
                crate::size::human(not_cached)
            ));
        }
    }

    fn add(&mut self, region: &'static str, finding: Found) {
        self.count += 1;
        if self.list.len() < MAX_LISTED {
            self.list.push((region, finding));
        }
    }
}

/// Aliases of data that are not findings: read-only, not executed, and writable in the linear map.
#[derive(Default)]
struct Excused {
    /// In the fixmap: the device tree, which is data.
    fixmap: u64,
    /// Above the linear map of a kernel whose fixmap is not known.
    unknown: u64,
}

impl Excused {
    /// Counts a finding that is excused; returns false for any other.
    fn takes(&mut self, finding: &Finding, regions: &Regions) -> bool {
        if !is_alias_of_data(finding) {
            return false;
        }
        let in_fixmap = regions.of_address(entry_address(finding)) == Some(Name::Fixmap);
        let is_unknown = regions.get(Name::Fixmap).is_none();
        self.fixmap += u64::from(in_fixmap);
        self.unknown += u64::from(!in_fixmap && is_unknown);
        in_fixmap || is_unknown
    }

    /// Returns a note for each kind that was counted.
    fn notes(&self) -> impl Iterator<Item = String> {
        let entries = |count| if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
        let fixmap = (self.fixmap > 0).then(|| {
            format!(
                "read-only in the fixmap and writable in the linear map: {}; the device tree is mapped so, and is data",
                entries(self.fixmap)
            )
        });
        let unknown = (self.unknown > 0).then(|| {
            format!(
                "read-only above the linear map and writable in it: {}; no findings, as the kernel's release and \
                 layout are not known, and its device tree may be mapped so",
                entries(self.unknown)
            )
        });
        fixmap.into_iter().chain(unknown)
    }
}

/// Returns VA minus PA of the linear map; adds a note if VMCOREINFO has another value.
fn linear_offset(view: &View<'_>, notes: &mut Vec<String>) -> Result<Option<u64>, WalkError> {
    if !view.has_addresses {
        notes.push("a text dump has no output addresses: aliases were not looked for".to_owned());
        return Ok(None);
    }
    let offset = linear::offset(view)?;
    let told = view.kernel.linear_offset(view.geometry);
    match (offset, told) {
        (Some(offset), Some(told)) if offset != told => notes.push(format!(
            "VMCOREINFO puts the linear map at its memory plus {told:#x}, its leaves at plus {offset:#x}; the \
             leaves are believed"
        )),
        (Some(_), _) if is_beyond_half(view)? => notes.push(
            "the linear map goes on beyond the lower half of the addresses; aliases there were not looked for"
                .to_owned(),
        ),
        (None, _) => notes.push("nothing is mapped in the linear map: aliases were not looked for".to_owned()),
        _ => {}
    }
    Ok(offset)
}

/// Returns true if a kernel with 52 VA bits has leaves in the upper half of its linear map.
fn is_beyond_half(view: &View<'_>) -> Result<bool, WalkError> {
    let ((_, half), (_, end)) = (linmap::layout::linear_range(view.geometry), regions::linear(view.geometry));
    let rest = (Va(half.0.wrapping_add(1)), end);
    let flow = linmap::read::visit(
        &view.bounded(),
        view.geometry,
        view.root,
        rest,
        |&linmap::read::Visited { entry, .. }| match entry {
            Entry::Leaf(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        },
    )?;
    Ok(flow.is_break())
}

/// Returns the bits of physical addresses, if a register shows them.
fn pa_bits(view: &View<'_>) -> u32 {
    let format = view.geometry.oa_bits();
    view.cpu.mmfr0.map_or(format, |mmfr0| Features { mmfr0, ..Features::default() }.pa_bits().min(format))
}

/// Returns true for read-only memory that is not executed, and writable in the linear map.
const fn is_alias_of_data(finding: &Finding) -> bool {
    matches!(finding, Finding::WritableAlias { executable: false, .. })
}

/// Returns the address of a finding: of two mappings, that outside of the linear map, which is the higher one.
pub(super) fn address(found: &Found) -> Va {
    match found {
        Found::Entry(finding) => entry_address(finding),
        Found::Pair(pair) => pair.vas[0].max(pair.vas[1]),
    }
}

fn entry_address(finding: &Finding) -> Va {
    match *finding {
        Finding::WritableAndExecutable { va, .. }
        | Finding::HardwareUpdated { va, .. }
        | Finding::WritableAlias { va, .. }
        | Finding::NotLinear { va, .. }
        | Finding::BrokenRun { va, .. }
        | Finding::Reserved { va, .. }
        | Finding::ReservedBits { va, .. }
        | Finding::LeafBeyondPa { va, .. }
        | Finding::TableBeyondPa { va, .. }
        | Finding::TableOutsideRam { va, .. }
        | Finding::Loop { va, .. }
        | Finding::SharedTable { va, .. }
        | Finding::GaveUp { va, .. } => va,
        _ => Va(0),
    }
}

/// Returns the kind of a finding: its name in documents, and for people.
pub(super) const fn kind(found: &Found) -> (&'static str, &'static str) {
    let finding = match found {
        Found::Entry(finding) => finding,
        Found::Pair(pair) => return pair_kind(pair.kind),
    };
    match finding {
        Finding::WritableAndExecutable { .. } => ("writable_and_executable", "writable and executable"),
        Finding::HardwareUpdated { .. } => ("hardware_updated", "leaf that walkers update"),
        Finding::WritableAlias { executable: true, .. } => {
            ("writable_alias_of_code", "code that is writable in the linear map")
        }
        Finding::WritableAlias { .. } => {
            ("writable_alias_of_constants", "read-only memory that is writable in the linear map")
        }
        Finding::NotLinear { .. } => ("not_linear", "leaf of the linear map at another offset"),
        Finding::BrokenRun { .. } => ("broken_run", "broken contiguous run"),
        Finding::Reserved { .. } => ("reserved", "descriptor without a meaning"),
        Finding::ReservedBits { .. } => ("reserved_bits", "reserved bits"),
        Finding::LeafBeyondPa { .. } => ("leaf_beyond_pa", "leaf beyond the physical addresses"),
        Finding::TableBeyondPa { .. } => ("table_beyond_pa", "table beyond the physical addresses"),
        Finding::TableOutsideRam { .. } => ("table_outside_ram", "table outside RAM"),
        Finding::Loop { .. } => ("loop", "tables in a loop"),
        Finding::SharedTable { .. } => ("shared_table", "table that is used twice"),
        Finding::GaveUp { .. } => ("gave_up", "not everything was looked at"),
        _ => ("other", "other"),
    }
}

const fn pair_kind(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::WrittenAndExecuted => ("writable_and_executable_elsewhere", "code that is writable elsewhere"),
        Kind::DeviceAndNormal => ("device_and_normal", "Device and Normal memory at once"),
        Kind::CachedAndNot => ("cached_and_not", "cached memory and not"),
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pair = match self {
            Self::Entry(finding) => return finding.fmt(f),
            Self::Pair(pair) => pair,
        };
        let of = |index: usize| {
            let attributes = pair.attributes[index];
            let what = match pair.kind {
                Kind::WrittenAndExecuted => in_words(attributes),
                _ => words(attributes, false, true),
            };
            format!("{} ({what})", pair.vas[index])
        };
        write!(f, "{:#x} bytes at {} are mapped at {} and at {}", pair.bytes, pair.pa, of(0), of(1))
    }
}

/// Returns one finding of a document.
pub(super) fn document((region, finding): &(&'static str, Found), names: &Names) -> Value {
    json!({
        "kind": kind(finding).0,
        "region": region,
        "va": hex(address(finding).0),
        "symbol": names.name(address(finding)),
        "text": finding.to_string(),
    })
}
