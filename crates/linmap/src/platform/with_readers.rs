//! Locks whose readers wait for nobody: any locks, and counters of readers beside them.

use crate::platform::memory::{Frame, Memory};
use crate::platform::readers::Readers;
use crate::platform::sharing::{Sharing, leave_to_sharing};

/// Locks with [`Readers`]: [`Sharing::read`] is a section of this CPU, and [`Sharing::retire`] lets pages wait for
/// sections. The locks are those below, for example of `arm64::Cpus`. A platform has it by
/// [`Combined::with_sharing`](crate::Combined::with_sharing).
///
/// A page that finds no room in the list is given up, and counted by [`Readers::lost`].
#[derive(Debug)]
pub struct WithReaders<'a, S, const CPUS: usize, const ROOM: usize> {
    sharing: &'a S,
    readers: &'a Readers<CPUS, ROOM>,
    cpu: fn() -> usize,
}

impl<'a, S: Sharing, const CPUS: usize, const ROOM: usize> WithReaders<'a, S, CPUS, ROOM> {
    /// Combines locks and readers. `cpu` returns the number of the CPU that calls it, below `CPUS`. A thread may move to
    /// another CPU after that, which is slower and still correct.
    ///
    /// # Safety
    ///
    /// All users of the tables read and retire through these readers.
    pub const unsafe fn new(sharing: &'a S, readers: &'a Readers<CPUS, ROOM>, cpu: fn() -> usize) -> Self {
        Self { sharing, readers, cpu }
    }
}

// SAFETY: a page is retired to the readers, through whom all others read, by the promise to `new`. They give it back when
// the sections that were open have ended. The locks are those below, which keep their promises.
unsafe impl<S: Sharing, const CPUS: usize, const ROOM: usize> Sharing for WithReaders<'_, S, CPUS, ROOM> {
    leave_to_sharing!(S, self => self.sharing);

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
