//! A platform of threads that spoils pages when they are given back, and that can lack a lock or a grace period.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::yield_now;

use linmap::arch::Tlbi;
use linmap::host::{SharedMemory, Threads, ThreadsHeld};
use linmap::{
    Access, CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Va,
};

/// The descriptor in a page that was given back: reserved where it is not a block, far from all that a test maps.
const SPOILT: u64 = 0x0000_bad0_0000_0001;
/// The descriptor in a page that was taken: the library writes all entries before it publishes the table.
const UNWRITTEN: u64 = 0x0000_bad1_0000_0703;

/// Table pages that are spoilt when they are given back.
#[derive(Debug)]
pub(crate) struct Spoiling {
    memory: SharedMemory,
    /// The number of pages that were written after they were given back.
    pub(crate) written: AtomicUsize,
}

impl Spoiling {
    pub(crate) fn new(geometry: Geometry, limit: usize) -> Self {
        Self { memory: SharedMemory::new(geometry, limit), written: AtomicUsize::new(0) }
    }

    pub(crate) fn in_use(&self) -> usize {
        self.memory.in_use()
    }

    /// Returns the words of a page. A test without a lock may have readers and writers in it.
    fn atomic_words(&self, page: Pa) -> &[AtomicU64] {
        // SAFETY: the page is one of the memory below, whose words are atomic while it may be a table.
        unsafe { std::slice::from_raw_parts(self.memory.words(page).cast(), 512) }
    }
}

// SAFETY: every page is one of the memory below, which keeps its promises. Its words are written by their owner only.
unsafe impl Memory for Spoiling {
    const ACCESS: Access = Access::Plain;

    fn page_size(&self) -> u64 {
        self.memory.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let frame = self.memory.take()?;
        let words = self.atomic_words(frame.pa());
        // A page that was never taken before has zeroes.
        let first = words[0].load(Relaxed);
        if !matches!(first, 0 | SPOILT) || words.iter().any(|word| word.load(Relaxed) != first) {
            self.written.fetch_add(1, Relaxed);
        }
        words.iter().for_each(|word| word.store(UNWRITTEN, Relaxed));
        Some(frame)
    }

    fn give(&self, frame: Frame) {
        self.atomic_words(frame.pa()).iter().for_each(|word| word.store(SPOILT, Relaxed));
        self.memory.give(frame);
    }

    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.memory.words(table) }
    }
}

/// The parts that a platform may lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lack {
    Nothing,
    /// Its locks exclude nobody.
    Locks,
    /// A page is given back while readers may be in it.
    GracePeriod,
}

/// Lets another thread run now and then, also where the machine has other work and threads would run one after the other.
fn mix() {
    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }
    let calls = CALLS.get();
    CALLS.set(calls.wrapping_add(1));
    if calls.is_multiple_of(3) {
        yield_now();
    }
}

/// Threads as CPUs, which may lack something.
#[derive(Debug)]
pub(crate) struct Lacking<const LOCKS: usize, const HOLD: usize> {
    pub(crate) threads: Threads<LOCKS, HOLD>,
    lack: Lack,
}

impl<const LOCKS: usize, const HOLD: usize> Lacking<LOCKS, HOLD> {
    pub(crate) fn new(threads: Threads<LOCKS, HOLD>, lack: Lack) -> Self {
        Self { threads, lack }
    }
}

// SAFETY: every method is that of the threads, which keep their promises; except in a control, whose tables are those of
// one test and in memory that lives as long as it does.
unsafe impl<const LOCKS: usize, const HOLD: usize> Hardware for Lacking<LOCKS, HOLD> {
    fn promise(&self) -> Promise {
        self.threads.promise()
    }

    fn dsb(&self, kind: Dsb) {
        mix();
        self.threads.dsb(kind);
    }

    fn isb(&self) {
        self.threads.isb();
    }

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.threads.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.threads.sync_code(va, bytes);
    }

    fn call(&self) -> Result<(), CannotPark> {
        self.threads.call()
    }

    unsafe fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        // SAFETY: the caller's promise.
        unsafe { self.threads.park(memory, root, updates) }
    }
}

// SAFETY: as above.
unsafe impl<const LOCKS: usize, const HOLD: usize> Sharing for Lacking<LOCKS, HOLD> {
    const LOCKS: usize = LOCKS;
    const HOLD: usize = HOLD;

    type Held<'h> = Option<ThreadsHeld<'h>>;

    fn lock(&self, number: usize) -> Self::Held<'_> {
        let held = (self.lack != Lack::Locks).then(|| self.threads.lock(number));
        mix();
        held
    }

    fn wait(&self) -> bool {
        self.threads.wait()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.threads.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        match self.lack {
            Lack::GracePeriod => memory.give(frame),
            Lack::Nothing | Lack::Locks => self.threads.retire(memory, frame),
        }
    }
}
