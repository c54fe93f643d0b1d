//! Hardware whose readers wait for nobody: any hardware, and counters of readers beside it.

use crate::platform::hardware::{Hardware, leave_to_hardware};
use crate::platform::memory::{Frame, Memory};
use crate::platform::readers::Readers;
use crate::platform::sharing::{Sharing, leave_to_sharing};

/// Hardware with [`Readers`]: [`Sharing::read`] is a section of this CPU, and [`Sharing::retire`] lets pages wait for
/// sections. All else is that of the hardware below, for example `arm64::Cpus`.
///
/// A page that finds no room in the list is given up, and counted by [`Readers::lost`].
#[derive(Debug)]
pub struct WithReaders<'a, H, const CPUS: usize, const ROOM: usize> {
    hardware: &'a H,
    readers: &'a Readers<CPUS, ROOM>,
    cpu: fn() -> usize,
}

impl<'a, H: Hardware, const CPUS: usize, const ROOM: usize> WithReaders<'a, H, CPUS, ROOM> {
    /// Combines hardware and readers. `cpu` returns the number of the CPU that calls it, below `CPUS`. A thread may move to
    /// another CPU after that, which is slower and still correct.
    ///
    /// # Safety
    ///
    /// All users of the tables read and retire through these readers.
    pub const unsafe fn new(hardware: &'a H, readers: &'a Readers<CPUS, ROOM>, cpu: fn() -> usize) -> Self {
        Self { hardware, readers, cpu }
    }
}

// SAFETY: every method is the hardware's own, which keeps its promises.
unsafe impl<H: Hardware, const CPUS: usize, const ROOM: usize> Hardware for WithReaders<'_, H, CPUS, ROOM> {
    leave_to_hardware!(H, self => self.hardware);
}

// SAFETY: a page is retired to the readers, through whom all others read, by the promise to `new`. They give it back when
// the sections that were open have ended. The locks are the hardware's own, which keeps its promises.
unsafe impl<H: Sharing, const CPUS: usize, const ROOM: usize> Sharing for WithReaders<'_, H, CPUS, ROOM> {
    leave_to_sharing!(H, self => self.hardware);

    #[inline]
    fn read<R>(&self, work: impl FnOnce() -> R) -> R {
        let _section = self.readers.enter((self.cpu)());
        work()
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        if let Err(frame) = self.readers.retire(memory, frame) {
            self.readers.lose(frame);
        }
    }
}
