//! Two operations at once, always in the same order: the second comes when the first has read a descriptor
//! and is about to replace it. If the lock is taken, it waits until the first has returned. Or it comes when the
//! first, which is a repaint, has let go of the lock for a moment.

use std::cell::Cell;

use linmap::arch::{Descriptor, Level};
use linmap::{Combined, Frame, Memory, Sharing, Slot};
use linmap_model::OnCpu;

use crate::faulty::{Faulty, Lock};
use crate::operation::Operation;
use crate::world::World;

/// The memory of a CPU that is interrupted before its first store into a live table.
struct Interrupted<'a, 'm> {
    platform: &'a Faulty<'m>,
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

// SAFETY: the platform's memory does it all.
unsafe impl Memory for Interrupted<'_, '_> {
    fn page_size(&self) -> u64 {
        self.platform.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.platform.take()
    }

    fn give(&self, frame: Frame) {
        self.platform.give(frame);
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.platform.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.platform.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        if !self.cpu.model().is_locked() {
            self.let_other();
        }
        // SAFETY: the caller's promise.
        unsafe { self.platform.store(slot, new) }
    }
}

/// CPU 0 does the first operation, and CPU 1 all others in the midst of it.
pub(crate) fn interrupted<'m>(world: &World<'m>, platform: &Faulty<'m>, operations: &[Operation]) {
    let changes = |o: &Operation| o.changes(&world.predict(o).flat, world.g);
    let [cpu, other] = [world.cpu(0), world.cpu(1)];
    let [first, rest @ ..] = operations else { return };
    let others = || {
        for operation in rest {
            other.begins(world.space.root(), operation.name(), &changes(operation));
            other.done(operation.run(&world.space, &other, &mut || {}).is_ok());
        }
    };
    let memory = Interrupted { platform, cpu, other: Cell::new(Some(&others)) };
    // SAFETY: all CPUs of a model take the same lock, or none where that is the mistake.
    let platform = unsafe { Combined::new(&memory, platform) };
    cpu.begins(world.space.root(), first.name(), &changes(first));
    cpu.done(first.run(&world.space, &platform, &mut || {}).is_ok());
    memory.let_other();
}

/// The locks of a CPU that is overtaken: while it waits for the lock, when the map has been copied and the copy is not in
/// use, another has it.
struct Overtaken<'a, 'm> {
    platform: &'a Faulty<'m>,
    locks: Cell<u32>,
    other: &'a dyn Fn(),
}

// SAFETY: the lock is the platform's, and readers hold it.
unsafe impl<'m> Sharing for Overtaken<'_, 'm> {
    type Held<'h>
        = Lock<'h, 'm>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Lock<'_, 'm> {
        self.locks.set(self.locks.get() + 1);
        if self.locks.get() == 7 {
            (self.other)();
        }
        self.platform.lock(number)
    }
}

/// CPU 0 repaints the map, and CPU 1 does an operation when its pages have been copied.
pub(crate) fn overtaken<'m>(
    world: &World<'m>,
    platform: &Faulty<'m>,
    repaint: &Operation,
    operation: &Operation,
) {
    let [cpu, other] = [world.cpu(0), world.cpu(1)];
    let others = || {
        let changes = operation.changes(&world.predict(operation).flat, world.g);
        other.begins(world.space.root(), operation.name(), &changes);
        other.done(operation.run(&world.space, &other, &mut || {}).is_ok());
    };
    let locks = Overtaken { platform, locks: Cell::new(0), other: &others };
    // SAFETY: all CPUs of a model take the same lock.
    let platform = unsafe { Combined::new(platform, platform).with_sharing(&locks) };
    cpu.begins(world.space.root(), repaint.name(), &[]);
    let result = repaint.run(&world.space, &platform, &mut || {});
    assert!(result.is_ok() && locks.locks.get() > 7, "{result:?}");
    cpu.done(true);
}
