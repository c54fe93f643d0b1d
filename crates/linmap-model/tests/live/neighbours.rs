//! Of a leaf of which a part changes, the rest keeps the largest leaves that remain possible.

use linmap::{Change, Geometry, Half, Policy};
use linmap_model::Core;
use test_support::{Random, Rows, geometries};

use crate::flat::fewest;
use crate::operation::{Operation, What};
use crate::world::{Machine, World, ram};

#[test]
fn neighbours_keep_the_largest_leaves() {
    let mut rows = Rows::new();
    for g in geometries() {
        rows.row(|seed| at(g, &mut Random::new(seed)));
    }
}

fn at(g: Geometry, random: &mut Random) {
    let sizes = g.leaf_sizes();
    for size in sizes.iter().filter(|s| s.bytes() <= 1 << (g.va_bits() - 4)) {
        for _ in 0..4 {
            let at = g.base(Half::Upper) + 2 * size.bytes();
            let machine = Machine::new(g, &[Core::STRONG], 20, 0x1000_0000);
            let mut world = World::new(&machine, Half::Upper, &[ram(at, 1 << 44, 2 * size.bytes())]);
            world.set_policy(Policy::Live);
            assert_eq!(world.walked.stats(), fewest(&world.flat, g));
            // An edge of some smaller leaf, and as long as some leaf is, or a page more.
            let all = (2 * size.bytes()) >> g.page_shift();
            let unit = random.of(&sizes).bytes().min(size.bytes()) >> g.page_shift();
            let first = random.below(all / unit) * unit;
            let pages = (random.of(&sizes).bytes() >> g.page_shift()) + random.below(2);
            let (va, pages) = (at + first * g.page_size(), pages.min(all - first));
            let what = What::Protect(Change::READ_ONLY);
            world.does(0, &Operation { what, va, pages }).expect("it is mapped");
            assert_eq!(world.walked.stats(), fewest(&world.flat, g), "{g:?}");
            world.finish();
        }
    }
}
