//! The fewest by trying every tiling of the pages: a dynamic program from the first page to the last.
//!
//! `best[i]` is the least that maps all pages before page `i`. From each, every leaf that may start
//! at page `i` leads to the page after it. The number of tables that a leaf adds depends
//! on those that are open already, so the least number is kept for each depth of open tables.

use crate::fewest::machine::Kind;
use crate::fewest::manual::Size;
use crate::fewest::map::{Cost, Map};

/// Table levels below the root.
const DEPTHS: usize = 5;
/// More than anything costs.
const NEVER: u64 = u64::MAX / 2;

#[derive(Clone, Copy)]
struct Best {
    descriptors: u64,
    tlb_entries: u64,
    /// By the depth of the deepest table that holds the page in front.
    tables: [u64; DEPTHS],
}

const UNREACHED: Best = Best { descriptors: NEVER, tlb_entries: NEVER, tables: [NEVER; DEPTHS] };

/// The fewest descriptors, TLB entries and table pages, each on its own.
pub(crate) fn fewest(map: &Map) -> Cost {
    let page = map.manual.page();
    let Some(first) = map.spans.first().map(|s| s.at.start / page) else {
        return Cost { tables: 1, ..Cost::default() };
    };
    let kinds = kinds(map, first);
    let mut best = vec![UNREACHED; kinds.len() + 1];
    best[0] = Best { descriptors: 0, tlb_entries: 0, tables: [0, NEVER, NEVER, NEVER, NEVER] };
    let mut same = 0; // where pages stop being of one kind
    for i in 0..kinds.len() {
        let at = (first + i as u64) * page;
        best[i].tables = still_open(map, at, &best[i].tables);
        let Some(kind) = kinds[i] else {
            best[i + 1] = best[i];
            continue;
        };
        if same <= i {
            same = i + kinds[i..].iter().take_while(|&&k| k == Some(kind)).count();
        }
        for size in &map.manual.sizes {
            let pages = (size.bytes / page) as usize;
            let allowed = pages == 1 || map.may_be_large(kind);
            if allowed && i + pages <= same && map.is_aligned(at, size.bytes) {
                let from = best[i];
                take_leaf(&from, &mut best[i + pages], size, map.manual.root);
            }
        }
    }
    let end = best[kinds.len()];
    let tables = 1 + end.tables.iter().min().expect("depths");
    Cost { descriptors: end.descriptors, tlb_entries: end.tlb_entries, tables }
}

/// The kind of each page, from page `first` to the last that is mapped.
fn kinds(map: &Map, first: u64) -> Vec<Option<Kind>> {
    let page = map.manual.page();
    let mut kinds = Vec::new();
    for span in &map.spans {
        kinds.resize((span.at.start / page - first) as usize, None);
        kinds.resize((span.at.end / page - first) as usize, Some(span.kind));
    }
    kinds
}

/// Tables that were open at the page in front and do not reach `at` are closed.
fn still_open(map: &Map, at: u64, tables: &[u64; DEPTHS]) -> [u64; DEPTHS] {
    let mut shared = 0;
    while shared + 1 < DEPTHS && map.manual.root + (shared as i8) < 3 {
        // A table at this depth is one entry of the level above it.
        let span = map.manual.span(map.manual.root + shared as i8);
        if at.is_multiple_of(span) {
            break;
        }
        shared += 1;
    }
    let mut open = [NEVER; DEPTHS];
    for (depth, &least) in tables.iter().enumerate() {
        let kept = &mut open[depth.min(shared)];
        *kept = least.min(*kept);
    }
    open
}

fn take_leaf(from: &Best, to: &mut Best, size: &Size, root: i8) {
    to.descriptors = to.descriptors.min(from.descriptors + size.members);
    to.tlb_entries = to.tlb_entries.min(from.tlb_entries + 1);
    let depth = (size.level - root) as usize;
    for open in 0..=depth {
        to.tables[depth] = to.tables[depth].min(from.tables[open] + (depth - open) as u64);
    }
}
