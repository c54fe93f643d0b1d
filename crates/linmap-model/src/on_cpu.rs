//! A CPU of the model as a platform: the library under test cannot tell it from a real one.
//!
//! It has the table pages ([`Memory`]) and the instructions ([`Hardware`]) that a real one has; each becomes
//! an [`Event`].

use std::sync::{MutexGuard, PoisonError};
use std::thread;

use linmap::arch::{Descriptor, Instruction, Level, Tlbi};
use linmap::layout::Run;
use linmap::{
    CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot, Va,
};

use crate::{Barrier, CpuId, Event, Expected, Model, Register, Tlb};

/// A CPU of a [`Model`]: the memory and the hardware that code running on it has.
#[derive(Clone, Copy)]
pub struct OnCpu<'m> {
    model: &'m Model,
    cpu: CpuId,
}

impl Model {
    /// Returns the CPU of that number.
    ///
    /// # Panics
    ///
    /// There is no such CPU.
    pub fn cpu(&self, cpu: CpuId) -> OnCpu<'_> {
        let cpus = self.lock().machine.setup().cores.len();
        assert!(usize::from(cpu) < cpus, "there are {cpus} CPUs, and no CPU {cpu}");
        OnCpu { model: self, cpu }
    }
}

impl<'m> OnCpu<'m> {
    /// Its number.
    pub const fn number(self) -> CpuId {
        self.cpu
    }

    /// The machine that it is part of.
    pub const fn model(self) -> &'m Model {
        self.model
    }

    /// Takes any step, by the CPU that the event names.
    pub fn step(self, event: Event) {
        self.model.step(self.cpu, event);
    }

    /// Reports the CPU's features to the system.
    pub fn reports(self) {
        self.step(Event::Report { cpu: self.cpu });
    }

    /// Loads a translation table base register, and an ISB.
    pub fn loads(self, register: Register, root: Pa) {
        self.step(Event::Msr { cpu: self.cpu, register, value: base_register(root) });
        self.isb();
    }

    /// Announces a tree that was built of `runs`, so that CPUs can load its root: until something is announced of a
    /// tree, the machine knows of no address that it may map. With the DSB after which walkers see the tables.
    pub fn announces(self, root: Pa, runs: impl IntoIterator<Item = Run>) {
        let geometry = self.model.geometry();
        let changes: Vec<_> = runs.into_iter().map(|run| Expected::of_run(&run, geometry)).collect();
        self.begins(root, "a tree", &changes);
        self.dsb(Dsb::Ishst);
        self.done(true);
    }

    /// Announces an operation on the tree of `root`, and the changes that it will have made when it is done.
    pub fn begins(self, root: Pa, name: &str, changes: &[Expected]) {
        let (root, name, changes) = (root.0, name.to_owned(), changes.to_vec());
        self.step(Event::Begin { cpu: self.cpu, root, name, changes });
    }

    /// Ends the operation: with `ok` it made the changes that were announced, otherwise none.
    pub fn done(self, ok: bool) {
        self.step(Event::Done { cpu: self.cpu, ok });
    }

    /// Gives pages of data to another owner: from here on no CPU may reach them, by whatever address.
    pub fn gives(self, pa: Pa, bytes: u64) {
        self.step(Event::Give { cpu: self.cpu, pa: pa.0, bytes });
    }

    /// Takes pages of data back that were given away.
    pub fn takes(self, pa: Pa, bytes: u64) {
        self.step(Event::Take { cpu: self.cpu, pa: pa.0, bytes });
    }

    /// Returns a table without entries, for CPUs that leave the map: the same one each time. Before the first call
    /// CPUs cannot be parked.
    ///
    /// # Panics
    ///
    /// There is no table page left.
    pub fn empty_table(self) -> Pa {
        if let Some(table) = self.model.lock().empty {
            return Pa(table);
        }
        let mut frame = self.take().expect("a table page for the empty table");
        self.with_slots(&mut frame, Level::PAGE, |slots| slots.fill(0));
        self.dsb(Dsb::Ishst);
        let table = frame.into_pa();
        self.model.lock().empty = Some(table.0);
        table
    }
}

