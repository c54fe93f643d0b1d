//! Several threads change one map, and others read it, on the host's CPUs: in gigabytes of their own, across the borders
//! of gigabytes, and in one that all share page by page.
//!
//! Each page belongs to one thread, which knows what it must be. At any time it finds its own pages so, whatever others do
//! to the same tables. In the end the counts are those of the tables, and no page is lost. Readers never meet a page that
//! was given back: such pages are spoilt. The controls lack locks or the grace period.

mod area;
mod few_pages;
mod interrupted;
mod large;
mod platform;

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use area::{Area, Page, at, pa_of};
use linmap::arch::{Entry, Level};
use linmap::error::ChangeError;
use linmap::host::Threads;
use linmap::read::{Checks, MarkedRange};
use linmap::{
    Attributes, Change, ChangeFlags, Combined, Geometry, Granule, Half, OaFormat, Platform, Policy, Reserved,
    SharedSpace, Tree, Va,
};
use platform::{Lack, Lacking, Spoiling};
use test_support::{Random, with_locks};

/// The number of threads that change the map.
const THREADS: u64 = 3;
/// The pages of a gigabyte.
const GIGABYTE: u64 = 1 << 18;
/// The gigabyte in which each thread has every third chunk.
const SHARED: u64 = THREADS + 1;
/// The gigabytes of the window, and the most that a map has.
const WINDOW: u64 = SHARED + 1;
const MOST: u64 = 1 << 16;
/// The pages of a chunk.
const CHUNK: u64 = 5;
/// The chunks in the shared gigabyte.
const CHUNKS: u64 = 180;
/// The pages before and after the border of two gigabytes that belong to one thread.
const BORDER: u64 = 300;

/// Pages that belong to all threads: their first, in the shared gigabyte, and their number. They are mapped and unmapped
/// together.
const COMMON: (u64, u64) = (SHARED * GIGABYTE + 100_003, 300);

fn geometry() -> Geometry {
    Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry")
}

/// Returns the areas of a thread.
fn areas(thread: u64) -> Vec<Area> {
    let start = thread * GIGABYTE;
    let mut all = vec![Area::new(start + BORDER, 50_000), Area::new(start + GIGABYTE - BORDER, 2 * BORDER)];
    // Chunks begin before a border of blocks, and go beyond it.
    let shared = SHARED * GIGABYTE + 200;
    let chunks = (0..CHUNKS).filter(|chunk| chunk % THREADS == thread);
    all.extend(chunks.map(|chunk| Area::new(shared + chunk * CHUNK, CHUNK)));
    all
}

/// A map that several threads change.
struct Map<'p, P> {
    space: SharedSpace,
    platform: &'p P,
    /// The first address of the window.
    base: u64,
    /// The first address of the map, and its gigabytes.
    all: (Va, u64),
    /// The ranges that are mapped besides the window, by gigabytes of the map: the first and the number.
    parts: Vec<(u64, u64)>,
    done: AtomicBool,
}

