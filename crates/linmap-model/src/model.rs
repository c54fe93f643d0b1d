//! The machine as software finds it: a supply of table pages, CPUs to run on, and a verdict.
//!
//! Each action of a CPU becomes an [`Event`] (`on_cpu.rs`). Stores into pages that no walker reaches go to plain
//! memory; they become events before the CPU's next step that a walker could see. After a breach the machine stays where
//! it is, and the events go on, for the log.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use linmap::{Geometry, Slot, host};

use crate::grace::Grace;
use crate::pages::POISON;
use crate::{Breach, CpuId, Event, Machine, Setup};

/// A machine that code runs on.
///
/// A breach panics, with all that is known of it, as a test needs it. [`quietly`](Self::quietly) keeps it for
/// [`verdict`](Self::verdict) instead.
pub struct Model {
    inner: Mutex<Inner>,
    /// The table pages as software sees them while no walker reaches them: the words of all pages.
    words: *mut [u64],
    pub(crate) panics: bool,
    /// The lock on live tables, and the thread that has it.
    pub(crate) tables: Mutex<()>,
    pub(crate) holder: Mutex<Option<ThreadId>>,
}

// SAFETY: `words` is written through frames, each of which has one owner, and otherwise only under the
// lock, in pages that no frame stands for.
unsafe impl Sync for Model {}
// SAFETY: it owns what `words` points to.
unsafe impl Send for Model {}

pub(crate) struct Inner {
    pub(crate) machine: Machine,
    pub(crate) free: Vec<u64>,
    /// Pages that may have been written as plain memory, each with the CPU and the thread: no other reads the page
    /// meanwhile.
    pub(crate) plain: BTreeMap<u64, (CpuId, ThreadId)>,
    /// The last descriptors that each CPU read, with their slots.
    read: Vec<[Option<(Slot, u64)>; REMEMBERED]>,
    /// The number of pages that may still be taken, if that is limited.
    pub(crate) left: Option<usize>,
    pub(crate) grace: Grace,
    /// True if CPUs refuse to be parked.
    pub(crate) unparkable: bool,
    pub(crate) empty: Option<u64>,
    /// The contents of table pages after a breach, as the log has them. Before one the machine has them.
    logged: HashMap<u64, Vec<u64>>,
    log: Option<Box<dyn Write + Send>>,
}

/// The number of slots that a CPU remembers having read.
const REMEMBERED: usize = 64;

impl Model {
    /// Returns a machine before its first event. Its table pages are where the setup says, or at the next addresses
    /// that no memory of this process has or had ([`setup`](Self::setup) has the address). So each memory can refuse
    /// the pages of others.
    ///
    /// # Errors
    ///
    /// The mistake in the setup; or that there are no such addresses.
    pub fn new(setup: &Setup) -> Result<Self, String> {
        setup.check()?;
        let (mut setup, page) = (setup.clone(), setup.geometry.page_size());
        let end = 1 << setup.geometry.oa_bits();
        let bytes = setup.tables as u64 * page;
        setup.tables_at = host::unshared_addresses(setup.tables_at, bytes, end).ok_or_else(|| {
            format!(
                "there are no addresses for {} more table pages from {:#x} on",
                setup.tables, setup.tables_at
            )
        })?;
        let machine = Machine::new(&setup)?;
        let words = vec![0u64; setup.tables << (setup.geometry.page_shift() - 3)];
        let free = (0..setup.tables as u64).rev().map(|n| setup.tables_at + n * page).collect();
        let inner = Inner {
            machine,
            free,
            plain: BTreeMap::new(),
            read: vec![[None; REMEMBERED]; setup.cores.len()],
            left: None,
            grace: Grace::default(),
            unparkable: false,
            empty: None,
            logged: HashMap::new(),
            log: None,
        };
        let words = Box::into_raw(words.into_boxed_slice());
        let (tables, holder) = (Mutex::default(), Mutex::default());
        Ok(Self { inner: Mutex::new(inner), words, panics: true, tables, holder })
    }

