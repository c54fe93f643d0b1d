//! The events of instructions and stores of a running guest, from all threads of QEMU.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use linmap::{Geometry, Va};
use linmap_model::observed::{Concerns, Grade, Observer, document};
use linmap_model::{Access, Core, CpuId, Event, Register, Setup};
use serde_json::{Value, json};

use crate::decode::Instruction;
use crate::log::Log;
use crate::outcome;
use crate::ram::{CPUS, Ram, Shared};
use crate::told::Told;

/// A store, as QEMU tells it.
#[derive(Clone, Copy, Debug)]
pub struct Store {
    /// The CPU.
    pub cpu: CpuId,
    /// The address of the instruction.
    pub pc: u64,
    /// The virtual address that it stores to.
    pub va: u64,
    /// The physical one.
    pub pa: u64,
    /// The number of bytes: 1 to 16, a power of two.
    pub bytes: u64,
}

/// Numbers of a run.
#[derive(Debug)]
pub struct Counts {
    /// Stores at EL1, by CPU.
    pub stores: [AtomicU64; CPUS],
    /// Stores into tables, or to what CPUs may hold.
    pub concern: AtomicU64,
    /// Bytes that were stored where no callback tells it, by DC ZVA and MOPS: the number of such instructions.
    pub unseen: AtomicU64,
    /// Exception returns.
    pub returns: AtomicU64,
    /// Instructions that were not told.
    pub hidden: AtomicU64,
    /// The blocks that were translated at each exception level; the last counts those of AArch32.
    pub blocks: [AtomicU64; 5],
}

impl Counts {
    const fn new() -> Self {
        let [concern, unseen, returns, hidden] = [const { AtomicU64::new(0) }; 4];
        let blocks = [const { AtomicU64::new(0) }; 5];
        Self { stores: [const { AtomicU64::new(0) }; CPUS], concern, unseen, returns, hidden, blocks }
    }

    /// Adds them to the document of an observer.
    fn add_to(&self, document: &mut Value) {
        let counts = &mut document["counts"];
        counts["stores"] = self.stores.iter().map(|stores| stores.load(Relaxed)).sum::<u64>().into();
        for (name, count) in [
            ("stores_that_concern_tables", &self.concern),
            ("returns", &self.returns),
            ("stores_without_callback", &self.unseen),
            ("hidden", &self.hidden),
        ] {
            counts[name] = count.load(Relaxed).into();
        }
        document["blocks"] = self.blocks.iter().map(|count| count.load(Relaxed)).collect();
    }
}

/// The wishes for a run.
#[derive(Default, Debug)]
pub struct Wanted {
    /// The differences between what the guest does and what the observer is told.
    pub told: Told,
    /// The file for all events.
    pub log: Option<PathBuf>,
    /// The file for the document of the first breach. All CPUs wait a moment then, in which the machine can be stopped.
    pub stop: Option<PathBuf>,
}

/// The time in which the machine can be stopped at a breach.
const MOMENT: Duration = Duration::from_millis(500);

/// Feeds an observer from all threads of QEMU.
pub struct Watcher {
    ram: Arc<Ram>,
    concerns: Concerns,
    /// The CPUs whose accesses concern the observer.
    waits: [AtomicBool; CPUS],
    /// True once a CPU has returned to a lower exception level: the kernel has programs.
    has_programs: AtomicBool,
    wanted: Wanted,
    inner: Mutex<Inner>,
    /// Its numbers.
    pub counts: Counts,
}

struct Inner {
    observer: Observer<Shared>,
    log: Option<Log>,
    /// The bytes that each CPU has stored where no callback tells it.
    unseen: Vec<Vec<Unseen>>,
    /// The values of VBAR_EL1 that CPUs have written.
    vectors: BTreeSet<u64>,
    /// The page that each CPU cleared last, by its virtual and physical address.
    page: Vec<(u64, u64)>,
    /// True once there was a breach at which the machine could be stopped.
    stopped: bool,
    /// True once the machine has ended.
    ended: bool,
}

/// Bytes of a page that a CPU has stored where no callback tells it.
#[derive(Clone, PartialEq, Eq)]
struct Unseen {
    pa: u64,
    bytes: u64,
    /// Some of them became zero, and the others are as they were.
    zeros: bool,
    /// The words from the first one on before it; none where they become zero: only in a table that matters, which the observer knows.
    before: Vec<u64>,
    pc: u64,
}

