//! Memory whose pages start out as garbage, so that a slot that is not written is noticed.

use linmap::arch::Level;
use linmap::host::HostMemory;
use linmap::{Geometry, Memory};

/// Memory for at most `pages` table pages, each full of descriptors that would translate.
pub(crate) fn dirty_memory(geometry: Geometry, pages: usize) -> HostMemory {
    let memory = HostMemory::new(geometry, pages);
    let mut frames: Vec<_> = std::iter::from_fn(|| memory.take()).collect();
    for frame in &mut frames {
        memory.with_slots(frame, Level::PAGE, |slots| slots.fill(0x0060_0000_dead_0703));
    }
    frames.into_iter().for_each(|frame| memory.give(frame));
    assert_eq!(memory.in_use(), 0);
    memory
}
