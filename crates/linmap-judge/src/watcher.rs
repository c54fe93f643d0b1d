//! The events of instructions and stores of a running guest, from all threads of QEMU.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard};

use linmap::{Geometry, Va};
use linmap_model::observed::{Concerns, Observer};
use linmap_model::{Access, Core, CpuId, Event, Setup};

use crate::decode::Instruction;
use crate::log::Log;
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
    /// TLBIs.
    pub tlbis: AtomicU64,
    /// Bytes that were stored where no callback tells it, by DC ZVA and MOPS: the number of such instructions.
    pub unseen: AtomicU64,
    /// Exception returns.
    pub returns: AtomicU64,
    /// Instructions that were not told.
    pub hidden: AtomicU64,
}

impl Counts {
    const fn new() -> Self {
        let [concern, tlbis, unseen, returns, hidden] = [const { AtomicU64::new(0) }; 5];
        Self { stores: [const { AtomicU64::new(0) }; CPUS], concern, tlbis, unseen, returns, hidden }
    }
}

/// Feeds an observer from all threads of QEMU.
pub struct Watcher {
    ram: Arc<Ram>,
    concerns: Concerns,
    /// The CPUs whose accesses concern the observer.
    waits: [AtomicBool; CPUS],
    told: Told,
    inner: Mutex<Inner>,
    /// Its numbers.
    pub counts: Counts,
}

struct Inner {
    observer: Observer<Shared>,
    log: Option<Log>,
    /// The frames that each CPU has stored to where no callback tells what, with the place in the code.
    unseen: Vec<Vec<(u64, u64)>>,
    /// The page that each CPU cleared last, by its virtual and physical address.
    page: Vec<(u64, u64)>,
    /// The kernel's first value of VBAR_EL1.
    vectors: u64,
}

/// log2 of the bytes of a page that is cleared.
const PAGE: u32 = 12;

