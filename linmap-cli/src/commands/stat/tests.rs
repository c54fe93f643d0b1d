use linmap::host::HostMemory;
use linmap::{Attributes, Granule, Half, Level, OaFormat, Run, Tree};

use super::*;
use crate::source::{Opened, Saved, Stretch, What};

const BASE: u64 = 0xffff_0000_0000_0000;

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap()
}

/// A saved dump of leaves: offset in the half, memory, level, descriptors, contiguous, valid.
fn saved(leaves: &[(u64, u64, i8, u64, bool, bool)]) -> Opened {
    let g = geometry();
    let stretch = |&(offset, pa, level, count, contiguous, valid): &(u64, u64, i8, u64, bool, bool)| {
        let level = Level::new(level);
        let what = What::Leaf { oa: Some(Pa(pa)), attributes: Attributes::RAM, contiguous, valid };
        Stretch { va: Va(BASE + offset), bytes: g.level_size(level) * count, level, what, descriptor: None }
    };
    let stretches = leaves.iter().map(stretch).collect();
    let saved = Saved { name: "dump".to_owned(), geometry: Some(g), stretches, ..Saved::default() };
    Opened::Saved(saved.into())
}

fn survey(leaves: &[(u64, u64, i8, u64, bool, bool)], image: Option<&std::ops::Range<Pa>>) -> Survey {
    let opened = saved(leaves);
    let view = View::of(&opened).expect("a map");
    Survey::of(&view, image).expect("walked")
}

/// The survey counts what the library's own builder says that it built.
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
    assert_eq!((survey.invalid, survey.kfence), ((0, 0), None));
}

#[test]
fn the_alias_of_the_image_is_no_large_leaf() {
    let image = Pa(0x4001_0000)..Pa(0x4023_0000);
    let leaves = [(0, 0x4000_0000, 2, 2, false, true), (4 << 20, 0x4040_0000, 2, 1, false, true)];
    assert_eq!(survey(&leaves, Some(&image)).large, 2 << 20);
}

#[test]
fn a_pool_is_told_from_pages_that_are_merely_not_valid() {
    let page = |index: u64, valid| (index << 12, 0x4000_0000 + (index << 12), 3, 1, false, valid);
    // Two guards, then one behind each page that may be handed out.
    let pool = (64..64 + 40).map(|index| page(index, index > 65 && index % 2 == 0));
    let around = |from: u64, to: u64| (from << 12, 0x4000_0000 + (from << 12), 3, to - from, false, true);
    let leaves: Vec<_> = [around(0, 64)].into_iter().chain(pool).chain([around(104, 512)]).collect();
    let found = survey(&leaves, None);
    let pool = found.kfence.expect("a pool");
    assert_eq!((pool.va, pool.pa, pool.bytes), (BASE + (64 << 12), 0x4000_0000 + (64 << 12), 40 << 12));
    assert_eq!(found.invalid, (0, 0));

    let gone: Vec<_> = [around(0, 64)]
        .into_iter()
        .chain((64..164).map(|i| page(i, false)))
        .chain([around(164, 512)])
        .collect();
    let found = survey(&gone, None);
    assert_eq!((found.kfence, found.invalid), (None, (100, 1)));
    // A whole block that is kept.
    let block = [(0, 0x4000_0000, 2, 1, false, false), (2 << 20, 0x4020_0000, 3, 4, false, true)];
    assert_eq!(survey(&block, None).invalid, (512, 1));
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
    // An image elsewhere is none.
    let stats = largest(g, &found, Some(Pa(0)..Pa(4096))).expect("a plan");
    assert_eq!(stats.tables, 2);
}
