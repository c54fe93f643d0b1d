//! A platform that makes mistakes for the library: a CPU of the model that does something else than the library
//! asks for.
//!
//! The next step shows the purpose of a DSB ISHST. So the DSB is held back until then, and executed or left out.

use std::cell::Cell;

use linmap::arch::{Descriptor, Entry, Level, Scope, Tlbi};
use linmap::{
    Attributes, CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Slot,
    Va,
};
use linmap_model::{Event, Held, OnCpu, Tlb};

use crate::fault::Fault;
use crate::scene;

/// The bit of a descriptor that makes it a member of a contiguous run.
const CONTIGUOUS: u64 = 1 << 52;

/// A CPU for which one mistake is made, or none.
pub(crate) struct Faulty<'m> {
    cpu: OnCpu<'m>,
    fault: Option<Fault>,
    /// The root of the map before a repaint.
    root: Pa,
    /// True while a DSB ISHST is held back.
    dsb_is_held: Cell<bool>,
    /// True after the first invalidation of a batch.
    invalidated: Cell<bool>,
}

/// The step that follows a DSB ISHST, and that makes it necessary.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A store into a live table.
    Store,
    /// All CPUs go over to another root.
    Switch,
    /// Anything else: the stores are complete.
    Other,
}

impl<'m> Faulty<'m> {
    /// The map of `root` is the one that operations change.
    pub(crate) fn new(cpu: OnCpu<'m>, fault: Option<Fault>, root: Pa) -> Self {
        Self { cpu, fault, root, dsb_is_held: Cell::new(false), invalidated: Cell::new(false) }
    }

    fn is(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    /// Executes a DSB that is held back, unless the mistake is to leave it out.
    fn before(&self, next: Next) {
        let left_out = match next {
            Next::Store => Fault::NoDsbBeforePublishing,
            Next::Switch => Fault::NoDsbBeforeSwitch,
            Next::Other => Fault::NoDsbAfterStores,
        };
        if self.dsb_is_held.take() && !self.is(left_out) {
            self.cpu.dsb(Dsb::Ishst);
        }
    }

    /// Makes a mistake in the first entry of a table that a store of `link` publishes.
    fn spoil(&self, link: Descriptor) {
        let wrong: fn(u64) -> u64 = match self.fault {
            Some(Fault::OtherAddress) => |entry| entry ^ 1 << 30,
            Some(Fault::OtherMemoryType) => |entry| entry ^ Attributes::MEMORY_TYPE.bits(),
            Some(Fault::OtherPermission) => |entry| entry ^ Attributes::READ_ONLY.bits(),
            Some(Fault::NoPageBit) => |entry| entry & !0b10,
            Some(Fault::HoleInTable) => |_| 0,
            _ => return,
        };
        let setup = self.cpu.model().setup();
        // What is no table is an address outside of the table pages, at whatever level.
        let Entry::Table(table) = link.decode(setup.geometry, Level::new(2)) else { return };
        if table.0.wrapping_sub(setup.tables_at) >> setup.geometry.page_shift() < setup.tables as u64 {
            // SAFETY: the library has given the frame up to publish it, and no walker reaches it yet.
            let mut frame = unsafe { Frame::from_pa(table) };
            self.cpu.with_slots(&mut frame, Level::PAGE, |slots| slots[0] = wrong(slots[0]));
            _ = frame.into_pa();
        }
    }

    /// The descriptor that is stored in the place of one; none if the store is left out.
    ///
    /// # Safety
    ///
    /// As for [`Memory::load`].
    unsafe fn stored(&self, slot: Slot, new: Descriptor) -> Option<Descriptor> {
        // SAFETY: the caller's promise. Loaded only where it is needed: the model knows what a CPU has read last.
        let old = || unsafe { self.cpu.load(slot).0 };
        match self.fault {
            Some(Fault::StaysDirtyManaged) => {
                Some(Descriptor(new.0 | old() & Attributes::DIRTY_MANAGED.bits()))
            }
            Some(Fault::RunNotDissolved) if old() ^ new.0 == CONTIGUOUS => None,
            _ => Some(new),
        }
    }

    /// The invalidation that is issued in the place of one; none if it is left out.
    fn issued(&self, op: Tlbi, g: Geometry) -> Option<Tlbi> {
        let (from, scope) = match op {
            Tlbi::Page(from, scope) | Tlbi::Range { from, scope, .. } => (from, scope),
            Tlbi::All | Tlbi::Repeat => return Some(op).filter(|_| !self.is(Fault::NoTlbi)),
        };
        let block = g.level_size(Level::new(2));
        match self.fault {
            Some(Fault::NoTlbi) => None,
            Some(Fault::TlbiOfOnePage) => {
                (!self.invalidated.replace(true)).then_some(Tlbi::Page(from, scope))
            }
            Some(Fault::TlbiOfLargeEntries) => {
                from.0.is_multiple_of(block).then_some(Tlbi::Page(from, scope))
            }
            Some(Fault::TlbiOfLeavesOnly) => Some(match op {
                Tlbi::Range { pages, .. } => Tlbi::Range { from, pages, scope: Scope::LastLevel },
                _ => Tlbi::Page(from, Scope::LastLevel),
            }),
            Some(Fault::AliasNotInvalidated) => (!scene::is_alias(from)).then_some(op),
            _ => Some(op),
        }
    }
}

// SAFETY: the CPU's memory does it all. Mistakes are what it is for, and the model judges what becomes of them.
unsafe impl Memory for Faulty<'_> {
    fn page_size(&self) -> u64 {
        self.cpu.page_size()
    }

