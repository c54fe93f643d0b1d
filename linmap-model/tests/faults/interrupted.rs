//! Two operations at once, always in the same order: the second comes when the first has read a descriptor
//! and is about to replace it. If the lock is taken, it waits until the first has returned. Or it comes when the
//! first, which is a repaint, has let go of the lock for a moment.

use std::cell::Cell;

use linmap::{
    Both, CanNotPark, Descriptor, Dsb, Frame, Geometry, Hardware, Memory, Pa, Promise, Rewrite, Slot, Tlbi,
    Va,
};
use linmap_model::{Held, OnCpu};

use crate::operation::Operation;
use crate::world::World;

/// The memory of a CPU that is interrupted before its first store into a live table.
struct Interrupted<'a, 'm> {
    cpu: OnCpu<'m>,
    other: Cell<Option<&'a dyn Fn()>>,
}

impl Interrupted<'_, '_> {
    fn let_other(&self) {
        if let Some(other) = self.other.take() {
            other();
        }
    }
}

// SAFETY: the CPU's memory does it all, and keeps its promises.
unsafe impl Memory for Interrupted<'_, '_> {
    fn page_size(&self) -> u64 {
        self.cpu.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.cpu.take()
    }

    fn give(&self, frame: Frame) {
        self.cpu.give(frame);
    }

    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.cpu.slots(frame)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.cpu.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        if self.cpu.try_lock().is_some() {
            self.let_other();
        }
        // SAFETY: the caller's promise.
        unsafe { self.cpu.store(slot, new) }
    }
}

/// CPU 0 does the first operation, and CPU 1 all others in the midst of it.
pub(crate) fn interrupted(world: &World<'_>, operations: &[Operation]) {
    let changes = |o: &Operation| o.changes(&world.predict(o).flat, world.g);
    let [cpu, other] = [world.cpu(0), world.cpu(1)];
    let [first, rest @ ..] = operations else { return };
    let others = || {
        for operation in rest {
            other.begins(world.space.root(), operation.name(), &changes(operation));
            other.done(operation.run(&world.space, &other).is_ok());
        }
    };
    let memory = Interrupted { cpu, other: Cell::new(Some(&others)) };
    // SAFETY: all CPUs of a model take the same lock.
    let platform = unsafe { Both::new(&memory, &cpu) };
    cpu.begins(world.space.root(), first.name(), &changes(first));
    cpu.done(first.run(&world.space, &platform).is_ok());
    memory.let_other();
}

/// A CPU that is overtaken: while it waits for the lock for the third time another has it.
struct Overtaken<'a, 'm> {
    cpu: OnCpu<'m>,
    locks: Cell<u32>,
    other: &'a dyn Fn(),
}

// SAFETY: the CPU does it all, and keeps its promises.
unsafe impl<'m> Hardware for Overtaken<'_, 'm> {
    type Held<'h>
        = Held<'m>
    where
        Self: 'h;

    fn lock(&self) -> Held<'m> {
        self.locks.set(self.locks.get() + 1);
        if self.locks.get() == 3 {
            (self.other)();
        }
        self.cpu.lock()
    }

    fn try_lock(&self) -> Option<Held<'m>> {
        self.cpu.try_lock()
    }

    fn promise(&self) -> Promise {
        self.cpu.promise()
    }

    fn dsb(&self, kind: Dsb) {
        self.cpu.dsb(kind);
    }

    fn isb(&self) {
        self.cpu.isb();
    }

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.cpu.tlbi(op, geometry);
    }

    fn sync_code(&self, _: Va, _: u64) {}

    fn park(&self, memory: &impl Memory, root: Pa, rewrites: &[Rewrite]) -> Result<(), CanNotPark> {
        self.cpu.park(memory, root, rewrites)
    }
}

/// CPU 0 repaints the map, and CPU 1 does an operation when the first piece has been copied.
pub(crate) fn overtaken(world: &World<'_>, repaint: &Operation, operation: &Operation) {
    let [cpu, other] = [world.cpu(0), world.cpu(1)];
    let others = || {
        let changes = operation.changes(&world.predict(operation).flat, world.g);
        other.begins(world.space.root(), operation.name(), &changes);
        other.done(operation.run(&world.space, &other).is_ok());
    };
    let hardware = Overtaken { cpu, locks: Cell::new(0), other: &others };
    // SAFETY: all CPUs of a model take the same lock.
    let platform = unsafe { Both::new(&cpu, &hardware) };
    cpu.begins(world.space.root(), repaint.name(), &[]);
    let result = repaint.run(&world.space, &platform);
    assert!(result.is_ok() && hardware.locks.get() > 3, "{result:?}");
    cpu.done(true);
}
