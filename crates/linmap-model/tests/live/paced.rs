//! A CPU whose holds are short, so that most changes take several.

use linmap::arch::Tlbi;
use linmap::{CannotPark, Dsb, EntryUpdate, Frame, Geometry, Hardware, Memory, Pa, Promise, Sharing, Va};
use linmap_model::OnCpu;

/// A CPU of the model.
pub(crate) struct Paced<'m>(pub(crate) OnCpu<'m>);

// SAFETY: the CPU does it all, and keeps its promises.
unsafe impl<'m> Hardware for Paced<'m> {
    fn promise(&self) -> Promise {
        self.0.promise()
    }

    fn dsb(&self, kind: Dsb) {
        self.0.dsb(kind);
    }

    fn isb(&self) {
        self.0.isb();
    }

    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.0.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.0.sync_code(va, bytes);
    }

    fn call(&self) -> Result<(), CannotPark> {
        self.0.call()
    }

    unsafe fn park(&self, memory: &impl Memory, root: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        // SAFETY: the caller's promise.
        unsafe { self.0.park(memory, root, updates) }
    }
}

// SAFETY: as above.
unsafe impl<'m> Sharing for Paced<'m> {
    const LOCKS: usize = OnCpu::<'m>::LOCKS;
    const HOLD: usize = 12;

    type Held<'h>
        = <OnCpu<'m> as Sharing>::Held<'h>
    where
        Self: 'h;

    fn lock(&self, number: usize) -> Self::Held<'_> {
        self.0.lock(number)
    }

    fn wait(&self) -> bool {
        self.0.wait()
    }

    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        self.0.read(work)
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        self.0.retire(memory, frame);
    }
}
