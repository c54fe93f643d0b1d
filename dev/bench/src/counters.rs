//! Counters of the CPU for this thread: cycles, instructions and cache misses, where the kernel offers them. Many virtual
//! machines have none.

use crate::clock::timed;

/// The events that are counted.
pub(crate) const EVENTS: [&str; 3] = ["cycles", "instructions", "cache misses"];

/// The cost of work: CPU time in nanoseconds, and the number of each event, where there are counters.
#[derive(Clone, Copy, Default)]
pub(crate) struct Cost {
    pub(crate) ns: f64,
    pub(crate) events: Option<[f64; 3]>,
}

impl Cost {
    /// Returns an equal part of it, one of so many.
    pub(crate) fn part(self, of: usize) -> Self {
        let part = |number: f64| number / of as f64;
        Self { ns: part(self.ns), events: self.events.map(|events| events.map(part)) }
    }
}

/// Runs `work` and adds its cost to `total`. The calls that start and stop the counters are not in the time.
pub(crate) fn measured<T>(total: &mut Cost, work: impl FnOnce() -> T) -> T {
    let mut ns = 0;
    let (result, events) = perf::counted(|| timed(&mut ns, work));
    total.ns += ns as f64;
    total.events = events.map(|events| {
        let before = total.events.unwrap_or_default();
        std::array::from_fn(|event| before[event] + events[event])
    });
    result
}

/// Returns true if this machine offers the counters.
pub(crate) fn are_there() -> bool {
    perf::counted(|| ()).1.is_some()
}

#[cfg(target_os = "linux")]
mod perf {
    use std::cell::RefCell;
    use std::io;

    use perf_event::events::{Event, Hardware};
    use perf_event::{Builder, Counter, Group};

    /// A group of counters of this thread: all of them count, or none.
    pub(super) struct Counters<const N: usize> {
        group: Group,
        counters: [Counter; N],
    }

    impl<const N: usize> Counters<N> {
        /// Opens counters for what this thread does outside of the kernel.
        ///
        /// # Errors
        ///
        /// The kernel or the machine does not offer one of them.
        pub(super) fn open(events: [impl Into<Event>; N]) -> io::Result<Self> {
            let mut group = Group::new()?;
            let counters = events.map(|event| Builder::new().group(&mut group).kind(event).build());
            let counters: Vec<Counter> = counters.into_iter().collect::<io::Result<_>>()?;
            let counters = counters.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
            Ok(Self { group, counters })
        }

        /// Runs `work`. Returns its result, and the number of each event, or `None` if the counters did not run all the time.
        pub(super) fn count<T>(&mut self, work: impl FnOnce() -> T) -> (T, Option<[f64; N]>) {
            let started = self.group.reset().and_then(|()| self.group.enable());
            let before = self.group.read();
            let result = work();
            let read = self.group.disable().and_then(|()| self.group.read());
            let events = started.and(before).and_then(|before| Ok((before, read?))).ok().and_then(
                |(before, after)| {
                    let all_the_time = after.time_enabled() == after.time_running();
                    let of = |counter: &Counter| (after[counter] - before[counter]) as f64;
                    all_the_time.then(|| std::array::from_fn(|n| of(&self.counters[n])))
                },
            );
            (result, events)
        }
    }

    thread_local! {
        static COUNTERS: RefCell<Option<Counters<3>>> = RefCell::new(
            Counters::open([Hardware::CPU_CYCLES, Hardware::INSTRUCTIONS, Hardware::CACHE_MISSES]).ok(),
        );
    }

    /// Runs `work` with the counters of this thread, in the order of [`EVENTS`](super::EVENTS), if there are any.
    pub(super) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<[f64; 3]>) {
        COUNTERS.with_borrow_mut(|counters| match counters {
            Some(counters) => counters.count(work),
            None => (work(), None),
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod perf {
    /// Runs `work`. There are no counters.
    pub(super) fn counted<T>(work: impl FnOnce() -> T) -> (T, Option<[f64; 3]>) {
        (work(), None)
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::hint::black_box;

    use perf_event::events::Software;

    use super::perf::Counters;
    use super::*;

    /// Software counters are there in virtual machines as well.
    #[test]
    fn counters_count_what_work_does_and_nothing_else() {
        let mut counters = match Counters::open([Software::TASK_CLOCK, Software::PAGE_FAULTS]) {
            Ok(counters) => counters,
            Err(error) => return println!("not tested: the kernel offers no counters: {error}"),
        };
        let fresh = || black_box(vec![1u8; 64 << 20]).len();
        for _ in 0..3 {
            let (bytes, events) = counters.count(fresh);
            let [time, faults] = events.expect("software counters run all the time");
            assert_eq!(bytes, 64 << 20);
            assert!(time > 0.0 && faults >= 32.0, "{time} ns, {faults} faults for 64 MiB");
            let (_, events) = counters.count(|| ());
            let [_, none] = events.expect("software counters run all the time");
            assert!(none < faults / 2.0, "{none} faults of no work, {faults} of 64 MiB");
        }
    }

    #[test]
    fn costs_add_up_and_are_shared_out() {
        let mut total = Cost::default();
        for _ in 0..2 {
            assert_eq!(measured(&mut total, || black_box(7)), 7);
        }
        assert_eq!(total.events.is_some(), are_there());
        let cost = Cost { ns: 6.0, events: Some([2.0, 4.0, 8.0]) }.part(2);
        assert_eq!((cost.ns, cost.events), (3.0, Some([1.0, 2.0, 4.0])));
    }
}