impl<P: Platform> Map<'_, P> {
    /// One operation of a thread, on its own pages or, where it changes no translation, on any. Then a look at one of them.
    fn change(&self, random: &mut Random, areas: &mut [Area]) {
        if random.one_in(200) {
            return self.change_far(random);
        }
        if random.one_in(3) {
            return self.change_common(random);
        }
        // The two large areas as often as all others.
        let number = if random.one_in(2) { random.index(2) } else { random.index(areas.len()) };
        let area = &mut areas[number];
        let part = area.part(random);
        let flag = random.one_in(2);
        match random.below(13) {
            0..7 => self.change_mapped(random, area, part, flag),
            7..9 => self.map(area, part, flag),
            _ => self.resize(random, area, part, flag),
        }
        let number = part.0 + random.index(part.1);
        let (first, _, entry) = self
            .space
            .on(self.platform)
            .read(|reader| reader.entry(at(self.base, area.first + number as u64)))
            .expect("in the half");
        area.judge(self.base, number, entry, first);
    }

    /// Calls until no claim is in the way. Nothing has been done before.
    fn until_done(&self, call: impl Fn() -> Result<(), ChangeError>) -> Result<(), ChangeError> {
        loop {
            match call() {
                Err(ChangeError::Busy { .. }) if !self.platform.wait() => thread::yield_now(),
                done => return done,
            }
        }
    }

    fn range(&self, area: &Area, part: (usize, usize)) -> (Va, u64) {
        (at(self.base, area.first + part.0 as u64), part.1 as u64)
    }

    /// Changes software bits, or the sizes of leaves, of a large part of the map, holes included. Few of its leaves are pages.
    fn change_far(&self, random: &mut Random) {
        // A hold takes all locks, and lets other threads run meanwhile: all of a large map is seldom worth it.
        let most = if random.one_in(100) { MOST } else { 256 };
        let gigabytes = random.size(self.all.1.min(most));
        let first = random.below(self.all.1 - gigabytes + 1);
        let (va, pages) = (Va(self.all.0.0 + (first << 30)), gigabytes * GIGABYTE);
        let (bit, none) = (Attributes::from_bits_retain(1 << 55), Attributes::empty());
        let (set, clear) = if random.one_in(2) { (bit, none) } else { (none, bit) };
        let change = Change::new(set, clear).expect("software bits");
        let later = if random.one_in(3) { ChangeFlags::LATER } else { ChangeFlags::empty() };
        let collapses = random.one_in(4);
        let done = self.until_done(|| {
            if collapses {
                return self.space.on(self.platform).collapse(va, pages);
            }
            // SAFETY: no CPU uses these tables, and each page has one address.
            unsafe {
                self.space.on(self.platform).change(va, pages, change, ChangeFlags::SKIP_HOLES | later)
            }?;
            self.space.on(self.platform).flush(va, pages)
        });
        assert_eq!(done, Ok(()));
    }

    /// Changes the pages that belong to all threads. At any moment all are mapped or none is, so an error is of the first.
    fn change_common(&self, random: &mut Random) {
        let (space, p) = (&self.space, self.platform);
        let all = (at(self.base, COMMON.0), COMMON.1);
        let first = random.below(COMMON.1 - 20);
        let some = (at(self.base, COMMON.0 + first), 1 + random.below(20));
        let change = if random.one_in(2) { Change::READ_ONLY } else { Change::WRITABLE };
        let kind = random.below(8);
        // A short operation is on a part, which may be one that a long operation has reached and one that it has not.
        let (va, pages) = if kind < 4 { some } else { all };
        // SAFETY: no CPU uses these tables, and each page has one address.
        let done = self.until_done(|| unsafe {
            match kind {
                0..5 => space.on(p).protect(va, pages, change),
                5 => space.on(p).unmap(va, pages),
                6 => space.on(p).map(va, pages, pa_of(self.base, va), Attributes::RAM),
                _ => space.on(p).split_to_pages(va, pages),
            }
        });
        let refused = if kind == 6 { ChangeError::Occupied { va } } else { ChangeError::Hole { va } };
        // A split changes no translation, so it claims nothing, and may find that others unmap the rest.
        let split = kind == 7 && matches!(done, Err(ChangeError::Hole { .. }));
        assert!(done == Ok(()) || done == Err(refused) || split, "not all or nothing: {done:?}, {kind}");
    }

    /// Changes pages that must be mapped.
    fn change_mapped(&self, random: &mut Random, area: &mut Area, part: (usize, usize), flag: bool) {
        let (space, p, (va, pages)) = (&self.space, self.platform, self.range(area, part));
        let kind = random.below(7);
        let change = if flag { Change::READ_ONLY } else { Change::WRITABLE };
        // SAFETY: no CPU uses these tables, and each page has one address.
        let done = self.until_done(|| unsafe {
            match kind {
                0..3 => space.on(p).protect(va, pages, change),
                // With table pages that were taken before.
                3 => space.on(&Reserved::take(p, space.most_tables())?).protect(va, pages, change),
                4..6 => space.on(p).set_valid(va, pages, flag),
                _ => space.on(p).unmap(va, pages),
            }
        });
        assert_eq!(done, area.hole(self.base, part));
        if done.is_ok() {
            area.set(part, |page| {
                let page = page?;
                match kind {
                    0..4 => Some(Page { read_only: flag, ..page }),
                    4..6 => Some(Page { valid: flag, ..page }),
                    _ => None,
                }
            });
        }
    }

    fn map(&self, area: &mut Area, part: (usize, usize), flag: bool) {
        let (va, pages) = self.range(area, part);
        let attributes = if flag { Attributes::RAM | Attributes::READ_ONLY } else { Attributes::RAM };
        let pa = pa_of(self.base, va);
        // SAFETY: no CPU uses these tables, and each page has one address.
        let done = self.until_done(|| unsafe { self.space.on(self.platform).map(va, pages, pa, attributes) });
        assert_eq!(done, area.occupied(self.base, part));
        if done.is_ok() {
            area.set(part, |_| Some(Page { read_only: flag, valid: true }));
        }
    }

    /// Changes the sizes of leaves, and no translation.
    fn resize(&self, random: &mut Random, area: &Area, part: (usize, usize), flag: bool) {
        let (space, p, (va, pages)) = (&self.space, self.platform, self.range(area, part));
        match random.below(4) {
            0 => {
                let done = self.until_done(|| space.on(p).split_to_pages(va, pages));
                assert_eq!(done, area.hole(self.base, part));
            }
            1 => {
                let pinned = self.until_done(|| space.on(p).pin(va, pages));
                assert_eq!(pinned, area.hole(self.base, part));
                if pinned.is_ok() {
                    assert_eq!(self.until_done(|| space.on(p).collapse(va, pages)), Ok(()));
                    let level = space.on(p).read(|reader| reader.entry(va)).map(|(_, level, _)| level);
                    assert_eq!(level, Some(Level::PAGE), "a pinned page is merged with nothing");
                    assert_eq!(self.until_done(|| space.on(p).unpin(va, pages)), Ok(()));
                }
            }
            _ => {
                // A gigabyte, or what surrounds the part.
                let (first, pages) = if flag { (va.0 & !0x3fff_ffff, GIGABYTE) } else { (va.0, pages) };
                assert_eq!(self.until_done(|| space.on(p).collapse(Va(first), pages)), Ok(()));
            }
        }
    }

    /// Reads what others change, until they are done.
    fn read(&self, random: &mut Random) {
        let (space, platform) = (&self.space, self.platform);
        let end = WINDOW * GIGABYTE;
        while !self.done.load(Relaxed) {
            let first = random.below(end);
            let last = (first + random.below(20_000)).min(end);
            let range = (at(self.base, first), at(self.base, last));
            match random.below(5) {
                0 => {
                    _ = space
                        .on(platform)
                        .read(|reader| reader.entry(range.0))
                        .map(|(va, _, entry)| self.judge(va, entry));
                }
                1 => _ = space.on(platform).read(|reader| reader.count(range)),
                2 => {
                    let range = MarkedRange { range, start: "a part", end: "its end" };
                    assert!(space.on(platform).read(|reader| reader.dump(range, &mut String::new())).is_ok());
                }
                3 if random.one_in(20) => {
                    // A run may be half dissolved, which is a finding now and none in the end.
                    _ = space
                        .on(platform)
                        .read(|reader| reader.check(&Checks::default(), |_| ControlFlow::Continue(())));
                }
                _ => {
                    let visited = space.on(platform).read(|reader| {
                        reader.visit(range, |visited| {
                            self.judge(visited.va, visited.entry);
                            ControlFlow::Continue(())
                        })
                    });
                    assert_eq!(visited, ControlFlow::Continue(()));
                }
            }
        }
    }

    /// Panics if the tables are not as they must be when nobody changes them.
    fn the_end<'a>(&self, areas: impl Iterator<Item = &'a Area>) {
        let all = WINDOW * GIGABYTE;
        let range = (at(self.base, 0), at(self.base, all - 1));
        let mut expected = vec![Some(Page::RAM); all as usize];
        areas.for_each(|area| {
            expected[area.first as usize..][..area.pages.len()].copy_from_slice(&area.pages);
        });
        let mut found = vec![None; all as usize];
        let visited = self.space.on(self.platform).read(|reader| {
            reader.visit(range, |visited| {
                self.judge(visited.va, visited.entry);
                if let Entry::Leaf(leaf) = visited.entry {
                    let first = (visited.va.0 - self.base) as usize >> 12;
                    let pages = 1 << (geometry().level_shift(visited.level) - 12);
                    let read_only = leaf.attributes.contains(Attributes::READ_ONLY);
                    found[first..first + pages].fill(Some(Page { read_only, valid: leaf.valid }));
                }
                ControlFlow::Continue(())
            })
        });
        assert_eq!(visited, ControlFlow::Continue(()));
        let common = COMMON.0 as usize..(COMMON.0 + COMMON.1) as usize;
        let mapped = found[common.clone()].iter().flatten().count();
        assert!([0, common.len()].contains(&mapped), "{mapped} of the common pages are mapped");
        expected[common.clone()].copy_from_slice(&found[common]);
        let differ = (0..all as usize).find(|&page| expected[page] != found[page]);
        assert_eq!(differ.map(|page| (page, expected[page], found[page])), None, "a page differs");
        let map = (self.all.0, Va(self.all.0.0 + ((self.all.1 << 30) - 1)));
        assert_eq!(
            self.space.on(self.platform).stats(),
            self.space.on(self.platform).read(|reader| reader.count(map)),
            "the counts"
        );
        self.besides(map);
        _ = self
            .space
            .on(self.platform)
            .read(|reader| reader.check(&Checks::default(), |finding| panic!("{finding:?}")));
    }

    /// Panics if what is mapped besides the window is not as it was.
    fn besides(&self, map: (Va, Va)) {
        let mut found: Vec<(u64, u64)> = Vec::new();
        _ = self.space.on(self.platform).read(|reader| {
            reader.visit(map, |visited| {
                self.judge(visited.va, visited.entry);
                let gigabyte = (visited.va.0 - self.all.0.0) >> 30;
                let in_window = (visited.va.0.wrapping_sub(self.base)) >> 30 < WINDOW;
                if let (Entry::Leaf(leaf), false) = (visited.entry, in_window) {
                    assert!(
                        leaf.valid && !leaf.attributes.contains(Attributes::READ_ONLY),
                        "at {}",
                        visited.va
                    );
                    let bytes = geometry().level_size(visited.level);
                    match found.last_mut() {
                        Some((first, length)) if (*first << 30) + *length == visited.va.0 - self.all.0.0 => {
                            *length += bytes;
                        }
                        _ => found.push((gigabyte, bytes)),
                    }
                }
                ControlFlow::Continue(())
            })
        });
        let mut expected: Vec<(u64, u64)> = Vec::new();
        for &(first, length) in &self.parts {
            match expected.last_mut() {
                Some((before, bytes)) if *before + (*bytes >> 30) == first => *bytes += length << 30,
                _ => expected.push((first, length << 30)),
            }
        }
        assert_eq!(found, expected, "what is mapped besides the window");
    }

    /// Panics if an entry is none that this map ever has.
    fn judge(&self, va: Va, entry: Entry) {
        if matches!(entry, Entry::Table(_)) {
            // The reader has found a table, and is about to read it.
            thread::yield_now();
        }
        match entry {
            Entry::Leaf(leaf) => assert_eq!(leaf.oa, pa_of(self.base, va), "at {va}"),
            Entry::Table(_) | Entry::Hole => (),
            other => panic!("{va} is {other:?}"),
        }
    }
}

