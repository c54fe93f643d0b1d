//! The work of operations, exactly: loads and stores of descriptors, locks, barriers, invalidations and table pages. It is
//! compared with `tests/data/work.txt`, line by line: less is worth a new file, more needs a reason. `LINMAP_UPDATE=1` writes it.
//!
//! Instructions are counted elsewhere, with the code of a kernel. What is counted here finds a shortcut that is no longer taken.

mod counting;

use std::fmt::Write;
use std::rc::Rc;

use linmap::arch::Level;
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::layout::linear_range;
use linmap::{
    Aliased, Attributes, Change, ChangeFlags, Geometry, Granule, Half, OaFormat, Pa, Policy, Region, Rodata,
    SharedSpace, Tree, Va,
};
use test_support::is_as_stored;

use counting::{Counting, Platform};

const STORED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/work.txt");

/// RAM in a row, and an area. `HOLD` is the number of entries of a hold.
struct Map<const HOLD: usize> {
    g: Geometry,
    counting: Counting<HOLD>,
    space: Rc<SharedSpace>,
    /// The number of bytes of RAM: two gigabytes or more, and some pages.
    ram: u64,
    lines: String,
}

impl<const HOLD: usize> Map<HOLD> {
    fn new(g: Geometry) -> Self {
        let block = g.level_size(Level::new(2));
        let ram = (24 * block).max(2 << 30) + 35 * g.page_size();
        let memory = HostMemory::new(g, (ram / block) as usize * 2 + 64);
        let region = Region::new(Va(g.base(Half::Upper)), Pa(0), ram, Attributes::RAM);
        let tree = Tree::build(&memory, g, Half::Upper, region.runs(g)).expect("frames enough");
        let space = Rc::new(SharedSpace::adopt(tree));
        space.set_policy(Policy::Live);
        Self { g, counting: Counting::new(memory), space, ram, lines: String::new() }
    }

    /// The address of a page of RAM.
    fn va(&self, page: u64) -> Va {
        Va(self.g.base(Half::Upper) + page * self.g.page_size())
    }

    /// The address of a page of the area.
    fn area(&self, page: u64) -> Va {
        Va(linear_range(self.g).1.0 + 1 + page * self.g.page_size())
    }

    /// The number of pages of an L2 block.
    fn block(&self) -> u64 {
        1 << self.g.index_bits()
    }