// SAFETY:
// - pages are handed out once until they are given back, aligned and of the geometry's size;
// - `with_slots` calls its closure with that page's words, and the frame is borrowed for as long;
// - `load` and `store` are steps of the machine, one after another;
// - no two memories of a process share an address (`Model::new`), and those of no table page of this machine
//   are refused, by a panic.
unsafe impl Memory for OnCpu<'_> {
    fn page_size(&self) -> u64 {
        self.model.lock().machine.setup().geometry.page_size()
    }

    fn take(&self) -> Option<Frame> {
        let mut inner = self.model.lock();
        if inner.left == Some(0) {
            return None;
        }
        let table = inner.free.pop()?;
        inner.left = inner.left.map(|left| left - 1);
        let result = inner.step(Event::Alloc { cpu: self.cpu, table });
        let page = self.model.page(&inner, table);
        // SAFETY: the page was free, so that nothing else refers to it.
        let page = unsafe { &mut *page };
        inner.fill(table, page);
        drop(inner);
        self.model.report(result);
        // SAFETY: as above; the page is this machine's.
        Some(unsafe { Frame::from_pa(Pa(table)) })
    }

    fn give(&self, frame: Frame) {
        let table = frame.into_pa().0;
        let mut inner = self.model.lock();
        _ = self.model.page(&inner, table);
        inner.plain.remove(&table);
        let result = inner.step(Event::Free { cpu: self.cpu, table });
        inner.free.push(table);
        inner.left = inner.left.map(|left| left + 1);
        drop(inner);
        self.model.report(result);
    }

    fn with_slots<R>(&self, frame: &mut Frame, _: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        let mut inner = self.model.lock();
        let page = self.model.page(&inner, frame.pa().0);
        inner.plain.insert(frame.pa().0, (self.cpu, thread::current().id()));
        drop(inner);
        // SAFETY: the frame is borrowed mutably, so that this is the only reference to its page.
        work(unsafe { &mut *page })
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        let mut inner = self.model.lock();
        let result = inner.machine.reads(self.cpu, slot.table.0);
        let value = match (inner.machine.read(slot.table, slot.index), inner.machine.verdict()) {
            (Some(value), Ok(())) => value,
            // The machine stops at a breach; the code goes on with its own stores.
            _ => self.model.word(&inner, slot),
        };
        *inner.remembered(self.cpu, slot) = Some((slot, value));
        drop(inner);
        self.model.report(result);
        Descriptor(value)
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        let mut inner = self.model.lock();
        let remembered = inner.remembered(self.cpu, slot);
        let was = remembered.filter(|r| r.0 == slot).map(|r| r.1);
        *remembered = Some((slot, new.0));
        let (table, index) = (slot.table.0, slot.index);
        let event = Event::Write { cpu: self.cpu, table, index, value: new.0, count: 1, step: 0, was };
        let result = self.model.step_after_stores(&mut inner, self.cpu, event);
        if result.is_ok() || !self.model.panics {
            let page = self.model.page(&inner, table);
            // SAFETY: the page is a table's, so no frame stands for it; under the lock.
            unsafe { (*page)[index] = new.0 };
            inner.stored(slot, new.0);
        }
        drop(inner);
        self.model.report(result);
    }
}

/// A section in which a CPU reads live tables without a lock. It ends when this is dropped.
pub struct Reading<'m> {
    cpu: OnCpu<'m>,
    number: u64,
}

impl<'m> OnCpu<'m> {
    /// Begins to read live tables without a lock. Sections can be nested.
    #[must_use]
    pub fn begins_to_read(self) -> Reading<'m> {
        self.step(Event::ReadBegin { cpu: self.cpu });
        Reading { cpu: self, number: self.model.lock().grace.begin() }
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        let Self { cpu, number } = *self;
        cpu.step(Event::ReadEnd { cpu: cpu.cpu });
        let gone = cpu.model.lock().grace.end(number);
        gone.into_iter().for_each(|frame| cpu.give(frame));
    }
}

