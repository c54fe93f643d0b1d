//! Addresses of 52 bits: a run of leaves passes the address where the bits that a descriptor keeps
//! elsewhere change, in the middle of a table and between two that it fills.

use linmap::arch::Level;
use linmap::layout::Run;
use linmap::{Attributes, Geometry, Half, OaFormat, Pa, Tree, Va};

use crate::dirty_memory::dirty_memory;
use crate::fewest::manual::Manual;
use crate::fewest::walker::translate;
use test_support::geometries;

/// Addresses where bits outside the descriptor's address field change: the lowest of them and the highest.
fn high(g: Geometry) -> &'static [u64] {
    match g.oa_format() {
        OaFormat::Bits48 => &[],
        OaFormat::Lpa => &[1 << 48, 1 << 51],
        OaFormat::Lpa2 => &[1 << 50, 1 << 51],
    }
}

/// A run of more than two tables that is at `high` in its middle, `skew` entries off a table's start.
fn run_across(g: Geometry, high: u64, level: i8, skew: u64) -> Option<Run> {
    let manual = Manual::of(g);
    let span = manual.span(level);
    let entries = manual.page() / 8;
    let before = entries + 5;
    let va = (2 * entries - before + skew) * span;
    let fits = va + 2 * before * span <= manual.half() && level > manual.root;
    fits.then(|| Run {
        va: Va(g.base(Half::Upper) + va),
        oa: Pa(high - before * span),
        level: Level::new(level),
        contiguous: false,
        descriptors: 2 * before,
        attributes: Attributes::RAM,
    })
}

#[test]
fn runs_pass_the_high_address_bits() {
    let mut runs = 0;
    for g in geometries() {
        let places = [(3, 0), (3, 3), (2, 0), (2, 3)];
        for (&high, (level, skew)) in high(g).iter().flat_map(|high| places.map(|place| (high, place))) {
            if let Some(run) = run_across(g, high, level, skew) {
                every_leaf_translates(g, run);
                runs += 1;
            }
        }
    }
    assert!(runs > 300, "only {runs} runs fit");
}

fn every_leaf_translates(g: Geometry, run: Run) {
    let memory = dirty_memory(g, 16);
    let tree = Tree::build(&memory, g, Half::Upper, std::iter::once(run)).expect("few tables");
    let bytes = g.level_size(run.level);
    for n in 0..run.descriptors {
        let found = translate(&memory, g, tree.root(), run.va.0 + n * bytes);
        assert_eq!(found.map(|f| f.0), Some(run.oa.0 + n * bytes), "{g:?} {run:x?}: leaf {n}");
    }
}