    /// Returns the same machine, which keeps a breach for [`verdict`](Self::verdict). After one nothing is judged any
    /// more, and the code under test goes on with its tables.
    #[must_use]
    pub fn quietly(mut self) -> Self {
        self.panics = false;
        self
    }

    /// Writes every event to `log` as a line of JSON, the machine first, so that it can be replayed. If the code under
    /// test goes on after a breach, so does the log, for other checkers.
    ///
    /// # Errors
    ///
    /// The first line cannot be written.
    pub fn log_to(&self, mut log: impl Write + Send + 'static) -> std::io::Result<()> {
        let mut inner = self.lock();
        writeln!(log, "{}", inner.machine.setup().to_json())?;
        inner.log = Some(Box::new(log));
        Ok(())
    }

    /// Returns the description of this machine.
    pub fn setup(&self) -> Setup {
        self.lock().machine.setup().clone()
    }

    /// Returns the geometry of the machine.
    pub fn geometry(&self) -> Geometry {
        self.lock().machine.setup().geometry
    }

    /// Returns the number of events so far.
    pub fn events(&self) -> usize {
        self.lock().machine.events()
    }

    /// Returns true if a CPU holds a lock on live tables.
    pub fn is_locked(&self) -> bool {
        self.tables.try_lock().is_err()
    }

    /// Returns the number of table pages that are taken and not given back.
    pub fn in_use(&self) -> usize {
        let inner = self.lock();
        inner.machine.setup().tables - inner.free.len()
    }

    /// Limits the number of table pages that can still be taken, or lifts the limit. One that is given back can be taken again.
    pub fn limit_frames(&self, left: Option<usize>) {
        self.lock().left = left;
    }

    /// Lets CPUs refuse to be parked from now on, or not.
    pub fn refuse_parking(&self, refuse: bool) {
        self.lock().unparkable = refuse;
    }

    /// Returns the verdict so far.
    ///
    /// # Errors
    ///
    /// The first breach.
    pub fn verdict(&self) -> Result<(), Box<Breach>> {
        self.lock().machine.verdict()
    }

