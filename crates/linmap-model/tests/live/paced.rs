//! The locks of a CPU with short holds, so that most changes take several.

use linmap::{Frame, Memory, Sharing};
use linmap_model::OnCpu;

/// A CPU of the model.
pub(crate) struct Paced<'m>(pub(crate) OnCpu<'m>);

// SAFETY: the CPU does it all, and keeps its promises.
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
