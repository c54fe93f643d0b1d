//! Gathers evidence from tables and source, for `linux::explanation`.

use std::ops::{ControlFlow, Range};

use linmap::arch::Entry;
use linmap::{Pa, Va};

use super::survey::Survey;
use crate::linux::evidence::{Evidence, Seen};
use crate::linux::invalid::Context;
use crate::linux::regions::{self, Name, Regions};
use crate::linux::release::Release;
use crate::map::image::Image;
use crate::map::permissions::el1_executes;
use crate::map::runs::descend_runs;
use crate::map::view::{View, WalkError};

/// The most pieces of code that are checked; all of them tell the same.
const ENOUGH: usize = 1000;

/// Returns all evidence.
pub(super) fn evidence(
    view: &View<'_>,
    survey: &Survey,
    image: Option<&Image>,
    regions: &Regions,
) -> Result<Evidence, WalkError> {
    let aliases = |memory: &[Range<Pa>]| aliases(view, survey.offset, memory);
    let constant = image.and_then(Image::constant);
    let data = image.map(data).unwrap_or_default();
    let code = if view.has_addresses { code_elsewhere(view, image, regions)? } else { Vec::new() };
    let (image_alias, data_alias) = (aliases(constant.as_slice())?, aliases(&data)?);
    let other_aliases = aliases(&code)?;
    let release = crate::commands::reading::release(view);
    let bytes = survey.stats.bytes(view.geometry);
    let version = release.as_ref().map(Release::version);
    let context = Context { page: view.geometry.page_size(), covered: bytes, data, version };
    Ok(Evidence {
        release,
        command_line: view.kernel.command_line.clone(),
        midrs: view.cpu.midrs.clone(),
        mmfr2: view.cpu.mmfr2,
        bytes,
        large: survey.large,
        invalid: survey.invalid.kinds(&context),
        text: image.map(text).unwrap_or_default(),
        image_alias,
        data_alias,
        other_aliases,
    })
}

/// Returns the memory of the image's data and bss.
fn data(image: &Image) -> Vec<Range<Pa>> {
    let writable = image.segments.iter().filter(|segment| segment.attributes.is_writable());
    writable.map(|segment| segment.pa..Pa(segment.pa.0.saturating_add(segment.bytes))).collect()
}

/// Returns the permissions of the kernel's text at its own addresses.
fn text(image: &Image) -> Seen {
    let mut seen = Seen::default();
    for segment in image.segments.iter().filter(|segment| el1_executes(segment.attributes)) {
        if segment.attributes.is_writable() {
            seen.writable += segment.bytes;
        } else {
            seen.read_only += segment.bytes;
        }
    }
    seen
}

/// Returns the permissions of several ranges of memory in the linear map, together.
fn aliases(view: &View<'_>, offset: u64, memory: &[Range<Pa>]) -> Result<Seen, WalkError> {
    let mut all = Seen::default();
    for range in memory {
        let seen = alias(view, offset, range.clone())?;
        all.read_only += seen.read_only;
        all.writable += seen.writable;
    }
    Ok(all)
}

/// Returns the permissions of some memory in the linear map.
fn alias(view: &View<'_>, offset: u64, memory: Range<Pa>) -> Result<Seen, WalkError> {
    let mut seen = Seen::default();
    let first = Va(memory.start.0.wrapping_add(offset));
    let last = Va(memory.end.0.wrapping_add(offset).wrapping_sub(1));
    let (start, end) = regions::linear(view.geometry);
    if first < start || last > end || last < first {
        return Ok(seen);
    }
    let _ = descend_runs(view, (first, last), |entries| {
        let found = entries.first;
        let Entry::Leaf(leaf) = found.entry else { return ControlFlow::Continue(()) };
        if leaf.valid && leaf.oa.0.wrapping_add(offset) == found.va.0 {
            let from = found.va.max(first);
            let to = Va(found.va.0 + (entries.bytes - 1)).min(last);
            let writable = found.limits.restrict(leaf.attributes).is_writable();
            *(if writable { &mut seen.writable } else { &mut seen.read_only }) += to.0 - from.0 + 1;
        }
        ControlFlow::Continue(())
    })?;
    Ok(seen)
}

/// Returns the memory of read-only code of modules and BPF. Read-only memory that is not code can have been mapped so
/// from the start, and then proves nothing.
fn code_elsewhere(
    view: &View<'_>,
    image: Option<&Image>,
    regions: &Regions,
) -> Result<Vec<Range<Pa>>, WalkError> {
    let own = image.map(Image::memory).unwrap_or(Pa(0)..Pa(0));
    let (_, linear_last) = regions::linear(view.geometry);
    let above = vec![(Va(linear_last.0.saturating_add(1)), Va(u64::MAX))];
    let known = [Name::Modules, Name::Vmalloc].map(|name| regions.get(name));
    let places = match known {
        [Some(modules), Some(vmalloc)] => [modules, vmalloc].map(|r| (r.first, r.last)).to_vec(),
        _ => above,
    };
    let mut code: Vec<Range<Pa>> = Vec::new();
    for place in places {
        let _ = descend_runs(view, place, |entries| {
            let found = entries.first;
            let Entry::Leaf(leaf) = found.entry else { return ControlFlow::Continue(()) };
            let attributes = found.limits.restrict(leaf.attributes);
            let end = Pa(leaf.oa.0.saturating_add(entries.bytes));
            let is_own = leaf.oa < own.end && own.start < end;
            if !leaf.valid || attributes.is_writable() || !el1_executes(attributes) || is_own {
                return ControlFlow::Continue(());
            }
            match code.last_mut() {
                Some(last) if last.end == leaf.oa => last.end = end,
                _ => code.push(leaf.oa..end),
            }
            if code.len() < ENOUGH { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
    }
    Ok(code)
}
