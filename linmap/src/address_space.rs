//! Live tables: what walkers can reach, and how it changes.
//!
//! A subtree is built off line, in its final state, and one store makes it live. So far that is all a
//! live map does: it takes what was built into slots that were empty. An entry that faults is never
//! cached (Arm ARM D8.17, what may be held in a TLB), so nothing is invalidated.

use core::fmt::{self, Write};
use core::ops::{ControlFlow, Range};

use crate::table::Live;
use crate::{
    Checks, Descriptor, Dsb, DumpError, Entry, Error, Finding, Geometry, Half, Hardware, Level, Marked,
    Memory, Pa, Slot, Stats, Tree, Va, check, count, dump, visit,
};

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

    /// Calls `each` for every entry that translates an address from `first` to `last`, as [`visit`] does.
    pub fn visit<M: Memory>(
        &self,
        memory: &M,
        range: (Va, Va),
        each: impl FnMut(Va, Level, Entry) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        visit(&self.tables(memory), self.geometry, self.root, range, each).unwrap_or_else(|e| match e {})
    }

    /// Counts what is mapped from `first` to `last`, as [`count`] does.
    pub fn count<M: Memory>(&self, memory: &M, range: (Va, Va)) -> Stats {
        count(&self.tables(memory), self.geometry, self.root, range).unwrap_or_else(|e| match e {})
    }

    /// Prints a region, as [`dump`] does.
    ///
    /// # Errors
    ///
    /// The writer failed.
    pub fn dump<M: Memory>(
        &self,
        memory: &M,
        region: Marked,
        out: &mut impl Write,
    ) -> Result<Stats, fmt::Error> {
        let dumped = dump(&self.tables(memory), self.geometry, self.root, region, out);
        dumped.map_err(|e| match e {
            DumpError::Write => fmt::Error,
            DumpError::Read(e) => match e {},
        })
    }

    /// Looks for what must never be in a map, as [`check`] does.
    pub fn check<M: Memory>(
        &self,
        memory: &M,
        checks: &Checks<'_>,
        each: impl FnMut(Finding) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let checked = check(&self.tables(memory), self.geometry, (self.root, self.half), checks, each);
        checked.unwrap_or_else(|e| match e {})
    }

    fn tables<'m, M: Memory>(&self, memory: &'m M) -> Live<'m, M> {
        // SAFETY: read from the root of this address space on, which is live with all below it; a
        // memory that the tables are not of refuses them.
        unsafe { Live::new(memory) }
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
    /// The tree is of another geometry or half, or a slot of the live root between the first and the
    /// last that the tree uses is taken. Then the tree is discarded and nothing has changed.
    pub fn graft<M: Memory>(
        &mut self,
        memory: &M,
        hardware: &impl Hardware,
        tree: Tree,
    ) -> Result<Stats, Error> {
        if (tree.geometry(), tree.half()) != (self.geometry, self.half) {
            tree.discard(memory);
            return Err(Error::OtherGeometry);
        }
        let (stats, used) = (tree.stats(), tree.used());
        if let Some(va) = self.occupied(memory, used.clone()) {
            tree.discard(memory);
            return Err(Error::Occupied { va });
        }
        let mut from = tree.into_root();
        hardware.dsb(Dsb::Ishst);
        for (index, &bits) in used.clone().zip(&memory.slots(&mut from)[used]) {
            if bits != 0 {
                // SAFETY: the root is live and has these slots, which are holes, so nobody uses what
                // they translate.
                unsafe { memory.store(Slot { table: self.root, index }, Descriptor(bits)) };
            }
        }
        hardware.dsb(Dsb::Ishst);
        hardware.isb();
        memory.give(from);
        Ok(stats)
    }

    /// The address of the first of these slots of the live root that is taken.
    fn occupied<M: Memory>(&self, memory: &M, mut slots: Range<usize>) -> Option<Va> {
        let taken = |&index: &usize| {
            // SAFETY: the root is live and has these slots.
            let live = unsafe { memory.load(Slot { table: self.root, index }) };
            live != Descriptor::HOLE
        };
        let shift = self.geometry.level_shift(self.geometry.root());
        slots.find(taken).map(|i| Va(self.geometry.base(self.half) + ((i as u64) << shift)))
    }
}
