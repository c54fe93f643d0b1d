//! Two threads that change maps at the same time: different gigabytes of one map, beside two maps; and the same with one
//! lock for each map.
//!
//! Time passes by the wall clock until both threads are done, since waiting is what is measured. One map and
//! two are measured in turns, and each ratio compares neighbours in time, so other work on the machine slows both. The
//! threads never sleep, so two CPUs must be free.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Instant;

use linmap::host::{SharedMemory, Threads};
use linmap::{
    AddressSpace, Attributes, Change, Combined, Geometry, Granule, Half, OaFormat, Pa, Policy, Tree, Va,
};

use crate::document::Document;
use crate::report;
use crate::samples::Samples;

/// The calls of a thread in a sample, and the rounds.
const CALLS: u64 = 20_000;
const ROUNDS: usize = 41;

/// The part of the throughput of two maps that one map is to reach.
const GOAL: f64 = 0.9;

/// A map of four gigabytes, each with 2 MiB in pages.
struct Map<const LOCKS: usize> {
    memory: SharedMemory,
    threads: Threads<LOCKS>,
    space: AddressSpace,
    base: u64,
}

impl<const LOCKS: usize> Map<LOCKS> {
    fn new() -> Self {
        let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("every granule has 48 bits");
        let (memory, threads) = (SharedMemory::new(g, 64), Threads::new());
        let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
        let (space, base) = (AddressSpace::adopt(tree), g.base(Half::Upper));
        space.set_policy(Policy::Live);
        let map = Self { memory, threads, space, base };
        let platform = map.platform();
        // SAFETY: no CPU uses these tables.
        unsafe { map.space.map(&platform, Va(base), 4 << 18, Pa(0), Attributes::RAM) }.expect("room");
        for gigabyte in 0..4 {
            map.space.split_to_pages(&platform, map.page(gigabyte, 0), 512).expect("room");
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

    /// Changes `pages` pages of a gigabyte in each of the calls.
    fn work(&self, gigabyte: u64, pages: u64) {
        let platform = self.platform();
        for call in 0..CALLS / pages {
            let change = if call & 512 == 0 { Change::READ_ONLY } else { Change::WRITABLE };
            let first = self.page(gigabyte, call * pages % 512);
            // SAFETY: no CPU uses these tables.
            unsafe { self.space.protect(&platform, black_box(first), pages, change) }
                .expect("nothing to refuse");
        }
    }
}

/// Runs both at the same time. Returns the seconds from the moment when both have started until both are done.
fn seconds(first: impl Fn() + Sync, second: impl Fn() + Sync) -> f64 {
    let ready = AtomicUsize::new(0);
    let both: [&(dyn Fn() + Sync); 2] = [&first, &second];
    let run = |work: &(dyn Fn() + Sync)| {
        ready.fetch_add(1, SeqCst);
        while ready.load(SeqCst) < 2 {
            spin_loop();
        }
        let start = Instant::now();
        work();
        (start, Instant::now())
    };
    let times = thread::scope(|scope| {
        both.map(|work| scope.spawn(move || run(work))).map(|thread| thread.join().expect("no thread fails"))
    });
    let [(start, end), other] = times;
    end.max(other.1).duration_since(start.min(other.0)).as_secs_f64()
}

/// Measures one map beside two, with changes of so many pages. Returns the share of the throughput of two maps that one
/// has, and the nanoseconds of a call with two maps.
fn share<const LOCKS: usize>(pages: u64) -> [Samples; 2] {
    let (one, two) = (Map::<LOCKS>::new(), [Map::<LOCKS>::new(), Map::<LOCKS>::new()]);
    let together = || seconds(|| one.work(1, pages), || one.work(2, pages));
    let apart = || seconds(|| two[0].work(1, pages), || two[1].work(2, pages));
    let (mut shares, mut times) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // The order alternates, so that none is always the first.
        let before = (round % 2 == 0).then(together);
        let apart = apart();
        shares.push(apart / before.unwrap_or_else(together));
        times.push(apart * 1e9 / (CALLS / pages) as f64);
    }
    [shares, times].map(Samples::new)
}

/// Measures two callers at the same time.
pub(crate) fn at_once(to: &mut Document) -> io::Result<()> {
    to.add("## Two callers at the same time\n");
    to.add(
        "Two threads change pages of different gigabytes: the throughput on one map, divided by that on two separate maps. \
         Time is that of the wall clock until both are done.\n",
    );
    let row = |pages: u64| {
        eprintln!("bench: two callers, {pages} pages a call");
        let ([by_gigabyte, apart], [one_lock, _]) = (share::<64>(pages), share::<1>(pages));
        let work = if pages == 1 { "one page a call".to_owned() } else { format!("{pages} pages a call") };
        vec![
            work,
            format!("{:.0}", apart.median()),
            by_gigabyte.to_string(),
            GOAL.to_string(),
            one_lock.to_string(),
        ]
    };
    let header = ["", "a call on a map of its own, ns", "locks by gigabyte", "goal", "one lock"];
    to.add(&report::table(&header, &[row(1), row(64)]));
    Ok(())
}
