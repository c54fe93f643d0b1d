//! The model compared with the library: both refuse the same, and each page ends up the same.

use super::*;
extern crate std;
use std::string::ToString;
use std::vec::Vec;

use core::convert::Infallible;
use linmap::arch::Entry;
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::{Attributes, Geometry, Granule, Half, OaFormat, Pa, Policy, Remake, SharedSpace, Tree, Va};

use crate::stress::step::{Operation, Pages, Step};

fn all_states() -> Vec<Page> {
    (0..15).map(Page::of).collect()
}

#[test]
fn each_state_has_a_code() {
    for (code, page) in all_states().into_iter().enumerate() {
        assert_eq!(usize::from(page.code()), code);
        assert_ne!(page.allows(), [Access::Works; 3], "{page:?}");
    }
    assert_eq!(Page::RAM.allows(), [Access::Works, Access::Works, Access::Permission]);
}

#[test]
fn what_is_under_way_is_known_to_others_as_one_of_two() {
    let bytes = [const { AtomicU8::new(0) }; 4];
    let model = Model(&bytes);
    model.set(0..4, Page::RAM);
    model.begin(1..3, Change::ReadOnly);
    let read_only = Page::RAM.after(Change::ReadOnly).unwrap();
    assert_eq!(model.known(1), Known { before: Page::RAM, after: read_only });
    assert_eq!(model.known(3), Known { before: Page::RAM, after: Page::RAM });
    model.end(1..3, false);
    assert_eq!(model.at(2), Page::RAM);
    model.begin(1..3, Change::ReadOnly);
    model.end(1..3, true);
    assert_eq!(model.known(2), Known { before: read_only, after: read_only });
}

#[test]
fn a_range_is_cut_before_what_is_refused() {
    let bytes = [const { AtomicU8::new(0) }; 8];
    let model = Model(&bytes);
    model.set(0..5, Page::RAM);
    assert_eq!(model.refusal(0..8, Change::ReadOnly), Some((5, Refusal::Hole)));
    assert_eq!(model.fitting(0..8, Change::ReadOnly), 0..5);
    assert_eq!(model.fitting(5..8, Change::ReadOnly), 5..8);
    assert_eq!(model.fitting(5..8, Change::Map { skewed: false }), 5..8);
    assert_eq!(model.like_the_first(2..8), 2..5);
    assert_eq!(model.like_the_first(6..8), 6..8);
}

/// A live map in host memory, changed as the model is.
struct Map<'m> {
    memory: &'m HostMemory,
    geometry: Geometry,
    space: SharedSpace,
    pages: Pages,
}

/// The linear range in both memories, and the first address of the vmalloc area.
const PHYSICAL: u64 = 0x10_0000_0000;

impl Map<'_> {
    fn va(&self, page: usize) -> Va {
        let base = self.geometry.base(Half::Upper);
        let area = if page < self.pages.linear { 0 } else { 1 << 32 };
        let number = if page < self.pages.linear { page } else { page - self.pages.linear };
        Va(base + area + ((number as u64) << self.geometry.page_shift()))
    }

    fn oa(&self, page: usize, skewed: bool) -> Pa {
        let number = if page < self.pages.linear { page } else { page - self.pages.linear };
        Pa(PHYSICAL + ((number as u64 + u64::from(skewed)) << self.geometry.page_shift()))
    }

    fn change(&self, pages: &Range<usize>, change: Change) -> Result<(), ChangeError> {
        let (platform, va, count) = (self.memory.platform(), self.va(pages.start), pages.len() as u64);
        // SAFETY: no CPU uses these tables.
        unsafe {
            match change {
                Change::Valid => self.space.on(&platform).set_valid(va, count, true),
                Change::Invalid => self.space.on(&platform).set_valid(va, count, false),
                Change::Unmap => self.space.on(&platform).unmap(va, count),
                Change::Map { skewed } => {
                    let oa = self.oa(pages.start, skewed);
                    self.space.on(&platform).map(va, count, oa, Attributes::RAM)
                }
                Change::Remade { skewed } => {
                    self.space.on(&platform).split_to_pages(va, count)?;
                    let to = Remake::to(self.oa(pages.start, skewed));
                    self.space.on(&platform).remake(va, count, to, || Ok::<_, Infallible>(()))?;
                    Ok(())
                }
                change => match change.permissions() {
                    Some(permissions) => self.space.on(&platform).protect(va, count, permissions),
                    None => unreachable!("{change:?}"),
                },
            }
        }
    }

    /// Returns the state of a page in the tables.
    fn state(&self, page: usize) -> Page {
        let (g, va) = (self.geometry, self.va(page));
        let Some((start, level, Entry::Leaf(leaf))) =
            self.space.on(&self.memory.platform()).read(|reader| reader.entry(va))
        else {
            return Page::Hole;
        };
        let within = va.0 & (g.level_size(level) - 1);
        let oa = leaf.oa.0 + within;
        assert_eq!(start.0 + within, va.0);
        let skewed = Pa(oa) == self.oa(page, true);
        assert!(skewed || Pa(oa) == self.oa(page, false), "page {page} is at {oa:#x}");
        let a = leaf.attributes;
        let (writable, executable) = (a.is_writable(), !a.contains(Attributes::PXN));
        Page::Mapped(Mapped { valid: leaf.valid, writable, executable, skewed })
    }
}

