//! Takes over live tables that other software made, and hands tables back when no walker reaches them.

use core::ops::ControlFlow;

use crate::build::{BuildError, Tree};
use crate::format::{Entry, Geometry, Half, Pa, Va};
use crate::live::address_space::AddressSpace;
use crate::live::map_state::MapState;
use crate::platform::Memory;
use crate::read::{Live, count, visit};

impl AddressSpace {
    /// Takes over tables that walkers already use, for example those of a boot loader or of a kernel's older code.
    /// Reads all of them once to count their contents, and changes nothing.
    ///
    /// The policy is [`Policy::Fixed`](crate::Policy::Fixed) until [`set_policy`](Self::set_policy) changes it. Memory
    /// that is both writable and executable stays so until it changes; [`check`](Self::check) finds it. Everything
    /// below a table descriptor with restrictions can be read, but not changed.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// - `root` is the root table that the walkers of this half use, or will use, with this geometry.
    /// - The root and all tables below it are pages of `memory`, each used in one place, and no [`Frame`](crate::Frame)
    ///   exists for any of them. From now on they belong to this value, which gives unused tables back to that memory.
    /// - Contiguous runs are whole: all members have the contiguous bit and are consistent, as [`check`](Self::check)
    ///   tests.
    /// - From now on only the walkers and this value read or write the tables, and earlier stores to them are visible
    ///   to all walkers.
    pub unsafe fn from_live<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
    ) -> Result<Self, BuildError> {
        Tree::fits(memory, geometry)?;
        // SAFETY: these are live tables of this memory, by the caller's promise.
        let tables = unsafe { Live::new(memory) };
        let stats = count(&tables, geometry, root, whole(geometry, half)).unwrap_or_else(|e| match e {});
        Ok(Self::of(MapState::over(root, geometry, half, &stats)))
    }

    /// Hands the tables back as a tree, which can be [discarded](Tree::discard) or published elsewhere. Reads all of
    /// them once.
    ///
    /// # Safety
    ///
    /// - `memory` is the memory of the tables.
    /// - No walker can reach any of them, and no TLB holds an entry of them: the TTBR changed on each CPU, ISB, TLBI, DSB.
    pub unsafe fn into_tree<M: Memory>(self, memory: &M) -> Tree {
        let (root, geometry, half) = (self.root(), self.geometry(), self.state().half());
        // SAFETY: these are tables of this memory; no walker uses them, and this value owns them.
        let tables = unsafe { Live::new(memory) };
        let stats = count(&tables, geometry, root, whole(geometry, half)).unwrap_or_else(|e| match e {});
        let mut write_execute = None;
        let found = visit(&tables, geometry, root, whole(geometry, half), |visited| match visited.entry {
            Entry::Leaf(leaf) if leaf.valid && leaf.attributes.is_write_execute() => {
                write_execute = Some(visited.va);
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        });
        _ = found.unwrap_or_else(|e| match e {});
        // SAFETY: the caller's promise. This value owned the tables, and is gone.
        unsafe { Tree::of_tables(memory, (root, geometry, half), stats, write_execute) }
    }
}

/// Returns the first and the last address of a half.
const fn whole(geometry: Geometry, half: Half) -> (Va, Va) {
    let base = geometry.base(half);
    (Va(base), Va(base + ((1 << geometry.va_bits()) - 1)))
}