/// Ends the readers, also if a thread fails.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Lets threads change a map, with readers beside them. Each makes `changes` changes. Returns true if all was well.
fn holds<const LOCKS: usize, const HOLD: usize>(seed: u64, changes: u64, lack: Lack) -> bool {
    let threads = Threads::<LOCKS, HOLD>::new();
    // Callers that overlap a claim are told that it is busy, in every other case.
    let threads = if seed.is_multiple_of(2) { threads } else { threads.never_waits() };
    let g = geometry();
    let memory = Spoiling::new(g, 8192);
    let hardware = Lacking::new(threads, lack);
    // SAFETY: nothing else locks the tables of this memory.
    let platform = unsafe { Combined::new(&memory, &hardware) };
    let tree = Tree::build(&platform, g, Half::Upper, std::iter::empty()).expect("a root");
    let (space, start) = (SharedSpace::adopt(tree), g.base(Half::Upper));
    space.set_policy(Policy::Live);
    let random = &mut Random::new(!seed);
    let gigabytes = WINDOW + random.size(MOST - WINDOW);
    let window = random.below(gigabytes - WINDOW + 1);
    let (base, parts) = (start + (window << 30), random.parts(gigabytes, (window, WINDOW)));
    for (first, length) in parts.iter().copied().chain([(window, WINDOW)]) {
        let va = Va(start + (first << 30));
        // SAFETY: no CPU uses these tables.
        unsafe { space.on(&platform).map(va, length * GIGABYTE, pa_of(base, va), Attributes::RAM) }
            .expect("room");
    }
    let (all, done) = ((Va(start), gigabytes), AtomicBool::new(false));
    let map = Map { space, platform: &platform, base, all, parts, done };
    let work = &|thread: u64| {
        let (mut random, mut areas) = (Random::new(seed ^ thread << 48), areas(thread));
        (0..changes).for_each(|_| map.change(&mut random, &mut areas));
        areas
    };
    let map = &map;
    let (read, results) = thread::scope(|scope| {
        let reader = scope.spawn(|| map.read(&mut Random::new(!seed)));
        let done = Done(&map.done);
        let workers: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || work(thread))).collect();
        let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        drop(done);
        (reader.join(), results)
    });
    let areas: Result<Vec<_>, _> = results.into_iter().collect();
    let (Ok(()), Ok(areas)) = (read, areas) else { return false };
    hardware.threads.readers().give_back(&memory);
    let well = || {
        map.the_end(areas.iter().flatten());
        assert_eq!(memory.in_use() as u64, map.space.on(&platform).stats().tables, "no page is lost");
        assert_eq!(memory.written.load(Relaxed), 0, "pages written after they were given back");
        assert_eq!(hardware.threads.readers().waiting(), 0);
    };
    catch_unwind(AssertUnwindSafe(well)).is_ok()
}

/// True if a control fails in one of some attempts.
fn fails<const LOCKS: usize, const HOLD: usize>(lack: Lack) -> bool {
    (0..1000).any(|seed| !holds::<LOCKS, HOLD>(seed, 300, lack))
}

/// The same with a number of locks that the seed draws. With few of them, holds are long.
fn holds_with_some_locks(seed: u64, changes: u64) -> bool {
    // Of all that there are: the library is compiled for each.
    with_locks!(Random::new(seed).of(&[1, 8, 64]), LOCKS in [1 8 64] => holds::<LOCKS, { 4096 / LOCKS }>(seed, changes, Lack::Nothing))
}

#[test]
fn callers_in_their_own_pages_do_not_disturb_each_other() {
    test_support::each(16, |seed| assert!(holds_with_some_locks(seed, 2000)));
}

#[test]
fn without_locks_they_do() {
    assert!(fails::<64, 64>(Lack::Locks));
}

#[test]
fn without_a_grace_period_readers_meet_pages_that_were_given_back() {
    assert!(fails::<64, 64>(Lack::GracePeriod));
}
