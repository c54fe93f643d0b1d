//! The offset: no byte goes missing unreported, the fewest are dropped, and no block is lost to skew.

use std::cell::Cell;

use linmap::{Geometry, Half, Layout, Leaves, Rodata, Stats};
use test_support::prelude::*;

use crate::fewest::machine::Machine;
use crate::fewest::manual::Manual;
use crate::fewest::map::Map;
use test_support::{geometries, is_one, property};

use crate::fewest::{cases, large_machines, small_machines};

/// Tries a property on the layouts of these machines, of which most exist.
fn of_layouts(
    machines: impl Strategy<Value = Machine>,
    holds: impl Fn(&Machine, Geometry, Layout<'_>, prop::sample::Index),
) {
    let laid_out = Cell::new(0);
    property(cases(300), (machines, any::<prop::sample::Index>()), |(machine, at)| {
        for g in geometries() {
            let held = machine.laid_out(g, Rodata::Full, |layout| holds(&machine, g, layout, at));
            laid_out.set(laid_out.get() + usize::from(held.is_some()));
        }
        Ok(())
    });
    let (laid_out, all) = (laid_out.get(), 300 * geometries().len());
    assert!(laid_out > all / 2 || is_one(), "{laid_out} of {all} machines have a layout");
}

#[test]
fn every_byte_is_mapped_dropped_or_unaligned() {
    of_layouts(large_machines(), |machine, g, layout, _| {
        let map = Map::new(machine, g, &layout, Leaves::Largest);
        let mapped = Stats::of_runs(g, layout.runs(Leaves::Largest)).bytes(g);
        assert_eq!(mapped, map.bytes(), "{g:?}");
        let lost = layout.dropped_bytes() + layout.unaligned_bytes();
        assert_eq!(mapped + lost, machine.given_bytes(), "{g:?}");
    });
}

#[test]
fn no_other_offset_drops_a_block_less() {
    of_layouts(large_machines(), |_, g, layout, _| {
        let manual = Manual::of(g);
        let first = layout.ram()[0].start.0;
        // The half that starts at the first page reaches furthest.
        let fewest = dropped(&layout, &manual, first);
        let origin = g.base(Half::Upper).wrapping_sub(layout.offset());
        assert!(origin <= first, "{g:?}: the first page is dropped");
        assert_eq!(layout.dropped_bytes(), dropped(&layout, &manual, origin), "{g:?}");
        assert!(layout.dropped_bytes() - fewest < manual.span(2), "{g:?}");
    });
}

#[test]
fn no_block_is_lost_to_skew() {
    of_layouts(large_machines(), |_, g, layout, _| no_skew(g, &layout));
}

#[test]
fn an_address_is_found_where_its_page_is() {
    of_layouts(small_machines(), |machine, g, layout, at| {
        let map = Map::new(machine, g, &layout, Leaves::Largest);
        addresses_agree(machine, &map, &layout, at);
    });
}

/// The bytes of RAM that a linear half from `origin` on does not reach.
fn dropped(layout: &Layout<'_>, manual: &Manual, origin: u64) -> u64 {
    let end = (origin + manual.half()).min(1 << manual.oa_bits);
    let beyond = layout.ram().iter().map(|r| r.end.0.saturating_sub(r.start.0.max(end)));
    beyond.sum()
}

/// The largest leaf that RAM has room for can be used, unless that costs an L2 block of RAM.
fn no_skew(g: Geometry, layout: &Layout<'_>) {
    let manual = Manual::of(g);
    let first = layout.ram()[0].start.0;
    let fewest = dropped(layout, &manual, first);
    let fits = |bytes: u64| layout.ram().iter().any(|r| r.start.0.next_multiple_of(bytes) + bytes <= r.end.0);
    let free = |bytes: u64| dropped(layout, &manual, first / bytes * bytes) - fewest < manual.span(2);
    let sizes = manual.sizes.iter().rev().map(|s| s.bytes);
    let largest = sizes.filter(|&s| s <= manual.half()).find(|&s| fits(s) && free(s)).expect("a page");
    assert_eq!(layout.offset() % largest, 0, "{g:?}: {largest:#x} fits, and drops no block more");
}

/// `Layout::va` at the ends of each span and somewhere in it.
fn addresses_agree(machine: &Machine, map: &Map, layout: &Layout<'_>, at: prop::sample::Index) {
    let page = map.manual.page();
    for span in &map.spans {
        let inside = at.index((span.at.end - span.at.start) as usize) as u64;
        for at in [span.at.start, span.at.start + inside, span.at.end - 1] {
            let pa = at + map.origin;
            assert_eq!(layout.va(linmap::Pa(pa)).map(|va| va.0), Some(pa.wrapping_add(layout.offset())));
        }
        let next = span.at.end + map.origin;
        if machine.kind(next..next + page).is_none() {
            assert_eq!(layout.va(linmap::Pa(next)), None);
        }
    }
}
