//! The library's check with all that the source knows of the machine: its RAM, its physical addresses, where
//! the linear map is, and whether restrictions of tables count.

use std::cell::RefCell;
use std::collections::HashSet;
use std::ops::ControlFlow;

use linmap::{Checks, Entry, Features, Finding, Half, Pa, Va};
use serde_json::{Value, json};

use crate::commands::reading::{Failure, hex};
use crate::linux::regions::{self, Name, Regions};
use crate::map::linear;
use crate::map::view::{View, WalkError};

/// As many findings are kept; the others are counted.
const MOST: usize = 100_000;
/// TCR.HPD1: the restrictions of tables do not count in the upper half.
const HPD1: u64 = 1 << 42;

/// What a check came to.
pub(super) struct Findings {
    /// The findings with the region that each is in, in address order.
    pub(super) list: Vec<(&'static str, Finding)>,
    /// How many there are, kept or not.
    pub(super) count: u64,
    /// How many tables were looked at.
    pub(super) tables: usize,
    /// What is no finding, but should be known.
    pub(super) notes: Vec<String>,
    /// A table could not be read, and what is behind it was not looked at.
    pub(super) ended_by: Option<WalkError>,
}

impl Findings {
    pub(super) fn of(view: &View<'_>, regions: &Regions) -> Result<Self, Failure> {
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
            linear_offset,
            is_ram: Some(&is_ram),
            is_known: Some(&is_known),
            limit: view.limit(),
        };
        let mut found = Self { list: Vec::new(), count: 0, tables: 0, notes, ended_by: None };
        let (mut fixed, mut unknown) = (0, 0);
        let half = (view.root, Half::Upper);
        let ended = linmap::check(&view.bounded(), view.geometry, half, &checks, |finding| {
            let region = regions.name_at(address(&finding));
            let data = is_alias_of_data(&finding);
            if data && regions.of_address(address(&finding)) == Some(Name::Fixmap) {
                fixed += 1;
            } else if data && regions.get(Name::Fixmap).is_none() {
                unknown += 1;
            } else {
                found.count += 1;
                if found.list.len() < MOST {
                    found.list.push((region, finding));
                }
            }
            ControlFlow::Continue(())
        });
        found.ended_by = ended.err();
        found.tables = tables.borrow().len();
        let entries = |count| if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") };
        if fixed > 0 {
            found.notes.push(format!(
                "read-only in the fixmap and writable in the linear map: {}; the device tree is mapped so, and is data",
                entries(fixed)
            ));
        }
        if unknown > 0 {
            found.notes.push(format!(
                "read-only above the linear map and writable in it: {}; no findings, as the kernel's release and \
                 layout are not known, and its device tree may be mapped so",
                entries(unknown)
            ));
        }
        Ok(found)
    }
}

/// VA less PA, as the linear map has it; a word if VMCOREINFO has another.
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

/// Whether the linear map of a kernel with 52 VA bits has leaves in the upper half of them.
fn is_beyond_half(view: &View<'_>) -> Result<bool, WalkError> {
    let ((_, half), (_, end)) = (linmap::linear_range(view.geometry), regions::linear(view.geometry));
    let rest = (Va(half.0.wrapping_add(1)), end);
    let flow = linmap::visit(&view.bounded(), view.geometry, view.root, rest, |_, _, entry| match entry {
        Entry::Leaf(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    Ok(flow.is_break())
}

/// The size of physical addresses, where a register shows it.
fn pa_bits(view: &View<'_>) -> u32 {
    let format = view.geometry.oa_bits();
    view.cpu.mmfr0.map_or(format, |mmfr0| Features { mmfr0, ..Features::default() }.pa_bits().min(format))
}

/// Whether it is read-only memory that is not executed and writable in the linear map.
const fn is_alias_of_data(finding: &Finding) -> bool {
    matches!(finding, Finding::WritableAlias { executable: false, .. })
}

/// Where a finding is.
pub(super) fn address(finding: &Finding) -> Va {
    match *finding {
        Finding::WritableAndExecutable { va, .. }
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

/// What kind of finding it is: its name in documents, and for people.
pub(super) const fn kind(finding: &Finding) -> (&'static str, &'static str) {
    match finding {
        Finding::WritableAndExecutable { .. } => ("writable_and_executable", "writable and executable"),
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

/// One finding of a document.
pub(super) fn document((region, finding): &(&'static str, Finding)) -> Value {
    json!({
        "kind": kind(finding).0,
        "region": region,
        "va": hex(address(finding).0),
        "text": finding.to_string(),
    })
}
