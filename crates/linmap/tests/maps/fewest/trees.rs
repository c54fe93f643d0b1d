//! The tables have the planned map: RAM at its offset with the right attributes, and nothing else.

use std::collections::HashMap;
use std::ops::ControlFlow;

use linmap::arch::{Entry, Level};
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::read::{count, visit};
use linmap::{Geometry, Half, Leaves, Pa, Rodata, Stats, Tree, Va};
use test_support::prelude::*;

use crate::dirty_memory::dirty_memory;
use crate::fewest::machine::{Kind, Machine};
use crate::fewest::map::{Map, Span};
use crate::fewest::walker::translate;
use crate::fewest::{cases, large_machines, leaves, small_machines};
use crate::raw::Raw;
use test_support::geometries;

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn small_machines_are_mapped_exactly(
        machine in small_machines(),
        leaves in leaves(),
        rodata in prop::sample::select(vec![Rodata::Off, Rodata::On, Rodata::Full]),
    ) {
        for g in geometries() {
            build_and_compare(&machine, g, leaves, rodata);
        }
    }

    #[test]
    fn large_machines_are_mapped_exactly(machine in large_machines()) {
        for g in geometries() {
            build_and_compare(&machine, g, Leaves::Largest, Rodata::Full);
        }
    }
}

/// Larger trees are only planned, not built.
const MOST_TABLE_BYTES: u64 = 8 << 20;

/// A tree in host memory, and what should be in it.
struct Built<'a> {
    memory: &'a HostMemory,
    g: Geometry,
    root: Pa,
    map: &'a Map,
    rodata: Rodata,
}

fn build_and_compare(machine: &Machine, g: Geometry, leaves: Leaves, rodata: Rodata) {
    let _ = machine.laid_out(g, rodata, |layout| {
        let planned = Stats::of_runs(g, layout.runs(leaves));
        if planned.table_bytes(g) > MOST_TABLE_BYTES {
            return;
        }
        let memory = dirty_memory(g, planned.tables as usize);
        let tree =
            Tree::build(&memory, g, Half::Upper, layout.runs(leaves)).expect("as many pages as planned");
        let counted = count(&Raw(&memory), g, tree.root(), linear_range(g)).unwrap_or_else(|e| match e {});
        assert_eq!((tree.stats(), counted), (planned, planned), "{g:?}");
        assert_eq!(memory.in_use() as u64, planned.tables, "{g:?}");

        let map = Map::new(machine, g, &layout, leaves);
        let built = Built { memory: &memory, g, root: tree.root(), map: &map, rodata };
        built.maps_the_spans_and_nothing_else();
        built.translates_as_the_manual_says();
        tree.discard(&memory);
        assert_eq!(memory.in_use(), 0, "{g:?}");
    });
}

impl Built<'_> {
    /// The descriptor fields of memory of this kind: UXN, PXN, AF, SH inner, AP read-only, AttrIndx; and of a carve-out the bit
    /// of software by which it stays in pages.
    fn fields(&self, kind: Kind) -> u64 {
        let fields = match (kind, self.rodata) {
            (Kind::Ram, _) => 0x0060_0000_0000_0704,
            (Kind::Carved, _) => 0x0460_0000_0000_0704,
            (Kind::Image, Rodata::Off) => 0x0060_0000_0000_0700,
            (Kind::Image, _) => 0x0060_0000_0000_0780,
        };
        if self.g.oa_format() == linmap::OaFormat::Lpa2 { fields & !0x300 } else { fields }
    }

    /// All leaves of the whole upper half, joined, are the spans of the map.
    fn maps_the_spans_and_nothing_else(&self) {
        let base = self.g.base(Half::Upper);
        let mut found: Vec<(std::ops::Range<u64>, u64)> = Vec::new();
        let mut runs: HashMap<(i8, u64), u64> = HashMap::new();
        let whole = visit(
            &Raw(self.memory),
            self.g,
            self.root,
            (Va(base), Va(u64::MAX)),
            |&linmap::read::Visited { va, level, entry, .. }| {
                assert_ne!(entry, Entry::Reserved);
                let Entry::Leaf(leaf) = entry else { return ControlFlow::Continue(()) };
                let (at, bytes) = (va.0 - base, self.map.manual.span(level.number()));
                assert_eq!((leaf.oa.0, leaf.valid), (at + self.map.origin, true), "{:?} {va}", self.g);
                if leaf.contiguous {
                    let run = bytes * self.map.manual.run(level.number());
                    *runs.entry((level.number(), at / run)).or_default() += 1;
                }
                match found.last_mut() {
                    Some((r, fields)) if r.end == at && *fields == leaf.attributes.bits() => r.end += bytes,
                    _ => found.push((at..at + bytes, leaf.attributes.bits())),
                }
                ControlFlow::Continue(())
            },
        );
        assert_eq!(whole, Ok(ControlFlow::Continue(())));
        assert_eq!(found, self.expected(), "{:?}", self.g);
        let is_whole = |(&(level, _), &members): (&(i8, u64), &u64)| members == self.map.manual.run(level);
        assert!(runs.iter().all(is_whole), "{:?}: a contiguous run is not whole: {runs:?}", self.g);
    }

    /// The spans with their fields.
    fn expected(&self) -> Vec<(std::ops::Range<u64>, u64)> {
        let mut expected: Vec<(std::ops::Range<u64>, u64)> = Vec::new();
        for Span { at, kind } in &self.map.spans {
            let fields = self.fields(*kind);
            match expected.last_mut() {
                Some((r, f)) if r.end == at.start && *f == fields => r.end = at.end,
                _ => expected.push((at.clone(), fields)),
            }
        }
        expected
    }

    /// The first and last byte of each span, and the bytes next to them.
    fn translates_as_the_manual_says(&self) {
        let base = self.g.base(Half::Upper);
        let ends = self.map.spans.iter().flat_map(|s| [s.at.start, s.at.end]);
        for at in ends.flat_map(|e| [e.wrapping_sub(1), e]) {
            let is_in = |s: &&Span| s.at.contains(&at);
            // Hardware ignores the bit of software.
            let of = |s: &Span| (at + self.map.origin, self.fields(s.kind) & !(1 << 58));
            let expected = self.map.spans.iter().find(is_in).map(of);
            let va = base.wrapping_add(at);
            assert_eq!(translate(self.memory, self.g, self.root, va), expected, "{:?} {va:#x}", self.g);
        }
        assert_eq!(self.g.level_size(Level::PAGE), self.map.manual.page());
    }
}
