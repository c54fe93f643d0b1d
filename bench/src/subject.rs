//! One map to build, and what is measured on the pages of its tables: memset, an ideal loop, linmap.

use std::hint::black_box;

use linmap::host::HostMemory;
use linmap::{
    Attributes, Frame, Geometry, Granule, Half, Level, Memory, OaFormat, Pa, Run, Stats, Tree, Va,
    linear_range,
};

use crate::clock::timed;

/// Each sample writes at least this much, so that a small map is built many times.
const BYTES_PER_SAMPLE: u64 = 128 << 20;
/// Where RAM starts.
const RAM: u64 = 1 << 30;

pub(crate) struct Subject {
    geometry: Geometry,
    run: Run,
    stats: Stats,
    memory: HostMemory,
    /// As many bytes in one piece.
    buffer: Vec<u64>,
    /// How often a sample repeats the work.
    turns: u32,
}

impl Subject {
    /// A map of so much RAM in leaves of one level; the pages for its tables are written once here.
    pub(crate) fn new(granule: Granule, level: Level, bytes: u64) -> Self {
        let geometry = Geometry::new(granule, 48, OaFormat::Bits48).expect("every granule has 48 bits");
        let run = Run {
            va: Va(linear_range(geometry).0.0 + RAM),
            oa: Pa(RAM),
            level,
            contiguous: false,
            descriptors: bytes >> geometry.level_shift(level),
            attributes: Attributes::RAM,
        };
        let stats = Stats::of_runs(geometry, std::iter::once(run));
        let memory = HostMemory::new(geometry, stats.tables as usize);
        let turns = BYTES_PER_SAMPLE.div_ceil(stats.table_bytes(geometry)) as u32;
        let buffer = vec![1; stats.table_bytes(geometry) as usize / 8];
        let mut subject = Self { geometry, run, stats, memory, buffer, turns };
        subject.memset_at_once();
        subject.memset();
        subject
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.stats.table_bytes(self.geometry)
    }

    /// Nanoseconds for memset of every table page, one call a page.
    pub(crate) fn memset(&self) -> f64 {
        self.each_page(|slots| slots.fill(0))
    }

    /// Nanoseconds for memset of as many bytes in one call, which may bypass the caches.
    pub(crate) fn memset_at_once(&mut self) -> f64 {
        let mut total = 0;
        for _ in 0..self.turns {
            timed(&mut total, || black_box(self.buffer.as_mut_slice()).fill(0));
        }
        total as f64 / f64::from(self.turns)
    }

    /// Nanoseconds for a loop that writes as many entries that differ, and decides nothing.
    pub(crate) fn ideal(&self) -> f64 {
        let step = black_box(1 << self.geometry.level_shift(self.run.level));
        self.each_page(|slots| {
            let mut value = black_box(0x0060_0000_0000_0707);
            for slot in slots {
                *slot = value;
                value += step;
            }
        })
    }

    /// Nanoseconds for building the tree in the same pages.
    pub(crate) fn build(&self) -> f64 {
        let mut total = 0;
        for _ in 0..self.turns {
            let runs = std::iter::once(black_box(self.run));
            let tree = timed(&mut total, || Tree::build(&self.memory, self.geometry, Half::Upper, runs));
            let tree = tree.expect("as many pages as planned");
            assert_eq!(tree.stats(), self.stats);
            tree.discard(&self.memory);
            self.give_all(self.take_all());
        }
        total as f64 / f64::from(self.turns)
    }

    /// Nanoseconds for `write` on all the pages, lowest first.
    fn each_page(&self, write: impl Fn(&mut [u64])) -> f64 {
        let mut total = 0;
        for _ in 0..self.turns {
            let mut frames = self.take_all();
            timed(&mut total, || {
                for frame in &mut frames {
                    write(black_box(self.memory.slots(frame)));
                }
            });
            self.give_all(frames);
        }
        total as f64 / f64::from(self.turns)
    }

    fn take_all(&self) -> Vec<Frame> {
        let mut frames: Vec<_> = std::iter::from_fn(|| self.memory.take()).collect();
        frames.sort_unstable_by_key(Frame::pa);
        frames
    }

    /// Gives pages back so that the lowest is taken next.
    fn give_all(&self, frames: Vec<Frame>) {
        frames.into_iter().rev().for_each(|frame| self.memory.give(frame));
    }
}
