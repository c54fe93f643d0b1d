//! The dump format, byte for byte: Linux's own dumps come back, and each rule of the format holds.

mod format;
mod parse;
mod tables;

use linmap::read::{MarkedRange, dump};
use linmap::{Geometry, Granule, Half, OaFormat, Pa, Tree};

use crate::dirty_memory::dirty_memory;
use crate::raw::Raw;
use parse::parse;

/// AmpereOne VM, 12 GiB, 4K pages, 48-bit VA: the largest leaves, and pages.
const DUMPS: [&str; 2] = [include_str!("../data/ptdump-mode1.txt"), include_str!("../data/ptdump-mode3.txt")];

#[test]
fn real_dumps_come_back_byte_for_byte() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    for text in DUMPS {
        let runs = parse(text, g);
        let memory = dirty_memory(g, 8192);
        let tree = Tree::build(&memory, g, Half::Upper, runs.iter().copied()).expect("runs in order");
        let mut printed = String::new();
        dump(&Raw(&memory), g, tree.root(), MarkedRange::linear_map(g), &mut printed)
            .expect("a string takes all");
        assert_eq!(printed, text);
    }
}

/// The parser reads what is there: 12 GiB from address 0 of the map on, but for what it printed as holes.
#[test]
fn the_parser_misses_nothing() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).unwrap();
    for text in DUMPS {
        let runs = parse(text, g);
        let bytes: u64 = runs.iter().map(|r| r.descriptors << g.level_shift(r.level)).sum();
        assert_eq!((bytes, runs.len()), (12 << 30, text.lines().count() - 4));
        assert_eq!(runs[0].oa, Pa(0x4000_0000));
    }
}
