//! A fault handler asks about an address, and learns that a remake has taken it out, that the step of a remake failed there, or
//! that neither is so. The answer is about the memory that was taken out, and not about what is mapped there afterwards.

use linmap::error::RemakeError;
use linmap::host::{Host, HostMemory};
use linmap::{
    Attributes, Change, Geometry, Granule, Half, MemoryType, OaFormat, Pa, Policy, Remake, Remaking,
    SharedSpace, Tree, Va,
};

/// The pages of the map.
const PAGES: u64 = 2048;
const NOT_CACHEABLE: Remake = Remake::memory_type(MemoryType::NORMAL_NC);

struct Map<'m> {
    space: SharedSpace,
    platform: Host<'m>,
    base: u64,
}

impl<'m> Map<'m> {
    /// RAM in four blocks.
    fn new(memory: &'m HostMemory, g: Geometry) -> Self {
        let platform = memory.platform();
        let space =
            SharedSpace::adopt(Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("a root"));
        space.set_policy(Policy::Live);
        let map = Self { space, platform, base: g.base(Half::Upper) };
        map.map(0, PAGES);
        map
    }

    fn at(&self, page: u64) -> Va {
        Va(self.base + (page << 12))
    }

    fn map(&self, page: u64, pages: u64) {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.platform).map(self.at(page), pages, Pa(page << 12), Attributes::RAM) }
            .expect("mapped");
    }

    fn unmap(&self, page: u64, pages: u64) {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.platform).unmap(self.at(page), pages) }.expect("unmapped");
    }

    fn set_valid(&self, page: u64, pages: u64, valid: bool) {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.platform).set_valid(self.at(page), pages, valid) }.expect("set");
    }

    fn change(&self, page: u64, pages: u64, change: Change) {
        // SAFETY: no CPU uses these tables.
        unsafe { self.space.on(&self.platform).protect(self.at(page), pages, change) }.expect("changed");
    }

    /// A remake whose step fails.
    fn fails(&self, page: u64, pages: u64) {
        // SAFETY: no CPU uses these tables.
        let failed = unsafe {
            self.space.on(&self.platform).remake(self.at(page), pages, NOT_CACHEABLE, || Err::<(), _>(7))
        };
        assert_eq!(failed, Err(RemakeError::Step { va: self.at(page), pages, error: 7 }));
    }

    fn said(&self, page: u64) -> Option<Remaking> {
        self.space.on(&self.platform).remaking(Va(self.at(page).0 + 8))
    }
}

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

#[test]
fn what_comes_in_the_place_of_memory_that_is_out_has_not_failed() {
    let memory = HostMemory::new(geometry(), 16);
    let map = Map::new(&memory, geometry());
    map.fails(8, 2);
    assert_eq!(
        [7, 8, 9, 10].map(|page| map.said(page)),
        [None, Some(Remaking::Failed), Some(Remaking::Failed), None]
    );
    map.unmap(8, 1);
    assert_eq!([8, 9].map(|page| map.said(page)), [None, Some(Remaking::Failed)]);
    map.map(8, 1);
    assert_eq!(map.said(8), None);
    map.set_valid(8, 1, false);
    assert_eq!(map.said(8), None, "a guard's");
}

#[test]
fn memory_that_was_brought_back_has_not_failed() {
    let memory = HostMemory::new(geometry(), 16);
    let map = Map::new(&memory, geometry());
    map.fails(100, 3);
    // By one page, by a few, and by a change of both validity and permissions.
    map.set_valid(100, 1, true);
    map.set_valid(101, 1, true);
    map.change(102, 1, Change::VALID.and(Change::READ_ONLY));
    assert_eq!([100, 101, 102].map(|page| map.said(page)), [None; 3]);
    map.set_valid(100, 3, false);
    assert_eq!([100, 101, 102].map(|page| map.said(page)), [None; 3], "a guard's");
    // A remake takes out what is out, and brings all of it back.
    map.fails(99, 3);
    assert_eq!([99, 100, 101, 102].map(|page| map.said(page).is_some()), [true, true, true, false]);
    // SAFETY: no CPU uses these tables.
    let back = unsafe {
        map.space.on(&map.platform).remake(map.at(99), 3, Remake::NONE, || {
            assert_eq!([99, 100, 101].map(|page| map.said(page)), [Some(Remaking::UnderWay); 3]);
            Ok::<_, ()>(())
        })
    };
    assert_eq!((back, map.said(100)), (Ok(()), None));
}

#[test]
fn memory_that_is_out_stays_so_whatever_else_changes() {
    let memory = HostMemory::new(geometry(), 32);
    let map = Map::new(&memory, geometry());
    let failed = |pages: &[u64]| pages.iter().all(|page| map.said(*page) == Some(Remaking::Failed));
    // A block, of which a part gets other permissions.
    map.fails(512, 512);
    map.change(515, 20, Change::READ_ONLY);
    map.change(600, 1, Change::NOT_GLOBAL);
    map.set_valid(601, 1, false);
    assert_eq!(map.space.on(&map.platform).split_to_pages(map.at(700), 10), Ok(()));
    assert_eq!(map.space.on(&map.platform).collapse(map.at(0), PAGES), Ok(()));
    assert!(failed(&[512, 515, 520, 600, 601, 700, 1023]));
    let range = (map.at(0), Va(map.base + ((1 << 39) - 1)));
    assert!(map.space.on(&map.platform).repaint(range, &[]).is_ok());
    assert!(failed(&[512, 515, 520, 600, 601, 700, 1023]));
    assert_eq!([511, 1024].map(|page| map.said(page)), [None; 2]);
}

#[test]
fn every_range_that_failed_is_known() {
    let memory = HostMemory::new(geometry(), 16);
    let map = Map::new(&memory, geometry());
    (0..100).for_each(|n| map.fails(3 * n, 1));
    assert!((0..300).all(|page| map.said(page).is_some() == (page % 3 == 0)));
}

#[test]
fn no_change_of_bits_says_so() {
    assert!(Change::new(Attributes::TAKEN_OUT, Attributes::empty()).is_none());
    assert!(Change::from_bits(Attributes::TAKEN_OUT.bits(), 0).is_err());
    let memory = HostMemory::new(geometry(), 16);
    let map = Map::new(&memory, geometry());
    map.unmap(0, 2);
    let attributes = Attributes::RAM | Attributes::TAKEN_OUT;
    // SAFETY: no CPU uses these tables.
    unsafe { map.space.on(&map.platform).map(map.at(0), 2, Pa(0), attributes) }.expect("mapped");
    map.set_valid(0, 1, false);
    assert_eq!([0, 1].map(|page| map.said(page)), [None; 2]);
}
