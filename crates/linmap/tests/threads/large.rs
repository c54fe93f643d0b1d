//! A call over many gigabytes takes the locks of all of them: another caller's change of a page there is not lost, no table
//! page is, and what is pending there is found. There are as many gigabytes as any number of locks can tell apart, and more.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use linmap::arch::Entry;
use linmap::host::{SharedMemory, Threads};
use linmap::{Attributes, Change, ChangeFlags, Combined, Half, Pa, Policy, SharedSpace, Tree, Va};
use test_support::{Random, Rows, with_locks};

use crate::interrupted::Interrupted;
use crate::{GIGABYTE, geometry};

/// Returns the change that sets a software bit, or clears it.
fn software_bit(value: u64) -> Change {
    let (bit, none) = (Attributes::from_bits_retain(1 << 55), Attributes::empty());
    let (set, clear) = if value == 1 { (bit, none) } else { (none, bit) };
    Change::new(set, clear).expect("a software bit")
}

/// A map of gigabytes, and nothing else.
struct Large<const LOCKS: usize> {
    memory: SharedMemory,
    threads: Threads<LOCKS>,
    space: SharedSpace,
    gigabytes: u64,
}

impl<const LOCKS: usize> Large<LOCKS> {
    fn new(gigabytes: u64) -> Self {
        let g = geometry();
        let (memory, threads) = (SharedMemory::new(g, 4096), Threads::new());
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
        let space = SharedSpace::adopt(tree);
        space.set_policy(Policy::Live);
        let map = Self { memory, threads, space, gigabytes };
        // SAFETY: no CPU uses these tables.
        unsafe { map.space.on(&map.platform()).map(map.page(0), map.pages(), Pa(1 << 46), Attributes::RAM) }
            .expect("room");
        map
    }

    fn platform(&self) -> Combined<'_, SharedMemory, Threads<LOCKS>> {
        // SAFETY: nothing else locks these tables.
        unsafe { self.memory.platform(&self.threads) }
    }

    fn pages(&self) -> u64 {
        self.gigabytes * GIGABYTE
    }

    fn page(&self, number: u64) -> Va {
        Va(geometry().base(Half::Upper) + (number << 12))
    }

    /// Makes a page read-only and writable again and merges its gigabyte, so many times.
    fn protects(&self, page: Va, times: u32) {
        let (p, space) = (&self.platform(), &self.space);
        for _ in 0..times {
            // SAFETY: no CPU uses these tables.
            unsafe { space.on(p).protect(page, 1, Change::READ_ONLY) }.expect("mapped");
            let Some((_, _, Entry::Leaf(leaf))) = space.on(p).read(|reader| reader.entry(page)) else {
                panic!("{page} is mapped")
            };
            assert!(leaf.attributes.contains(Attributes::READ_ONLY), "{page} was made read-only");
            // SAFETY: as above.
            unsafe { space.on(p).protect(page, 1, Change::WRITABLE) }.expect("mapped");
            space.on(p).collapse(page, 1).expect("mapped");
        }
    }

    /// Changes a software bit of all pages again and again.
    fn changes(&self, done: &AtomicBool) {
        let p = self.platform();
        while !done.load(Relaxed) {
            for change in [1, 0].map(software_bit) {
                // SAFETY: no CPU uses these tables.
                unsafe { self.space.on(&p).protect(self.page(0), self.pages(), change) }.expect("mapped");
            }
        }
    }

    /// The counts are those of the tables, and no table page is lost.
    fn the_end(&self) {
        self.threads.readers().give_back(&self.memory);
        self.space.on(&self.platform()).trim();
        let (stats, range) =
            (self.space.on(&self.platform()).stats(), (self.page(0), self.page(self.pages() - 1)));
        assert_eq!(stats, self.space.on(&self.platform()).read(|reader| reader.count(range)), "the counts");
        assert_eq!(self.memory.in_use() as u64, stats.tables, "no page is lost");
    }
}