    /// Runs an operation, and notes what it did.
    fn note(&mut self, what: &str, work: impl FnOnce(&Self, &Platform<'_, HOLD>)) {
        self.counting.start();
        work(self, &self.counting.platform());
        let (g, done) = (self.g, self.counting.done());
        let (page, va) = (g.page_size() >> 10, g.va_bits());
        writeln!(self.lines, "{page}K {va} bits, hold {HOLD}: {what}: {done}").expect("a string");
    }

    fn protect(&mut self, what: &str, (page, pages): (u64, u64), change: Change) {
        self.note(what, |map, platform| {
            // SAFETY: no CPU uses these addresses.
            unsafe { map.space.on(platform).protect(map.va(page), pages, change) }.expect("it is mapped");
        });
    }

    fn change(&mut self, what: &str, pages: &[u64], change: Change, flags: ChangeFlags) {
        self.note(what, |map, platform| {
            let pages = pages.iter().map(|&page| map.va(page));
            // SAFETY: as above.
            unsafe { map.space.on(platform).change_pages(pages, change, flags) }.expect("it is mapped");
        });
    }

    fn set_page_valid(&mut self, what: &str, page: u64, valid: bool) {
        self.note(what, |map, platform| {
            // SAFETY: as above.
            unsafe {
                map.space.on(platform).change(map.va(page), 1, Change::of_validity(valid), ChangeFlags::LATER)
            }
            .expect("it is mapped");
        });
    }

    fn collapse(&mut self, what: &str) {
        let pages = self.ram / self.g.page_size();
        self.note(what, |map, platform| map.space.on(platform).collapse(map.va(0), pages).expect("it may"));
    }

    /// Ranges, and lists of pages.
    fn changes(&mut self) {
        const RO: Change = Change::READ_ONLY;
        const RW: Change = Change::WRITABLE;
        let block = self.block();
        self.protect("a page out of the largest leaf", (block + 5, 1), RO);
        self.protect("another page of it", (block + 7, 1), RO);
        self.protect("one that is right", (block + 7, 1), RO);
        self.protect("a page out of a block", (3 * block + 70, 1), RO);
        self.protect("some pages, of a block in part", (5 * block + 3, block / 4), RO);
        self.protect("a block and more on both sides", (7 * block - 9, block + 18), RO);
        self.protect("parts of two blocks", (20 * block + block / 2, block), RO);
        self.protect("the same again", (7 * block - 9, block + 18), RO);
        self.protect("and back", (7 * block - 9, block + 18), RW);
        self.collapse("collapse of all that is alike");
        let (adjacent, now) = ((block..block + 40).collect::<Vec<_>>(), ChangeFlags::empty());
        let scattered: Vec<u64> = (0..40).map(|n| 9 * block + 3 * n).collect();
        let far: Vec<u64> = (0..9).map(|n| (n + 10) * block + 1).collect();
        let later = ChangeFlags::LATER;
        for (what, list) in [("adjacent", &adjacent), ("scattered", &scattered), ("far", &far)] {
            self.change(&format!("{what} pages"), list, RO, now);
            self.change(&format!("{what} pages, back later"), list, RW, later);
            let first = list[0];
            self.note("flush", |map, platform| {
                map.space.on(platform).flush(map.va(first), block).expect("mapped");
            });
        }
        self.change("a list of one page", &[block + 5], RO, now);
        self.change("a list of one page, back later", &[block + 5], RW, later);
        for (what, valid) in [("out", false), ("out again", false), ("back", true)] {
            self.set_page_valid(&format!("one page of a table {what}"), block + 5, valid);
        }
        self.set_page_valid("one page of a block out", 22 * block + 5, false);
        self.set_page_valid("one page of a block back", 22 * block + 5, true);
        let long: Vec<u64> = (0..3 * block).step_by(2).collect();
        self.change("a long list", &long, RO, now);
        self.change("a long list that is right", &long, RO, now);
        self.change("a long list back", &long, RW, now);
        self.collapse("collapse of all");
        self.protect("all of RAM", (0, self.ram / self.g.page_size()), RO);
        self.protect("all of RAM back", (0, self.ram / self.g.page_size()), RW);
    }

    /// Mappings come and go.
    fn mappings(&mut self) {
        let (block, attributes) = (self.block(), Attributes::KERNEL_DATA);
        // More than the entries of the root translate.
        let huge = (2 << self.g.level_shift(self.g.root())) >> self.g.page_shift();
        let mapped = [
            ("more than an entry of the root", huge, huge),
            ("a page", 3, 1),
            ("a block", block, block),
            ("three blocks", 8 * block - 1, 2 * block + 2),
        ];
        for (what, first, pages) in mapped {
            self.note(&format!("map {what}"), |map, platform| {
                // SAFETY: no CPU uses these addresses.
                unsafe { map.space.on(platform).map(map.area(first), pages, Pa(0), attributes) }
                    .expect("a hole");
            });
        }
        for (what, first, pages) in [
            ("a page of a block", block + 1, 1),
            ("three blocks", 8 * block - 1, 2 * block + 2),
            ("a page", 3, 1),
        ] {
            self.note(&format!("unmap {what}"), |map, platform| {
                // SAFETY: as above.
                unsafe { map.space.on(platform).unmap(map.area(first), pages) }.expect("it is mapped");
            });
        }
        self.note("unmap more than an entry of the root", |map, platform| {
            // SAFETY: as above.
            unsafe { map.space.on(platform).unmap(map.area(huge), huge) }.expect("it is mapped");
        });
        // The table of the first goes as a whole, that of the second stays.
        let end = 2 * huge;
        self.map(self.area(end - block).0, 0, 3 * block);
        self.note("unmap the end of an entry of the root, and more", |map, platform| {
            // SAFETY: as above.
            unsafe { map.space.on(platform).unmap(map.area(end - block), 2 * block) }.expect("it is mapped");
        });
        self.note("unmap what is left", |map, platform| {
            let left = [(map.area(block), 1), (map.area(block + 2), block - 2)];
            // SAFETY: as above.
            unsafe { map.space.on(platform).unmap_all(&left) }.expect("it may");
        });
    }

    /// Areas of scattered memory and of memory in a row, and their aliases.
    fn aliases(&mut self) {
        let block = self.block();
        let scattered: Vec<_> = (0..24).map(|n| ((n * 5 % 24) * 9 + 1, 2)).collect();
        let over_ends: Vec<_> = (3..6).map(|n| (n * block - 3, 6)).collect();
        let apart: Vec<_> = (6..14).map(|n| (n * block + 7, 2)).collect();
        let (row, from_an_end) = ([(16 * block - 3, block)], [(19 * block, block + 1)]);
        let areas: [(&str, &[(u64, u64)]); 6] = [
            ("over ends of blocks", &over_ends),
            ("some of one block", &scattered[..4]),
            ("in blocks of their own", &apart),
            ("scattered", &scattered),
            ("in a row", &row),
            ("from the end of a block", &from_an_end),
        ];
        let (mut at, page, linear) = (0, self.g.page_size(), (self.g.base(Half::Upper), self.va(0)));
        for (what, pieces) in areas {
            let first = at;
            for &(ram, pages) in pieces {
                self.map(self.area(at).0, ram, pages);
                at += pages;
            }
            self.set_memory(what, linear, (self.area(first), at - first));
        }
        self.collapse("collapse");
        self.set_memory("of all of these", linear, (self.area(0), at));
        // The area has blocks, too.
        let first = self.area(at.next_multiple_of(block)).0;
        self.map(first, 20 * block, 2 * block);
        self.set_memory("over an end of an area's blocks", linear, (Va(first + (block - 2) * page), 4));
        // The area is the linear map's RAM, and its aliases are above it.
        let above = (first.wrapping_sub(20 * block * page), Va(first));
        self.set_memory("below its aliases", above, (self.va(20 * block + 9), block));
    }

    /// Maps pages of RAM at another address, too.
    fn map(&self, va: u64, ram: u64, pages: u64) {
        let (pa, attributes) = (Pa(ram * self.g.page_size()), Attributes::KERNEL_DATA);
        // SAFETY: no CPU uses these addresses.
        unsafe { self.space.on(&self.counting.platform()).map(Va(va), pages, pa, attributes) }
            .expect("a hole");
    }

    /// Pages become read-only, and writable again, with their aliases at an offset, in the half that has an address.
    fn set_memory(&mut self, what: &str, (offset, aliases): (u64, Va), (va, pages): (Va, u64)) {
        let half = 1 << (self.g.va_bits() - 1);
        let range = (Va(aliases.0 & !(half - 1)), Va(aliases.0 | (half - 1)));
        self.note(&format!("memory {what} read-only"), |map, platform| {
            let mut aliased = Aliased::new(map.space.on(platform), offset, Rodata::Full).in_range(range);
            // SAFETY: no CPU uses these addresses.
            unsafe { aliased.set_memory_ro(va, pages) }.expect("it is mapped");
        });
        self.note(&format!("memory {what} writable"), |map, platform| {
            let mut aliased = Aliased::new(map.space.on(platform), offset, Rodata::Full).in_range(range);
            // SAFETY: as above.
            unsafe { aliased.set_memory_rw(va, pages) }.expect("it is mapped");
        });
    }

    /// Leaves become pages.
    fn in_pages(&mut self) {
        let block = self.block();
        self.note("a block to pages", |map, platform| {
            map.space.on(platform).split_to_pages(map.va(block), block).expect("it may");
        });
        self.note("half of a block to pages", |map, platform| {
            map.space.on(platform).split_to_pages(map.va(2 * block), block / 2).expect("it may");
        });
        self.note("many blocks to pages", |map, platform| {
            map.space.on(platform).split_to_pages(map.va(block / 2), 9 * block).expect("it may");
        });
        self.collapse("collapse");
        let keep = [(self.va(0), Va(self.va(block).0 - 1))];
        self.note("repaint", |map, platform| {
            map.space.on(platform).repaint(linear_range(map.g), &keep).expect("it may");
        });
    }

    /// All to pages, while something changes before each hold.
    fn repaint_beside_changes(&mut self) {
        let last = self.ram / self.g.page_size() - 1;
        let (space, memory, va) = (self.space.clone(), self.counting.memory.clone(), self.va(last));
        self.counting.before_each_hold(move |n| {
            let change = if n % 2 == 0 { Change::READ_ONLY } else { Change::WRITABLE };
            // SAFETY: no CPU uses these addresses.
            match unsafe { space.on(&memory.platform()).protect(va, 1, change) } {
                // The repaint has claimed the range.
                Err(ChangeError::Busy { .. }) => (),
                changed => changed.expect("it is mapped"),
            }
        });
        self.note("repaint beside changes", |map, platform| {
            map.space.on(platform).repaint(linear_range(map.g), &[]).expect("it may");
        });
        self.counting.before_each_hold(|_| ());
    }
}

/// Returns the work of all operations, with holds of this length.
fn work<const HOLD: usize>(g: Geometry) -> String {
    let mut text = String::new();
    for part in [Map::changes, Map::mappings, Map::aliases, Map::in_pages, Map::repaint_beside_changes] {
        let mut map = Map::<HOLD>::new(g);
        part(&mut map);
        text += &map.lines;
        let all = (Va(g.base(Half::Upper)), Va(u64::MAX));
        let platform = map.counting.platform();
        assert_eq!(
            map.space.on(&platform).stats(),
            map.space.on(&platform).read(|reader| reader.count(all)),
            "{g:?}"
        );
    }
    text
}

#[test]
fn the_work_is_what_is_stored() {
    let geometries = [
        Geometry::new(Granule::K4, 48, OaFormat::Bits48),
        Geometry::new(Granule::K16, 47, OaFormat::Bits48),
        Geometry::new(Granule::K64, 42, OaFormat::Bits48),
    ];
    let now: String =
        geometries.map(|g| g.expect("a geometry")).map(|g| work::<2048>(g) + &work::<64>(g)).concat();
    is_as_stored(STORED, &now);
}
