use linmap::arch::Level;
use linmap::host::HostMemory;
use linmap::layout::Run;
use linmap::{Attributes, Granule, Half, OaFormat, Tree};

use super::*;
use crate::linux::invalid::{Context, Pieces};
use crate::source::{EntryKind, Opened, Saved, SavedRun};

const BASE: u64 = 0xffff_0000_0000_0000;

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
}

/// Returns a saved dump of leaves: offset in the upper half, memory, level, descriptors, contiguous, valid.
fn saved(leaves: &[(u64, u64, i8, u64, bool, bool)]) -> Opened {
    let g = geometry();
    let stretch = |&(offset, pa, level, count, contiguous, valid): &(u64, u64, i8, u64, bool, bool)| {
        let level = Level::new(level);
        let what = EntryKind::Leaf { oa: Some(Pa(pa)), attributes: Attributes::RAM, contiguous, valid };
        SavedRun { va: Va(BASE + offset), bytes: g.level_size(level) * count, level, what, descriptor: None }
    };
    let stretches = leaves.iter().map(stretch).collect();
    let saved = Saved { name: "dump".to_owned(), geometry: Some(g), stretches, ..Saved::default() };
    Opened::Saved(saved.into())
}

fn survey(leaves: &[(u64, u64, i8, u64, bool, bool)], image: Option<&std::ops::Range<Pa>>) -> Survey {
    let opened = saved(leaves);
    let view = View::of(&opened).expect("a map");
    Survey::of(&view, crate::linux::regions::linear(view.geometry), image).expect("walked")
}

/// The survey's counts are those of the library's own builder.
#[test]
fn a_survey_counts_leaves_and_tables() {
    let g = geometry();
    let memory = HostMemory::new(g, 600);
    let run = |va: u64, pa, level, descriptors, contiguous| Run {
        va: Va(BASE + va),
        oa: Pa(pa),
        level: Level::new(level),
        contiguous,
        descriptors,
        attributes: Attributes::RAM,
    };
    let runs = [
        run(0, 0x4000_0000, 3, 1024, false),
        run(4 << 20, 0x4040_0000, 2, 2, false),
        run(1 << 30, 0x8000_0000, 1, 1, false),
        run(2 << 30, 0xc000_0000, 2, 16, true),
    ];
    let tree = Tree::build(&memory, g, Half::Upper, runs.into_iter()).expect("a tree");
    let survey = survey(
        &[
            (0, 0x4000_0000, 3, 1024, false, true),
            (4 << 20, 0x4040_0000, 2, 2, false, true),
            (1 << 30, 0x8000_0000, 1, 1, false, true),
            (2 << 30, 0xc000_0000, 2, 16, true, true),
        ],
        None,
    );
    assert_eq!(survey.stats, tree.stats());
    tree.discard(&memory);
    assert_eq!(survey.offset, BASE - 0x4000_0000);
    let ranges = [0x4000_0000..0x4080_0000, 0x8000_0000..0xc200_0000]
        .map(|r: std::ops::Range<u64>| Pa(r.start)..Pa(r.end));
    assert_eq!(survey.memory, ranges);
    assert_eq!(survey.large, (4 << 20) + (1 << 30) + (32 << 20));
    assert_eq!(survey.invalid, Pieces::default());
}

#[test]
fn the_alias_of_the_image_is_no_large_leaf() {
    let image = Pa(0x4001_0000)..Pa(0x4023_0000);
    let leaves = [(0, 0x4000_0000, 2, 2, false, true), (4 << 20, 0x4040_0000, 2, 1, false, true)];
    assert_eq!(survey(&leaves, Some(&image)).large, 2 << 20);
}

/// Invalid pages and blocks cover nothing, and no plan is made for them.
#[test]
fn what_is_not_valid_is_no_coverage() {
    let g = geometry();
    let page = |index: u64, count, valid| (index << 12, 0x4000_0000 + (index << 12), 3, count, false, valid);
    let block = (2 << 20, 0x4020_0000, 2, 1, false, false);
    let found = survey(&[page(0, 100, true), page(100, 1, false), page(101, 411, true), block], None);
    assert_eq!((found.stats.bytes(g), found.stats.tlb_entries(g)), (511 << 12, 511));
    assert_eq!((found.stats.tables, found.large), (4, 0));
    let context = Context { page: 4096, covered: 511 << 12, ..Context::default() };
    let kinds = found.invalid.kinds(&context);
    assert_eq!((kinds.len(), kinds[0].bytes, kinds[0].places), (1, (2 << 20) + 4096, 2));
    let plan = largest(g, &found, None).expect("a plan");
    assert_eq!((plan.bytes(g), plan.tables), (511 << 12, 4));
    // Six runs, four pages, a hole, eleven pages, 25 runs.
    assert_eq!(plan.tlb_entries(g), 6 + 4 + 11 + 25);
}

#[test]
fn what_large_leaves_would_take_is_the_librarys_own_plan() {
    let g = geometry();
    let pages = (4 << 30) >> 12;
    let found = survey(&[(0, 0x4000_0000, 3, pages, false, true)], None);
    assert_eq!(found.stats.tables, 2048 + 4 + 2);
    let stats = largest(g, &found, None).expect("a plan");
    assert_eq!((stats.tables, stats.tlb_entries(g), stats.bytes(g)), (2, 4, 4 << 30));
    let image = Pa(0x4001_0000)..Pa(0x4100_0000);
    let stats = largest(g, &found, Some(image)).expect("a plan");
    assert_eq!((stats.tables, stats.bytes(g)), (4, 4 << 30));
    // An image elsewhere has no effect.
    let stats = largest(g, &found, Some(Pa(0)..Pa(4096))).expect("a plan");
    assert_eq!(stats.tables, 2);
}