    fn take(&self) -> Option<Frame> {
        self.before(Next::Other);
        self.cpu.take()
    }

    fn give(&self, frame: Frame) {
        self.before(Next::Other);
        match self.fault {
            Some(Fault::NotGivenBack | Fault::OldTreeNotGivenBack) => _ = frame.into_pa(),
            _ => self.cpu.give(frame),
        }
    }

    fn with_slots<R>(&self, frame: &mut Frame, level: Level, work: impl FnOnce(&mut [u64]) -> R) -> R {
        self.cpu.with_slots(frame, level, work)
    }

    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.cpu.load(slot) }
    }

    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        self.spoil(new);
        self.before(Next::Store);
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(new) = self.stored(slot, new) {
                self.cpu.store(slot, new);
            }
        }
    }
}

/// The lock, or none where the mistake is not to take it.
pub(crate) struct Lock<'f, 'm> {
    platform: &'f Faulty<'m>,
    _held: Option<Held<'m>>,
}

impl Drop for Lock<'_, '_> {
    fn drop(&mut self) {
        self.platform.before(Next::Other);
    }
}

// SAFETY: as for its memory.
unsafe impl<'m> Hardware for Faulty<'m> {
    fn promise(&self) -> Promise {
        let promise = self.cpu.promise();
        match self.fault {
            Some(Fault::PromiseIgnored) => Promise { never_aborts: true, ..promise },
            Some(Fault::TlbiByRange) => Promise { range_tlbi: true, ..promise },
            Some(Fault::NoRepeat) => Promise { repeat_tlbi: false, ..promise },
            _ => promise,
        }
    }

    unsafe fn park(
        &self,
        memory: &impl Memory,
        root: Pa,
        rewrites: &[EntryUpdate],
    ) -> Result<(), CannotPark> {
        self.before(if root == self.root { Next::Other } else { Next::Switch });
        match self.fault {
            Some(Fault::NotParked) => {
                // SAFETY: the operation that made them holds the lock.
                rewrites.iter().for_each(|r| unsafe { r.carry_out(memory) });
                self.before(Next::Other);
                return Ok(());
            }
            Some(Fault::GivenBackBeforeSwitch) => {
                // SAFETY: the page is a table's that was a frame before; that it is in use is what is wrong.
                self.cpu.give(unsafe { Frame::from_pa(self.root) });
            }
            _ => {}
        }
        // SAFETY: the caller's promise.
        unsafe { self.cpu.park(memory, root, rewrites) }
    }

    fn dsb(&self, kind: Dsb) {
        self.before(Next::Other);
        self.invalidated.set(false);
        match kind {
            Dsb::Ishst => self.dsb_is_held.set(true),
            Dsb::Ish if self.is(Fault::NoDsbAfterTlbi) => {}
            Dsb::Ish => self.cpu.dsb(Dsb::Ish),
        }
    }

    fn isb(&self) {
        self.before(Next::Other);
        if !self.is(Fault::NoIsb) {
            self.cpu.isb();
        }
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.cpu.sync_code(va, bytes);
    }

    fn tlbi(&self, op: Tlbi, g: Geometry) {
        self.before(Next::Other);
        if let (true, Tlbi::Range { .. }) = (self.is(Fault::TlbiOperandTooWide), op) {
            // Scale 16, of a field of two bits.
            let (op, operand) = (Tlb::Rvaale1is, op.encode(g).1 | 1 << 48);
            return self.cpu.step(Event::Tlbi { cpu: self.cpu.number(), op, operand });
        }
        if let Some(op) = self.issued(op, g) {
            self.cpu.tlbi(op, g);
        }
    }
}

// SAFETY: the lock is that of the model's CPU, unless the mistake is not to take it, which the model judges.
unsafe impl<'m> Sharing for Faulty<'m> {
    type Held<'h>
        = Lock<'h, 'm>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Lock<'_, 'm> {
        let takes = !self.is(Fault::NoLock);
        Lock { platform: self, _held: takes.then(|| self.cpu.lock(number)) }
    }
}
