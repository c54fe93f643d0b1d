//! Two operations at once, always in the same order: the second comes when the first has read a descriptor
//! and is about to replace it. If the lock is taken, it waits until the first has returned.

use std::cell::Cell;

use linmap::{Both, Descriptor, Frame, Hardware, Memory, Slot};
use linmap_model::OnCpu;

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
    let changes = |o: &Operation| world.predict(o).flat.changes(o.va, o.last(world.g));
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