/// One caller changes all gigabytes, and another one a page.
fn keeps_a_page_read_only<const LOCKS: usize>(seed: u64, gigabytes: u64) {
    let map = &Large::<LOCKS>::new(gigabytes);
    let page = map.page(Random::new(seed).below(map.pages()));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let all = scope.spawn(|| map.changes(&done));
        let one = scope.spawn(|| map.protects(page, 30)).join();
        done.store(true, Relaxed);
        one.expect("a page is what its caller made it");
        all.join().expect("nothing is refused");
    });
    map.the_end();
}

/// The same on one thread: the other caller comes at each load of the long call, unless it would wait for a lock.
fn keeps_a_page_beside_each_load<const LOCKS: usize>(seed: u64, gigabytes: u64) {
    let map = Large::<LOCKS>::new(gigabytes);
    let (space, random) = (&map.space, &mut Random::new(seed));
    let number = random.below(map.pages());
    let (page, read_only) = (map.page(number), Cell::new(false));
    // A leaf of a gigabyte is one of a run of sixteen, whose locks it takes to cut the leaf.
    let run = number / GIGABYTE / 16 * 16;
    let locks = (run..run + 16).fold(0, |locks, n| locks | 1 << (n % LOCKS as u64));
    let other = |p: &Interrupted<'_, LOCKS>| {
        let change = if read_only.get() { Change::WRITABLE } else { Change::READ_ONLY };
        // SAFETY: no CPU uses these tables.
        if unsafe { space.on(p).protect(page, 1, change) }.is_ok() {
            read_only.set(!read_only.get());
        }
    };
    let p = Interrupted::<LOCKS>::new(&map.memory, &other, locks);
    for change in [0, 1, 0, 1].map(software_bit) {
        // SAFETY: as above.
        unsafe { space.on(&p).protect(map.page(0), map.pages(), change) }.expect("mapped");
        let now = space.on(&map.platform()).read(|reader| reader.entry(page));
        let Some((_, _, Entry::Leaf(leaf))) = now else { panic!("{page} is mapped") };
        assert_eq!(leaf.attributes.contains(Attributes::READ_ONLY), read_only.get(), "{page}");
    }
    map.the_end();
}

/// Finds that all that a call left for later is pending for each page.
fn finds_what_is_pending<const LOCKS: usize>(seed: u64, gigabytes: u64) {
    let map = Large::<LOCKS>::new(gigabytes);
    let p = &map.platform();
    let page = map.page(Random::new(seed).below(map.pages()));
    // SAFETY: no CPU uses these tables.
    unsafe { map.space.on(p).change(map.page(0), map.pages(), Change::READ_ONLY, ChangeFlags::LATER) }
        .expect("mapped");
    let before = map.space.on(p).changes().invalidations;
    map.space.on(p).flush(page, 1).expect("in the half");
    assert!(map.space.on(p).changes().invalidations > before, "{page} is pending");
}

/// Numbers of gigabytes around some numbers of locks and their halves, and one that is drawn. `Cover` is tested with all of them.
fn each(case: impl Fn(u64, usize, u64)) {
    let mut rows = Rows::new();
    for locks in [1, 8, 64] {
        let number = locks as u64;
        for gigabytes in [number / 2 + 1, number / 2 + 8, number - 1, number, number + 1] {
            rows.row(|seed| case(seed, locks, gigabytes.max(1)));
        }
        rows.row(|seed| case(seed, locks, Random::new(!seed).size(1 << 10)));
    }
}

#[test]
fn a_page_stays_read_only_beside_a_call_over_many_gigabytes() {
    each(|seed, locks, gigabytes| {
        with_locks!(locks, LOCKS in [1 8 64] => keeps_a_page_read_only::<LOCKS>(seed, gigabytes));
    });
}

#[test]
fn nor_is_it_lost_at_any_load_of_that_call() {
    each(|seed, locks, gigabytes| {
        with_locks!(locks, LOCKS in [1 8 64] => keeps_a_page_beside_each_load::<LOCKS>(seed, gigabytes));
    });
}

#[test]
fn what_is_pending_over_many_gigabytes_is_pending_for_each_page() {
    each(
        |seed, locks, gigabytes| with_locks!(locks, LOCKS in [1 8 64] => finds_what_is_pending::<LOCKS>(seed, gigabytes)),
    );
}
