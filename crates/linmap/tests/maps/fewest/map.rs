//! The wanted map, once the library has chosen the offset: a flat list of spans.

use std::ops::Range;

use linmap::{Geometry, Half, Layout, Leaves};

use crate::fewest::machine::{Kind, Machine};
use crate::fewest::manual::Manual;

/// A stretch of one kind, in bytes from the start of the linear map.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Span {
    pub(crate) at: Range<u64>,
    pub(crate) kind: Kind,
}

/// A linear map as it should be.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) manual: Manual,
    /// The physical address at the start of the linear map.
    pub(crate) origin: u64,
    /// In order; neighbours that touch differ in kind.
    pub(crate) spans: Vec<Span>,
    leaves: Leaves,
}

/// The leaves and tables of a map.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Cost {
    pub(crate) descriptors: u64,
    pub(crate) tlb_entries: u64,
    pub(crate) tables: u64,
}

/// The contents of a piece of the linear map.
pub(crate) enum Content {
    Nothing,
    Only(Kind),
    Mixed,
}

impl Map {
    /// The map of a machine at the library's offset, which is all that is taken from `layout`.
    pub(crate) fn new(machine: &Machine, g: Geometry, layout: &Layout<'_>, leaves: Leaves) -> Self {
        let manual = Manual::of(g);
        let origin = g.base(Half::Upper).wrapping_sub(layout.offset());
        let limit = (1u64 << manual.oa_bits).saturating_sub(origin);
        let reach = manual.half().min(limit);
        let spans = spans(machine, manual.page(), origin..origin + reach);
        Self { manual, origin, spans, leaves }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.spans.iter().map(|s| s.at.end - s.at.start).sum()
    }

    pub(crate) fn content(&self, at: Range<u64>) -> Content {
        match self.spans.get(self.spans.partition_point(|s| s.at.end <= at.start)) {
            Some(s) if s.at.start <= at.start && at.end <= s.at.end => Content::Only(s.kind),
            Some(s) if s.at.start < at.end => Content::Mixed,
            _ => Content::Nothing,
        }
    }

    /// Returns true if memory of this kind may be in leaves larger than a page.
    pub(crate) fn may_be_large(&self, kind: Kind) -> bool {
        match kind {
            Kind::Ram => self.leaves == Leaves::Largest,
            Kind::Carved => false,
            Kind::Image => true,
        }
    }

    /// Returns true if a leaf of this many bytes may start here: aligned on both sides.
    pub(crate) fn is_aligned(&self, at: u64, bytes: u64) -> bool {
        at.is_multiple_of(bytes) && (at + self.origin).is_multiple_of(bytes)
    }
}

fn spans(machine: &Machine, page: u64, window: Range<u64>) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for pair in machine.boundaries(page).windows(2) {
        let Some(kind) = machine.kind(pair[0]..pair[0] + page) else { continue };
        let (start, end) = (pair[0].max(window.start), pair[1].min(window.end));
        if start >= end {
            continue;
        }
        let at = start - window.start..end - window.start;
        match spans.last_mut() {
            Some(last) if last.kind == kind && last.at.end == at.start => last.at.end = at.end,
            _ => spans.push(Span { at, kind }),
        }
    }
    spans
}
