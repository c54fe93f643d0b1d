//! Random machines: RAM with holes and ragged ends, carve-outs, a kernel image; and what each page is.

use std::collections::BTreeMap;
use std::ops::Range;

use linmap::error::LayoutError;
use linmap::{Geometry, Layout, Pa, Rodata};
use proptest::collection::vec;
use test_support::prelude::*;

/// The memory of a machine. Carve-outs and image are in RAM and share no 64K page.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) ram: Vec<Range<u64>>,
    pub(crate) carve_outs: Vec<Range<u64>>,
    pub(crate) image: Range<u64>,
}

/// The kind of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Ram,
    Carved,
    Image,
}

impl Machine {
    /// Returns the kind of the page at `page`: RAM only if it is RAM from end to end.
    pub(crate) fn kind(&self, page: Range<u64>) -> Option<Kind> {
        let shared = |r: &Range<u64>| r.end.min(page.end).saturating_sub(r.start.max(page.start));
        if self.ram.iter().map(shared).sum::<u64>() < page.end - page.start {
            return None;
        }
        if shared(&self.image) > 0 {
            return Some(Kind::Image);
        }
        let carved = self.carve_outs.iter().any(|r| shared(r) > 0);
        Some(if carved { Kind::Carved } else { Kind::Ram })
    }

    /// All addresses where what a page of this size is can change, in order.
    pub(crate) fn boundaries(&self, page: u64) -> Vec<u64> {
        let ranges = self.ram.iter().chain(&self.carve_outs).chain([&self.image]);
        let ends = ranges.flat_map(|r| [r.start, r.end]);
        let mut all: Vec<_> = ends.flat_map(|e| [e / page * page, e.div_ceil(page) * page]).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(crate) fn given_bytes(&self) -> u64 {
        self.ram.iter().map(|r| r.end - r.start).sum()
    }

    /// The same shape with all addresses multiplied, for a granule with pages that much larger.
    pub(crate) fn scaled(&self, by: u64) -> Self {
        let scale = |r: &Range<u64>| r.start * by..r.end * by;
        Self {
            ram: self.ram.iter().map(scale).collect(),
            carve_outs: self.carve_outs.iter().map(scale).collect(),
            image: scale(&self.image),
        }
    }

    /// Shows `check` the library's layout of this machine, its ranges given in reverse order.
    pub(crate) fn lay_out<T>(
        &self,
        g: Geometry,
        rodata: Rodata,
        check: impl FnOnce(Layout<'_>) -> T,
    ) -> Result<T, LayoutError> {
        let pa = |r: &Range<u64>| Pa(r.start)..Pa(r.end);
        let mut ram: Vec<_> = self.ram.iter().rev().map(pa).collect();
        let mut carve_outs: Vec<_> = self.carve_outs.iter().rev().map(pa).collect();
        Layout::new(g, &mut ram, &mut carve_outs, pa(&self.image), rodata).map(check)
    }

    /// Does the same for a machine that has a layout. One that has none has no whole page of RAM, or an image or a
    /// carve-out that the half does not reach.
    pub(crate) fn laid_out<T>(
        &self,
        g: Geometry,
        rodata: Rodata,
        check: impl FnOnce(Layout<'_>) -> T,
    ) -> Option<T> {
        let result = self.lay_out(g, rodata, check);
        let error = result.as_ref().err();
        if let Some(LayoutError::Dropped { range, .. }) = error {
            let bare = Self { carve_outs: Vec::new(), image: 0..0, ..self.clone() };
            let mapped = bare.lay_out(g, rodata, |layout| layout.mapped().clone()).expect("RAM");
            assert!(range.start < mapped.start || mapped.end < range.end, "{range:?} is in {mapped:?}");
        } else if error.is_some() {
            let pages = self.boundaries(g.page_size());
            assert!(pages.iter().all(|&p| self.kind(p..p + g.page_size()).is_none()), "{error:?}");
        }
        result.ok()
    }
}

/// Machines whose RAM ranges and gaps have lengths of these magnitudes (log2 of bytes).
pub(crate) fn machines(lengths: Range<u32>, gaps: Range<u32>) -> impl Strategy<Value = Machine> {
    let base = prop_oneof![Just(0), Just(1 << 30), Just(1 << 31), 0u64..1 << 40, 0u64..1 << 49];
    let range = ((length(gaps), alignment()), (length(lengths), alignment()));
    let special = (any::<prop::sample::Index>(), 0..PARTS, any::<u64>(), length(8..24), alignment());
    (base, vec(range, 1..5), vec(special, 0..5), any::<bool>()).prop_map(|(base, ranges, specials, image)| {
        let ram = place_ram(base, &ranges);
        let mut places = BTreeMap::new();
        for (range, part, at, bytes, align) in specials {
            let range = range.index(ram.len());
            if let Some(found) = place_special(&ram[range], part, at, bytes, align) {
                places.insert((range, part), found);
            }
        }
        let mut carve_outs: Vec<_> = places.into_values().collect();
        let image = carve_outs.pop().filter(|_| image).unwrap_or(0..0);
        Machine { ram, carve_outs, image }
    })
}

/// A length of a random magnitude and a random value within that.
fn length(magnitudes: Range<u32>) -> impl Strategy<Value = u64> {
    magnitudes.prop_flat_map(|shift| 1u64 << shift..2 << shift)
}

/// The alignments of addresses: ragged ends, pages, runs, blocks and the largest blocks.
fn alignment() -> impl Strategy<Value = u64> {
    let shifts = [0, 10, 12, 14, 16, 21, 25, 29, 30, 34, 36, 39];
    prop::sample::select(shifts.map(|s| 1 << s).to_vec())
}

/// To a multiple of `align`, unless that is more than the length allows.
fn round(address: u64, align: u64, length: u64) -> u64 {
    if align <= length { address / align * align } else { address }
}

type Piece = (u64, u64);

fn place_ram(mut end: u64, ranges: &[(Piece, Piece)]) -> Vec<Range<u64>> {
    let mut ram = Vec::new();
    for &((gap, start_align), (bytes, end_align)) in ranges {
        let start = round(end + gap, start_align, gap).max(end);
        end = round(start + bytes, end_align, bytes).max(start + 1);
        ram.push(start..end);
    }
    ram
}

/// RAM ranges are cut into so many parts, each of which holds one carve-out or image.
const PARTS: u64 = 8;

/// A piece of the given part of a RAM range, if that part has a 64K page.
fn place_special(ram: &Range<u64>, part: u64, at: u64, bytes: u64, align: u64) -> Option<Range<u64>> {
    const PAGE: u64 = 64 << 10;
    let first = ram.start.div_ceil(PAGE);
    let pages = (ram.end / PAGE).checked_sub(first)? / PARTS;
    let room = pages * PAGE;
    let part = (first + part * pages) * PAGE;
    let bytes = bytes.min(room);
    let offset = at % (room - bytes + 1).max(1);
    let start = round(part + offset, align, offset).max(part);
    (bytes > 0).then(|| start..start + bytes)
}
