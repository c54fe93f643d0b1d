//! Live tables: what walkers can reach, and how it changes.
//!
//! A subtree is built off line, in its final state, and one store makes it live. So far that is all a
//! live map does: it takes what was built into slots that were empty. An entry that faults is never
//! cached (Arm ARM D8.17, what may be held in a TLB), so nothing is invalidated.

use crate::{Descriptor, Dsb, Error, Geometry, Half, Hardware, Memory, Pa, Slot, Stats, Tree, Va};

/// The tables that one half of a live address space is translated by.
#[derive(Debug)]
pub struct AddressSpace {
    root: Pa,
    geometry: Geometry,
    half: Half,
}

impl AddressSpace {
    /// Makes a tree live: from now on it belongs to the walkers.
    ///
    /// The caller loads [`root`](Self::root) into the TTBR of the tree's half, after a DSB ISHST.
    pub fn adopt(tree: Tree) -> Self {
        let (geometry, half) = (tree.geometry(), tree.half());
        Self { root: tree.into_root().into_pa(), geometry, half }
    }

    /// The address of the root table.
    pub const fn root(&self) -> Pa {
        self.root
    }

    /// The geometry of the tables.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Takes a tree of the same geometry and half into this one, where the root has holes.
    ///
    /// Each entry of the tree's root moves into the live root by one store: what lies below is in its
    /// final state before a walker can see it. Costs two DSB ISHST and an ISB, no TLBI. The tree's own
    /// root page goes back to `memory`. On return this CPU uses the new entries; another one does after
    /// its next context synchronisation event.
    ///
    /// # Errors
    ///
    /// A slot of the live root is taken. Then the tree is discarded and nothing has changed.
    pub fn graft<M: Memory>(
        &mut self,
        memory: &M,
        hardware: &impl Hardware,
        tree: Tree,
    ) -> Result<Stats, Error> {
        let stats = tree.stats();
        if let Some(index) = self.taken(memory, &tree) {
            let shift = self.geometry.level_shift(self.geometry.root());
            let va = Va(self.geometry.base(self.half) + ((index as u64) << shift));
            tree.discard(memory);
            return Err(Error::Occupied { va });
        }
        let mut from = tree.into_root();
        hardware.dsb(Dsb::Ishst);
        for (index, &bits) in self.used(memory.slots(&mut from)) {
            memory.store(Slot { table: self.root, index }, Descriptor(bits));
        }
        hardware.dsb(Dsb::Ishst);
        hardware.isb();
        memory.give(from);
        Ok(stats)
    }

    /// The first slot that both roots use.
    fn taken<M: Memory>(&self, memory: &M, tree: &Tree) -> Option<usize> {
        let live = |index| memory.load(Slot { table: self.root, index });
        let new = |index| memory.load(Slot { table: tree.root(), index });
        let entries = self.geometry.entries(self.geometry.root());
        (0..entries).find(|&i| new(i) != Descriptor::HOLE && live(i) != Descriptor::HOLE)
    }

    fn used<'s>(&self, slots: &'s mut [u64]) -> impl Iterator<Item = (usize, &'s u64)> {
        let entries = self.geometry.entries(self.geometry.root());
        slots[..entries].iter().enumerate().filter(|(_, bits)| **bits != 0)
    }
}
