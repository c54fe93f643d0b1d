//! Tables that come from others, or go to others: live ones are taken over, and handed back when no walker reaches them.

use core::ops::ControlFlow;

use crate::build::{BuildError, Tree};
use crate::format::{Entry, Geometry, Half, Pa, Va};
use crate::live::address_space::AddressSpace;
use crate::live::map_state::MapState;
use crate::platform::Memory;
use crate::read::{Live, count, visit};

impl AddressSpace {
    /// Takes over tables that walkers use already, made by a boot loader, say, or by a kernel's older code. Reads
    /// all of them once, to count what is there, and changes nothing.
    ///
    /// The policy is [`Policy::Fixed`](crate::Policy::Fixed) until [`set_policy`](Self::set_policy) says otherwise. Pages that
    /// are writable and executable stay so until they change; [`check`](Self::check) finds them. What is below a table whose
    /// descriptor restricts it can be read, and is not changed.
    ///
    /// # Errors
    ///
    /// A memory whose pages are not of the geometry's size.
    ///
    /// # Safety
    ///
    /// - `root` is the root table that the walkers of this half use, or will use, by this geometry.
    /// - The root and all tables below it are pages of `memory`, each in one place, and no [`Frame`](crate::Frame) stands for
    ///   one; from now on they belong to this value. What operations no longer need, they give to that memory.
    /// - Contiguous runs are whole: each member has the bit and says the same, as [`check`](Self::check) looks for.
    /// - Nothing but the walkers and this value reads or writes the tables from now on, and what was written to them is visible
    ///   to all walkers.
    pub unsafe fn from_live<M: Memory>(
        memory: &M,
        geometry: Geometry,
        half: Half,
        root: Pa,
    ) -> Result<Self, BuildError> {
        Tree::fits(memory, geometry)?;
        // SAFETY: the root of live tables of this memory, by the caller's promise.
        let tables = unsafe { Live::new(memory) };
        let stats = count(&tables, geometry, root, whole(geometry, half)).unwrap_or_else(|e| match e {});
        Ok(Self::of(MapState::over(root, geometry, half, &stats)))
    }

    /// Hands the tables back as a tree, which can be [discarded](Tree::discard), or live once more elsewhere. Reads all of
    /// them once.
    ///
    /// # Safety
    ///
    /// - `memory` is that of the tables.
    /// - No walker can reach any of them, and no TLB holds an entry of them: the TTBR changed on each CPU, ISB, TLBI, DSB.
    pub unsafe fn into_tree<M: Memory>(self, memory: &M) -> Tree {
        let (root, geometry, half) = (self.root(), self.geometry(), self.state().half());
        // SAFETY: tables of this memory, that no walker uses and this value has alone.
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
        // SAFETY: the caller's promise; the tables were this value's, which is gone.
        unsafe { Tree::of_tables(memory, (root, geometry, half), stats, write_execute) }
    }
}

/// The first and the last address of a half.
const fn whole(geometry: Geometry, half: Half) -> (Va, Va) {
    let base = geometry.base(half);
    (Va(base), Va(base + ((1 << geometry.va_bits()) - 1)))
}