/// The lock on live tables, as a CPU holds it.
pub struct Held<'m> {
    model: &'m Model,
    _guard: MutexGuard<'m, ()>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        *self.model.holder.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<'m> OnCpu<'m> {
    fn held(self, guard: MutexGuard<'m, ()>) -> Held<'m> {
        *self.model.holder.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread::current().id());
        Held { model: self.model, _guard: guard }
    }

    /// Takes a CPU off the map: it loads the empty table and drops all entries of its TLB.
    fn leaves_map(self, cpu: CpuId, empty: Pa) {
        let register = Register::Ttbr1;
        self.step(Event::Park { cpu });
        self.step(Event::Msr { cpu, register, value: base_register(empty) });
        self.step(Event::Isb { cpu });
        self.step(Event::Tlbi { cpu, op: Tlb::Vmalle1, operand: 0 });
        self.step(Event::Dsb { cpu, kind: Barrier::Nsh });
        self.step(Event::Isb { cpu });
    }
}

/// Returns the value of a table base register. With 52-bit output addresses bits 5:2 hold bits 51:48.
const fn base_register(root: Pa) -> u64 {
    root.0 & ((1 << 48) - 1) | (root.0 >> 48) << 2
}

// SAFETY:
// - each method is the step that it names;
// - the promise is the weakest of all CPUs;
// - `park` takes every CPU off the map through the empty table, in the order that the machine judges.
unsafe impl<'m> Hardware for OnCpu<'m> {
    fn promise(&self) -> Promise {
        let inner = self.model.lock();
        let cores = &inner.machine.setup().cores;
        Promise {
            never_aborts: cores.iter().all(|c| c.never_aborts),
            range_tlbi: cores.iter().all(|c| c.range_tlbi),
            repeat_tlbi: cores.iter().any(|c| c.repeat_tlbi),
        }
    }

    unsafe fn park(
        &self,
        memory: &impl Memory,
        root: Pa,
        rewrites: &[EntryUpdate],
    ) -> Result<(), CannotPark> {
        let (users, empty, refused) = {
            let inner = self.model.lock();
            (inner.machine.users_of_upper_half(), inner.empty, inner.unparkable)
        };
        let Some(empty) = empty.filter(|_| !refused) else { return Err(CannotPark) };
        for &(cpu, _) in &users {
            self.leaves_map(cpu, Pa(empty));
        }
        // SAFETY: the operation that made them holds the lock.
        rewrites.iter().for_each(|r| unsafe { r.carry_out(memory) });
        // Without a store there is nothing to wait for.
        if !rewrites.is_empty() {
            self.dsb(Dsb::Ishst);
        }
        for &(cpu, _) in &users {
            self.step(Event::Msr { cpu, register: Register::Ttbr1, value: base_register(root) });
            self.step(Event::Isb { cpu });
            self.step(Event::Unpark { cpu });
        }
        Ok(())
    }

    fn dsb(&self, kind: Dsb) {
        let kind = match kind {
            Dsb::Ishst => Barrier::Ishst,
            Dsb::Ish => Barrier::Ish,
        };
        self.step(Event::Dsb { cpu: self.cpu, kind });
    }

    fn isb(&self) {
        self.step(Event::Isb { cpu: self.cpu });
    }

    /// Nothing is executed here.
    fn sync_code(&self, _: Va, _: u64) {}

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        let (instruction, operand) = op.encode(geometry);
        let op = match instruction {
            Instruction::Vmalle1is => Tlb::Vmalle1is,
            Instruction::Vaae1is => Tlb::Vaae1is,
            Instruction::Vaale1is => Tlb::Vaale1is,
            Instruction::Rvaae1is => Tlb::Rvaae1is,
            Instruction::Rvaale1is => Tlb::Rvaale1is,
            Instruction::Vale1is => Tlb::Vale1is,
        };
        self.step(Event::Tlbi { cpu: self.cpu, op, operand });
    }
}

// SAFETY: the lock is a mutex, for whichever threads the CPUs run on. A page that is retired while readers are in their sections is
// given back when the last of them has ended.
unsafe impl<'m> Sharing for OnCpu<'m> {
    type Held<'h>
        = Held<'m>
    where
        Self: 'h;

    fn lock(&self, _: usize) -> Held<'m> {
        let may = self.model.lock().machine.locks(self.cpu);
        self.model.report(may);
        let holder = *self.model.holder.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(
            holder != Some(thread::current().id()),
            "the lock is taken twice: on a CPU that waits for ever"
        );
        self.held(self.model.tables.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let _reading = self.begins_to_read();
        work()
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        let now = self.model.lock().grace.retire(frame);
        if let Some(frame) = now {
            memory.give(frame);
        }
    }
}