    /// Judges the machine at rest, as [`Machine::finish`] does.
    ///
    /// # Errors
    ///
    /// The first breach.
    pub fn finish(&self) -> Result<(), Box<Breach>> {
        self.lock().machine.finish()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a step that a walker could notice, after the plain stores of `cpu`.
    pub(crate) fn step(&self, cpu: CpuId, event: Event) {
        let mut inner = self.lock();
        let result = self.step_after_stores(&mut inner, cpu, event);
        drop(inner);
        self.report(result);
    }

    /// The same under the lock. Returns the first breach.
    pub(crate) fn step_after_stores(
        &self,
        inner: &mut Inner,
        cpu: CpuId,
        event: Event,
    ) -> Result<(), Box<Breach>> {
        let stores = self.note_plain_stores(inner, cpu);
        let step = inner.step(event);
        stores.and(step)
    }

    /// Ends the code under test after a breach. Not while it unwinds from one already: a second panic would abort
    /// before the first is printed.
    pub(crate) fn report(&self, result: Result<(), Box<Breach>>) {
        if let Err(breach) = result
            && self.panics
            && !thread::panicking()
        {
            panic!("{breach}");
        }
    }

    /// Turns the plain stores of a CPU since the last call into events.
    fn note_plain_stores(&self, inner: &mut Inner, cpu: CpuId) -> Result<(), Box<Breach>> {
        let this = (cpu, thread::current().id());
        let mine = inner.plain.iter().filter(|p| *p.1 == this).map(|p| *p.0);
        let mut verdict = Ok(());
        for table in mine.collect::<Vec<_>>() {
            // SAFETY: the page is a frame's or was, and was last borrowed for writing on this thread, which
            // is here now.
            let now = unsafe { &*self.page(inner, table) };
            for event in differences(cpu, table, inner.known(table), now) {
                let step = inner.step(event);
                verdict = verdict.and(step);
            }
            if inner.machine.has_stopped() {
                inner.logged.insert(table, now.to_vec());
            } else if !inner.machine.is_offline(table) {
                inner.plain.remove(&table);
            }
        }
        verdict
    }

    /// Returns the contents of a slot as software sees them.
    pub(crate) fn word(&self, inner: &Inner, slot: Slot) -> u64 {
        // SAFETY: as in `store`.
        unsafe { (*self.page(inner, slot.table.0))[slot.index] }
    }

    /// Returns the words of a table page.
    pub(crate) fn page(&self, inner: &Inner, table: u64) -> *mut [u64] {
        let setup = inner.machine.setup();
        let words = 1usize << (setup.geometry.page_shift() - 3);
        let number = table.wrapping_sub(setup.tables_at) >> setup.geometry.page_shift();
        assert!(number < setup.tables as u64, "{table:#x} is not a table page of this machine");
        // SAFETY: the page lies within the allocation, as just checked.
        let first = unsafe { self.words.cast::<u64>().add(number as usize * words) };
        std::ptr::slice_from_raw_parts_mut(first, words)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        // SAFETY: made by `Box::into_raw` in `new`; nothing borrows from it any more.
        drop(unsafe { Box::from_raw(self.words) });
    }
}

impl Inner {
    pub(crate) fn step(&mut self, event: Event) -> Result<(), Box<Breach>> {
        if let Some(log) = &mut self.log
            && let Ok(line) = serde_json::to_string(&event)
            && writeln!(log, "{line}").is_err()
        {
            self.log = None;
        }
        self.machine.step(event)
    }

    /// The words of a table page as the events so far say.
    fn known(&self, table: u64) -> &[u64] {
        self.logged.get(&table).map_or_else(|| self.machine.words(table), Vec::as_slice)
    }

    /// Notes a live store whose event is in the log, if the machine does so no more.
    pub(crate) fn stored(&mut self, slot: Slot, value: u64) {
        if self.machine.has_stopped() {
            let mut words = self.known(slot.table.0).to_vec();
            if let Some(word) = words.get_mut(slot.index) {
                *word = value;
            }
            self.logged.insert(slot.table.0, words);
        }
    }

    /// Fills a page that was just taken with what a slot must not keep.
    pub(crate) fn fill(&mut self, table: u64, page: &mut [u64]) {
        page.fill(POISON);
        if self.machine.has_stopped() {
            self.logged.insert(table, page.to_vec());
        }
    }

    /// Returns the place where a CPU remembers a slot.
    pub(crate) fn remembered(&mut self, cpu: CpuId, slot: Slot) -> &mut Option<(Slot, u64)> {
        let place = (slot.table.0 as usize / 4096 * 7 + slot.index) % REMEMBERED;
        &mut self.read[usize::from(cpu)][place]
    }
}

/// Returns the stores that turn `old` into `new`, as few as runs with equal steps allow.
fn differences(cpu: CpuId, table: u64, old: &[u64], new: &[u64]) -> Vec<Event> {
    let mut events = Vec::new();
    let mut index = 0;
    while index < new.len() {
        if old.get(index) == Some(&new[index]) {
            index += 1;
            continue;
        }
        let value = new[index];
        let step = new.get(index + 1).map_or(0, |next| next.wrapping_sub(value));
        let expected = (0u64..).map(|n| value.wrapping_add(step.wrapping_mul(n)));
        let count = new[index..].iter().zip(expected).take_while(|(w, e)| *w == e).count();
        // Two equal steps are a coincidence.
        let (count, step) = if count < 3 { (1, 0) } else { (count, step) };
        events.push(Event::Write { cpu, table, index, value, count, step, was: None });
        index += count;
    }
    events
}