/// log2 of the bytes of a page that is cleared.
const PAGE: u32 = 12;
/// The bytes of the largest block that DC ZVA clears (DCZID_EL0): those of smaller ones are within it.
const BLOCK: u64 = 2048;

impl Watcher {
    /// Returns a watcher of a machine with these CPUs, at reset.
    ///
    /// # Errors
    ///
    /// The number of CPUs is not 1 to 64, or the log cannot be written.
    pub fn new(ram: Ram, cores: &[Core], geometry: Geometry, wanted: Wanted) -> Result<Self, String> {
        let ram = Arc::new(ram);
        let setup = Setup::new(geometry, cores);
        let observer = Observer::new(&setup, Shared::new(ram.clone(), wanted.log.is_some()))?;
        let log = wanted.log.as_ref().map(|path| Log::new(path, &setup));
        let log = log.transpose().map_err(|why| format!("the log: {why}"))?;
        let mut inner = Inner {
            observer,
            log,
            unseen: vec![Vec::new(); cores.len()],
            vectors: BTreeSet::new(),
            page: vec![(u64::MAX, 0); cores.len()],
            stopped: false,
            ended: false,
        };
        for cpu in 0..cores.len() as CpuId {
            inner.step(&Event::Reset { cpu }, 0);
        }
        Ok(Self {
            ram,
            concerns: inner.observer.concerns(),
            waits: [const { AtomicBool::new(false) }; CPUS],
            has_programs: AtomicBool::new(false),
            wanted,
            inner: Mutex::new(inner),
            counts: Counts::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that panicked has left it as it is, and QEMU ends.
        self.inner.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Takes a store at EL1, after it was made. Most concern nothing, and cost next to nothing.
    pub fn store(&self, store: Store) {
        let Store { cpu, pc, va, pa, bytes } = store;
        let va = untagged(va);
        self.ram.stored(cpu, pa);
        // The store comes before the question: a table that is linked meanwhile has it, or its frame is in the filter.
        fence(SeqCst);
        if let Some(stores) = self.counts.stores.get(usize::from(cpu)) {
            stores.store(stores.load(Relaxed) + 1, Relaxed);
        }
        let waits = self.waits(cpu);
        if !waits && !self.concerns.may_have(pa) {
            return;
        }
        self.counts.concern.fetch_add(1, Relaxed);
        let mut inner = self.lock();
        inner.catch_up(cpu, &self.ram);
        if waits {
            inner.step(&Event::Access { cpu, va, how: Access::Write }, pc);
        }
        for at in (pa & !7..pa + bytes).step_by(8) {
            let Some(value) = self.ram.word(at) else { continue };
            inner.step(&Event::Write { cpu, table: at, index: 0, value, count: 1, step: 0, was: None }, pc);
        }
        self.look(cpu, &mut inner);
    }

    /// Takes an instruction at EL1, before it is executed. `read` reads a general register of the CPU.
    pub fn instruction(&self, cpu: CpuId, pc: u64, what: Instruction, read: &mut dyn FnMut(u8) -> u64) {
        let told = &self.wanted.told;
        let Some(what) = told.tell(pc, what) else {
            self.counts.hidden.fetch_add(1, Relaxed);
            return;
        };
        match what {
            // These are frequent, and concern the order of stores alone.
            Instruction::Release => return self.ram.ordered(cpu),
            // Exceptions concern what waits for a synchronisation.
            Instruction::Entry if !self.waits(cpu) => return,
            Instruction::Zero(rt) => return self.unseen(cpu, pc, (read(rt), 1), true),
            Instruction::Fill(to, left) => {
                let (to, left) = (read(to), read(left) as i64);
                let bytes = (to.wrapping_add_signed(left.min(0)), left.unsigned_abs());
                return self.unseen(cpu, pc, bytes, false);
            }
            _ => {}
        }
        let mut inner = self.lock();
        inner.catch_up(cpu, &self.ram);
        let event = match what {
            Instruction::Tlbi(op, rt) => Event::Tlbi { cpu, op, operand: told.operand(op, read(rt)) },
            Instruction::Dsb(kind) => Event::Dsb { cpu, kind },
            Instruction::Isb => Event::Isb { cpu },
            // Where there are programs, one may sleep amid what it does: the interrupt that ends idling is a synchronisation alone.
            Instruction::Idle if self.has_programs.load(Relaxed) => Event::Exception { cpu },
            Instruction::Idle => Event::Leave { cpu },
            Instruction::Msr(register, rt) => {
                let value = read(rt);
                if register == Register::Vbar {
                    inner.vectors.insert(value);
                }
                Event::Msr { cpu, register, value }
            }
            Instruction::Call => match called(read(0)) {
                Some(Called::Off) => Event::Reset { cpu },
                // The CPU that ends the machine has ended what it did; the others may be amid something.
                Some(Called::End) => Event::Leave { cpu },
                Some(Called::Reset) => {
                    inner.step(&Event::Leave { cpu }, pc);
                    for cpu in 0..inner.unseen.len() as CpuId {
                        inner.step(&Event::Reset { cpu }, pc);
                    }
                    return;
                }
                None => return,
            },
            Instruction::Return => {
                self.counts.returns.fetch_add(1, Relaxed);
                Event::Exception { cpu }
            }
            Instruction::Entry => Event::Exception { cpu },
            Instruction::Release | Instruction::Zero(_) | Instruction::Fill(..) => return,
        };
        inner.step(&event, pc);
        self.look(cpu, &mut inner);
    }

    /// Returns true if the accesses of a CPU concern the observer.
    fn waits(&self, cpu: CpuId) -> bool {
        self.waits.get(usize::from(cpu)).is_some_and(|waits| waits.load(Relaxed))
    }

    /// Returns true if an address is that of a vector of some CPU: 16 of them, 128 bytes each, from VBAR_EL1 on (D24.2.214).
    pub fn is_vector(&self, pc: u64) -> bool {
        pc & 0x7f == 0 && self.lock().vectors.contains(&(pc & !0x7ff))
    }

    /// Takes the return of a CPU to a lower exception level.
    pub fn left(&self, cpu: CpuId, pc: u64) {
        self.counts.returns.fetch_add(1, Relaxed);
        self.has_programs.store(true, Relaxed);
        let mut inner = self.lock();
        inner.catch_up(cpu, &self.ram);
        inner.step(&Event::Leave { cpu }, pc);
        self.look(cpu, &mut inner);
    }

    /// Bytes are about to be stored where no callback tells it: from an address on, so many, or a block of zeros around it.
    fn unseen(&self, cpu: CpuId, pc: u64, (va, bytes): (u64, u64), zeros: bool) {
        let Some(more) = bytes.min(self.ram.bytes()).checked_sub(1) else { return };
        self.counts.unseen.fetch_add(1, Relaxed);
        let mut inner = self.lock();
        let va = untagged(va);
        let last = va.saturating_add(more);
        for page in (va >> PAGE..=last >> PAGE).map(|n| n << PAGE) {
            let (first, last) = (va.max(page), last.min(page | ((1 << PAGE) - 1)));
            if inner.observer.waits(cpu) {
                inner.step(&Event::Access { cpu, va: first, how: Access::Write }, pc);
            }
            let known = inner.page[usize::from(cpu)];
            // A page is cleared from its beginning on: the way to it is looked up there.
            let pa = if known.0 == page && first != page {
                known.1
            } else {
                let Some(pa) = inner.observer.translate(cpu, Va(page)) else { continue };
                inner.page[usize::from(cpu)] = (page, pa);
                pa
            };
            self.ram.stored(cpu, pa);
            if self.concerns.may_have(pa) {
                let (at, bytes) = (pa + (first - page), last - first + 1);
                let (at, bytes) = if zeros { (at & !(BLOCK - 1), BLOCK) } else { (at, bytes) };
                let unseen = &mut inner.unseen[usize::from(cpu)];
                let before = if zeros { Vec::new() } else { words(&self.ram, at, bytes).collect() };
                let new = Unseen { pa: at, bytes, zeros, before, pc };
                if unseen.last() != Some(&new) {
                    unseen.push(new);
                }
            }
        }
        self.look(cpu, &mut inner);
    }

    /// Looks at the observer after a step of a CPU.
    fn look(&self, cpu: CpuId, inner: &mut Inner) {
        if let Some(waits) = self.waits.get(usize::from(cpu)) {
            waits.store(inner.observer.waits(cpu), Relaxed);
        }
        let Some(file) = self.wanted.stop.as_ref().filter(|_| !inner.stopped) else { return };
        if inner.observer.findings().next().is_some_and(|worst| worst.grade == Grade::Breach) {
            inner.stopped = true;
            // Without the file nobody stops the machine, and the breach is in the document of its end.
            let _ = outcome::write(file, &self.document(inner));
            // The other CPUs wait for the lock.
            thread::sleep(MOMENT);
        }
    }

    fn document(&self, inner: &Inner) -> Value {
        let mut document = document(&inner.observer);
        document["version"] = json!(outcome::VERSION);
        self.counts.add_to(&mut document);
        document
    }

    /// Writes the document of the run so far, since QEMU may be killed. Returns false once the machine has ended: another document is there.
    pub fn write_so_far(&self, file: &Path) -> bool {
        let inner = self.lock();
        if !inner.ended {
            let mut document = self.document(&inner);
            document["so_far"] = true.into();
            // The next one may have room.
            let _ = outcome::write(file, &document);
        }
        !inner.ended
    }

    /// The machine ends. Returns the document of the run. What CPUs had not ended by then is no finding.
    ///
    /// # Errors
    ///
    /// The log could not be written.
    pub fn finish(&self) -> std::io::Result<Value> {
        let mut inner = self.lock();
        inner.ended = true;
        inner.log.as_mut().map_or(Ok(()), Log::finish)?;
        Ok(self.document(&inner))
    }
}

impl Inner {
    /// Shows a step to the observer, and writes it to the log.
    fn step(&mut self, event: &Event, pc: u64) {
        let Some(log) = &mut self.log else { return self.observer.step(event, pc) };
        drop(self.observer.memory_mut().tables_read());
        self.observer.step(event, pc);
        log.write(&self.observer.memory_mut().tables_read(), event, pc);
    }

    /// Takes what a CPU has stored where no callback told it.
    fn catch_up(&mut self, cpu: CpuId, ram: &Ram) {
        for Unseen { pa, bytes, zeros, before, pc } in std::mem::take(&mut self.unseen[usize::from(cpu)]) {
            for event in self.observer.differences(cpu, pa, bytes) {
                if !zeros || matches!(event, Event::Write { value: 0, .. }) {
                    self.step(&event, pc);
                }
            }
            let slots = (pa & !7..).step_by(8).zip(&before).zip(words(ram, pa, bytes));
            for ((table, _), value) in slots.filter(|((_, before), now)| **before != *now) {
                self.step(&Event::Write { cpu, table, index: 0, value, count: 1, step: 0, was: None }, pc);
            }
        }
    }
}

/// Returns the words that have some bytes of RAM.
fn words(ram: &Ram, pa: u64, bytes: u64) -> impl Iterator<Item = u64> {
    (pa & !7..pa + bytes).step_by(8).map_while(|at| ram.word(at))
}

/// Returns an address without a tag in its highest byte.
const fn untagged(va: u64) -> u64 {
    ((va << 8) as i64 >> 8) as u64
}

/// A call of firmware, or of semihosting, that concerns the observer.
enum Called {
    /// The CPU goes off.
    Off,
    /// The machine ends.
    End,
    /// The machine is reset.
    Reset,
}

/// Returns what a function of PSCI (Arm DEN 0022, 5.1) or an operation of semihosting does.
const fn called(function: u64) -> Option<Called> {
    const SYS_EXIT: u32 = 0x18;
    const SYS_EXIT_EXTENDED: u32 = 0x20;
    const CPU_OFF: u32 = 0x8400_0002;
    const SYSTEM_OFF: u32 = 0x8400_0008;
    const SYSTEM_RESET: u32 = 0x8400_0009;
    const SYSTEM_RESET2: u32 = 0x8400_0012;
    const SYSTEM_RESET2_64: u32 = 0xc400_0012;
    match function as u32 {
        CPU_OFF => Some(Called::Off),
        SYSTEM_OFF | SYS_EXIT | SYS_EXIT_EXTENDED => Some(Called::End),
        SYSTEM_RESET | SYSTEM_RESET2 | SYSTEM_RESET2_64 => Some(Called::Reset),
        _ => None,
    }
}
