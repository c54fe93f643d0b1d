//! Finds the kernel image: the leaves around its `_stext` whose virtual and physical addresses differ by the offset
//! that VMCOREINFO gives (`kimage_voffset`).

use std::ops::{ControlFlow, Range};

use linmap::arch::Entry;
use linmap::{Attributes, Pa, Va};

use super::descent::descend;
use super::view::{View, WalkError};

/// The most bytes of an image before `_stext`, and after it.
const BEFORE: u64 = 2 << 20;
const BEHIND: u64 = 256 << 20;
/// More segments than an image has.
const MAX_SEGMENTS: usize = 1000;

/// The kernel's image as it is mapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    /// In order of address, at least one.
    pub(crate) segments: Vec<Segment>,
}

/// Neighbouring leaves with the same permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) va: Va,
    pub(crate) pa: Pa,
    pub(crate) bytes: u64,
    /// With the restrictions of the tables above.
    pub(crate) attributes: Attributes,
}

impl Image {
    /// Finds the image; `None` if the source does not say where it is, or nothing is mapped there.
    pub(crate) fn find(view: &View<'_>) -> Result<Option<Self>, WalkError> {
        let stext = view.kernel.info.as_ref().and_then(|info| info.symbol("_stext"));
        let Some((stext, offset)) = stext.zip(view.kernel.image_offset()) else { return Ok(None) };
        let window = (Va(stext.saturating_sub(BEFORE)), Va(stext.saturating_add(BEHIND)));
        let mut segments: Vec<Segment> = Vec::new();
        let _ = descend(&view.bounded(), view.geometry, view.root, window, |found| {
            let Entry::Leaf(leaf) = found.entry else { return ControlFlow::Continue(()) };
            if !leaf.valid || leaf.oa.0.wrapping_add(offset) != found.va.0 {
                return ControlFlow::Continue(());
            }
            let attributes = found.limits.restrict(leaf.attributes);
            let bytes = view.geometry.level_size(found.level);
            if let Some(last) = segments.last_mut()
                && last.attributes == attributes
                && last.va.0 + last.bytes == found.va.0
            {
                last.bytes += bytes;
                return ControlFlow::Continue(());
            }
            segments.push(Segment { va: found.va, pa: leaf.oa, bytes, attributes });
            if segments.len() < MAX_SEGMENTS { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        Ok((!segments.is_empty()).then_some(Self { segments }))
    }

    /// Returns its first and last address.
    pub(crate) fn range(&self) -> (Va, Va) {
        let first = self.segments.first().map_or(Va(0), |segment| segment.va);
        let last = self.segments.last().map_or(first, |segment| Va(segment.va.0 + (segment.bytes - 1)));
        (first, last)
    }

    /// Returns the memory from the first read-only segment to the end of the last: text and constants.
    pub(crate) fn constant(&self) -> Option<Range<Pa>> {
        let mut constant = self.segments.iter().filter(|segment| !segment.attributes.is_writable());
        let first = constant.next()?;
        let last = constant.next_back().unwrap_or(first);
        let end = last.pa.0.checked_add(last.bytes)?;
        (first.pa.0 < end).then_some(first.pa..Pa(end))
    }

    /// Returns all of its memory.
    pub(crate) fn memory(&self) -> Range<Pa> {
        let first = self.segments.first().map_or(Pa(0), |segment| segment.pa);
        let last = self.segments.last();
        first..last.map_or(first, |last| Pa(last.pa.0.saturating_add(last.bytes)))
    }
}
