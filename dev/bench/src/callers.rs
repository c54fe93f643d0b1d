//! Two threads that change maps at the same time: different gigabytes of one map, beside two maps; and the same with one
//! lock for each map.
//!
//! Time passes by the wall clock until both threads are done, since waiting is what is measured. A sample counts only if
//! both threads had a CPU all the time: otherwise they ran one after the other. Samples are short, so that there are such
//! also where the machine has other work. One map and two are measured in turns. How large these are, where their pages are and
//! where they have holes is drawn, since no size is special.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use linmap::host::{SharedMemory, Threads};
use linmap::{
    Attributes, Change, Combined, Geometry, Granule, Half, OaFormat, Pa, Policy, SharedSpace, Tree, Va,
};
use test_support::Random;

use crate::clock::timed;
use crate::document::Document;
use crate::report;
use crate::samples::Samples;

/// The calls of a thread in a sample: about a millisecond, beside which it is short to ask for the time.
const CALLS: u64 = 8192;
/// The rounds that count, and the time after which no other one begins.
const ROUNDS: usize = 101;
const ENOUGH: Duration = Duration::from_secs(20);
/// The part of the time for which a thread must have had a CPU.
const PRESENT: f64 = 0.95;

/// The part of the throughput of two maps that one map is to reach.
const GOAL: f64 = 0.9;

/// The gigabytes of the window, and the most that a map has.
const WINDOW: u64 = 4;
const MOST: u64 = 1 << 16;

/// A map of up to 64 TiB with holes, and in it a window of four gigabytes, each with 2 MiB in pages.
struct Map<const LOCKS: usize> {
    memory: SharedMemory,
    threads: Threads<LOCKS>,
    space: SharedSpace,
    /// The first address of the window.
    base: u64,
}

impl<const LOCKS: usize> Map<LOCKS> {
    fn new(seed: u64) -> Self {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("every granule has 48 bits");
        let (memory, threads) = (SharedMemory::new(g, 1024), Threads::new());
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
        let (space, start, random) = (SharedSpace::adopt(tree), g.base(Half::Upper), &mut Random::new(seed));
        space.set_policy(Policy::Live);
        let gigabytes = WINDOW + random.size(MOST - WINDOW);
        let window = random.below(gigabytes - WINDOW + 1);
        let map = Self { memory, threads, space, base: start + (window << 30) };
        let platform = map.platform();
        for (first, length) in random.parts(gigabytes, (window, WINDOW)).into_iter().chain([(window, WINDOW)])
        {
            let (va, pa) = (Va(start + (first << 30)), Pa(first << 30));
            // SAFETY: no CPU uses these tables.
            unsafe { map.space.on(&platform).map(va, length << 18, pa, Attributes::RAM) }.expect("room");
        }
        for gigabyte in 0..WINDOW {
            map.space.on(&platform).split_to_pages(map.page(gigabyte, 0), 512).expect("room");
        }
        map
    }

    fn platform(&self) -> Combined<'_, SharedMemory, Threads<LOCKS>> {
        // SAFETY: nothing else locks these tables.
        unsafe { self.memory.platform(&self.threads) }
    }

    fn page(&self, gigabyte: u64, number: u64) -> Va {
        Va(self.base + (gigabyte << 30) + (number << 12))
    }

    /// Changes `pages` pages of a gigabyte in each of the calls, all 512 of them by turns to read-only and back.
    fn work(&self, gigabyte: u64, pages: u64) {
        let platform = self.platform();
        for page in (0..CALLS).map(|call| call * pages) {
            let change = if page & 512 == 0 { Change::READ_ONLY } else { Change::WRITABLE };
            let first = self.page(gigabyte, page % 512);
            // SAFETY: no CPU uses these tables.
            unsafe { self.space.on(&platform).protect(black_box(first), pages, change) }
                .expect("nothing to refuse");
        }
    }
}

/// Runs both at the same time. Returns the seconds until both are done, or `None` if one of them had no CPU for a while.
fn seconds(first: impl Fn() + Sync, second: impl Fn() + Sync) -> Option<f64> {
    let ready = AtomicUsize::new(0);
    let both: [&(dyn Fn() + Sync); 2] = [&first, &second];
    let run = |work: &(dyn Fn() + Sync)| {
        ready.fetch_add(1, SeqCst);
        while ready.load(SeqCst) < 2 {
            spin_loop();
        }
        let mut cpu = 0;
        let start = Instant::now();
        timed(&mut cpu, work);
        let end = Instant::now();
        let present = cpu as f64 / 1e9f64 >= PRESENT * end.duration_since(start).as_secs_f64();
        present.then_some((start, end))
    };
    let [one, other] = thread::scope(|scope| {
        both.map(|work| scope.spawn(move || run(work))).map(|thread| thread.join().expect("no thread fails"))
    });
    let (one, other) = (one?, other?);
    let all = one.1.max(other.1).duration_since(one.0.min(other.0)).as_secs_f64();
    let shorter = one.1.duration_since(one.0).min(other.1.duration_since(other.0)).as_secs_f64();
    // Both began at once.
    (shorter >= all / 2.0).then_some(all)
}

/// Measures one map beside two, with changes of so many pages. Returns the share of the throughput of two maps that one
/// has, the nanoseconds of a call with two maps, and the number of rounds.
fn share<const LOCKS: usize>(pages: u64) -> (Samples, Samples, usize) {
    let seed = test_support::seeds(1).next().unwrap_or(0);
    let [one, two @ ..] = [(); 3].map(|()| Map::<LOCKS>::new(seed));
    let together = || seconds(|| one.work(1, pages), || one.work(2, pages));
    let apart = || seconds(|| two[0].work(1, pages), || two[1].work(2, pages));
    let (mut shares, mut times, start) = (Vec::new(), Vec::new(), Instant::now());
    let mut order = false;
    while shares.is_empty() || shares.len() < ROUNDS && start.elapsed() < ENOUGH {
        // The order alternates, so that none is always the first.
        order = !order;
        let before = order.then(together);
        let apart = apart();
        if let (Some(together), Some(apart)) = (before.unwrap_or_else(together), apart) {
            shares.push(apart / together);
            times.push(apart * 1e9f64 / CALLS as f64);
        }
    }
    let rounds = shares.len();
    (Samples::new(shares), Samples::new(times), rounds)
}

/// Measures two callers at the same time.
pub(crate) fn at_once(to: &mut Document) -> io::Result<()> {
    to.add("## Two callers at the same time\n");
    to.add(
        "Two threads change pages of different gigabytes: the throughput on one map, divided by that on two separate maps. \
         Time is that of the wall clock until both are done, where both had a CPU all the time.\n",
    );
    let row = |pages: u64| {
        eprintln!("bench: two callers, {pages} pages a call");
        let (by_gigabyte, apart, rounds) = share::<64>(pages);
        let (one_lock, ..) = share::<1>(pages);
        let work = if pages == 1 { "one page a call".to_owned() } else { format!("{pages} pages a call") };
        let apart = format!("{:.0}", apart.median());
        let [by_gigabyte, one_lock] = [by_gigabyte, one_lock].map(|share| share.to_string());
        vec![work, apart, by_gigabyte, GOAL.to_string(), one_lock, rounds.to_string()]
    };
    let header = ["", "a call on a map of its own, ns", "locks by gigabyte", "goal", "one lock", "rounds"];
    to.add(&report::table(&header, &[row(1), row(64)]));
    Ok(())
}