impl Watcher {
    /// Returns a watcher of a machine with these CPUs, at reset.
    ///
    /// # Errors
    ///
    /// The number of CPUs is not 1 to 64, or the log cannot be written.
    pub fn new(
        ram: Ram,
        cores: &[Core],
        geometry: Geometry,
        told: Told,
        log: Option<&Path>,
    ) -> Result<Self, String> {
        let ram = Arc::new(ram);
        let setup = Setup::new(geometry, cores);
        let observer = Observer::new(&setup, Shared::new(ram.clone(), log.is_some()))?;
        let log =
            log.map(|path| Log::new(path, &setup)).transpose().map_err(|why| format!("the log: {why}"))?;
        let mut inner = Inner {
            observer,
            log,
            unseen: vec![Vec::new(); cores.len()],
            page: vec![(u64::MAX, 0); cores.len()],
            vectors: 0,
        };
        for cpu in 0..cores.len() as CpuId {
            inner.step(&Event::Reset { cpu }, 0);
        }
        Ok(Self {
            ram,
            concerns: inner.observer.concerns(),
            waits: [const { AtomicBool::new(false) }; CPUS],
            told,
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
        let waits = self.waits.get(usize::from(cpu)).is_some_and(|waits| waits.load(Relaxed));
        if !waits && !self.concerns.may_have(pa) {
            return;
        }
        self.counts.concern.fetch_add(1, Relaxed);
        let mut inner = self.lock();
        inner.catch_up(cpu);
        if waits {
            inner.step(&Event::Access { cpu, va, how: Access::Write }, pc);
        }
        for at in (pa & !7..pa + bytes).step_by(8) {
            let Some(value) = self.ram.word(at) else { continue };
            inner.step(&Event::Write { cpu, table: at, index: 0, value, count: 1, step: 0, was: None }, pc);
        }
        self.look(cpu, &inner);
    }

    /// Takes an instruction at EL1, before it is executed. `read` reads a general register of the CPU.
    pub fn instruction(&self, cpu: CpuId, pc: u64, what: Instruction, read: &mut dyn FnMut(u8) -> u64) {
        let Some(what) = self.told.tell(pc, what) else {
            self.counts.hidden.fetch_add(1, Relaxed);
            return;
        };
        match what {
            // These are frequent, and concern the order of stores alone.
            Instruction::Release => return self.ram.ordered(cpu),
            Instruction::Zero(rt) => return self.unseen(cpu, pc, read(rt), 1),
            Instruction::Fill(to, bytes) => return self.unseen(cpu, pc, read(to), read(bytes)),
            _ => {}
        }
        let mut inner = self.lock();
        inner.catch_up(cpu);
        let event = match what {
            Instruction::Tlbi(op, rt) => {
                self.counts.tlbis.fetch_add(1, Relaxed);
                Event::Tlbi { cpu, op, operand: self.told.operand(op, read(rt)) }
            }
            Instruction::Dsb(kind) => Event::Dsb { cpu, kind },
            Instruction::Isb => Event::Isb { cpu },
            Instruction::Idle => Event::Leave { cpu },
            Instruction::Msr(register, rt) => Event::Msr { cpu, register, value: read(rt) },
            Instruction::Vectors(rt) => {
                // The first in the upper half: kernels with KPTI change between several.
                let value = read(rt);
                if inner.vectors == 0 && value >> 55u32 & 1 == 1 {
                    inner.vectors = value;
                }
                return;
            }
            Instruction::Call => match called(read(0)) {
                Some(Called::Off) => Event::Reset { cpu },
                Some(Called::Reset) => {
                    for cpu in 0..inner.unseen.len() as CpuId {
                        inner.step(&Event::Reset { cpu }, pc);
                    }
                    return;
                }
                None => return,
            },
            Instruction::Return => {
                self.counts.returns.fetch_add(1, Relaxed);
                Event::Isb { cpu }
            }
            Instruction::Release | Instruction::Zero(_) | Instruction::Fill(..) => return,
        };
        inner.step(&event, pc);
        self.look(cpu, &inner);
    }

    /// Takes the return of a CPU to a lower exception level.
    pub fn left(&self, cpu: CpuId, pc: u64) {
        let mut inner = self.lock();
        inner.catch_up(cpu);
        inner.step(&Event::Leave { cpu }, pc);
        self.look(cpu, &inner);
    }

    /// Bytes are about to be stored where no callback tells it.
    fn unseen(&self, cpu: CpuId, pc: u64, va: u64, bytes: u64) {
        self.counts.unseen.fetch_add(1, Relaxed);
        let mut inner = self.lock();
        let va = untagged(va);
        let last = va.saturating_add(bytes.min(self.ram.bytes()).saturating_sub(1));
        for page in (va >> PAGE..=last >> PAGE).map(|n| n << PAGE) {
            let known = inner.page[usize::from(cpu)];
            // A page is cleared from its beginning on: the way to it is looked up there.
            let pa = if known.0 == page && va & ((1 << PAGE) - 1) != 0 {
                known.1
            } else {
                let Some(pa) = inner.observer.translate(cpu, Va(page)) else { continue };
                inner.page[usize::from(cpu)] = (page, pa);
                pa
            };
            self.ram.stored(cpu, pa);
            if self.concerns.may_have(pa) {
                inner.unseen[usize::from(cpu)].push((pa, pc));
            }
        }
    }

    fn look(&self, cpu: CpuId, inner: &Inner) {
        if let Some(waits) = self.waits.get(usize::from(cpu)) {
            waits.store(inner.observer.waits(cpu), Relaxed);
        }
    }

    /// The machine stops. Calls `with` with the observer and the kernel's first value of VBAR_EL1.
    ///
    /// # Errors
    ///
    /// The log could not be written.
    pub fn finish<R>(&self, with: impl FnOnce(&Observer<Shared>, u64) -> R) -> std::io::Result<R> {
        let mut inner = self.lock();
        inner.observer.finish();
        inner.log.as_mut().map_or(Ok(()), Log::finish)?;
        Ok(with(&inner.observer, inner.vectors))
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
    fn catch_up(&mut self, cpu: CpuId) {
        for (pa, pc) in std::mem::take(&mut self.unseen[usize::from(cpu)]) {
            for event in self.observer.differences(cpu, pa, 1 << PAGE) {
                self.step(&event, pc);
            }
        }
    }
}

/// Returns an address without a tag in its highest byte.
const fn untagged(va: u64) -> u64 {
    ((va << 8) as i64 >> 8) as u64
}

/// A call of firmware that concerns the observer.
enum Called {
    /// The CPU goes off.
    Off,
    /// The machine is reset.
    Reset,
}

/// Returns what a function of PSCI does (Arm DEN 0022, 5.1).
const fn called(function: u64) -> Option<Called> {
    const CPU_OFF: u32 = 0x8400_0002;
    const SYSTEM_RESET: u32 = 0x8400_0009;
    const SYSTEM_RESET2: u32 = 0x8400_0012;
    const SYSTEM_RESET2_64: u32 = 0xc400_0012;
    match function as u32 {
        CPU_OFF => Some(Called::Off),
        SYSTEM_RESET | SYSTEM_RESET2 | SYSTEM_RESET2_64 => Some(Called::Reset),
        _ => None,
    }
}