/// Some thousand steps at each page size: the same is refused for the same page, and each page is the same.
#[test]
fn the_library_does_what_the_model_says() {
    for granule in Granule::ALL {
        let geometry = Geometry::new(granule, 48, OaFormat::Bits48).unwrap();
        let memory = HostMemory::new(geometry, 400);
        let empty = Tree::empty(&memory, geometry, Half::Upper).unwrap();
        let pages = Pages { linear: 1500, vmalloc: 1100 };
        let map = Map { memory: &memory, geometry, space: SharedSpace::adopt(empty), pages };
        map.space.set_policy(Policy::Live);
        let bytes: Vec<AtomicU8> = (0..pages.all()).map(|_| AtomicU8::new(0)).collect();
        let model = Model(&bytes);
        map.change(&(0..pages.linear), Change::Map { skewed: false }).unwrap();
        model.set(0..pages.linear, Page::RAM);
        for n in 0..3000 {
            let Step { what, pages: range, fits, .. } = Step::number(5, 0, n, &pages);
            let platform = memory.platform();
            match what {
                Operation::Change(change) => try_change(&map, model, change, range, fits),
                Operation::Restore => {
                    try_change(&map, model, Change::Data, range.clone(), false);
                    try_change(&map, model, Change::Valid, range, false);
                }
                Operation::Remake { skewed } => {
                    try_change(&map, model, Change::Remade { skewed }, range, true);
                }
                Operation::Split if model.like_the_first(range.clone()) == range => {
                    let is_hole = model.at(range.start) == Page::Hole;
                    let split =
                        map.space.on(&platform).split_to_pages(map.va(range.start), range.len() as u64);
                    assert_eq!(split.is_err(), is_hole);
                }
                Operation::Collapse => {
                    map.space.on(&platform).collapse(map.va(range.start), range.len() as u64).unwrap();
                }
                _ => {}
            }
            for page in (0..pages.all()).skip(n as usize % 17).step_by(17) {
                assert_eq!(map.state(page), model.at(page), "{granule}, step {n}, page {page}: {what:?}");
            }
        }
    }
}

fn try_change(map: &Map<'_>, model: Model<'_>, change: Change, range: Range<usize>, fits: bool) {
    let range = if fits { model.fitting(range, change) } else { range };
    let refusal = model.refusal(range.clone(), change);
    let result = map.change(&range, change);
    let told = match result {
        Ok(()) => None,
        Err(ChangeError::Hole { va }) => Some((va, Refusal::Hole)),
        Err(ChangeError::Occupied { va }) => Some((va, Refusal::Occupied)),
        Err(ChangeError::WriteExecute { va }) => Some((va, Refusal::WriteExecute)),
        Err(e) => panic!("{change:?}: {}", e.to_string()),
    };
    assert_eq!(told, refusal.map(|(page, why)| (map.va(page), why)), "{change:?} of {range:?}");
    if refusal.is_none() {
        model.begin(range.clone(), change);
        model.end(range, true);
    }
}
