//! A hold of locks follows one policy, even if another CPU sets a different one meanwhile: `set_policy` takes no lock.

use std::cell::{Cell, RefCell};

use linmap::arch::Tlbi;
use linmap::error::ChangeError;
use linmap::host::HostMemory;
use linmap::{
    Attributes, CannotPark, Change, Combined, Dsb, EntryUpdate, Geometry, Half, Hardware, Leaves, Memory, Pa,
    Policy, Promise, Region, SharedSpace, Sharing, Tree, Va,
};
use test_support::geometries;

/// Hardware that sets another policy at each step, in the place of another CPU.
struct Meddles<'s> {
    space: &'s SharedSpace,
    then: Cell<Policy>,
    tlbis: Cell<u32>,
    parkings: RefCell<u32>,
    never_aborts: bool,
}

impl Meddles<'_> {
    fn meddle(&self) {
        self.space.set_policy(self.then.get());
    }
}

// SAFETY: no walker and no TLB sees the tables, and only this thread has it.
unsafe impl Hardware for Meddles<'_> {
    fn promise(&self) -> Promise {
        Promise { never_aborts: self.never_aborts, ..Promise::default() }
    }

    fn dsb(&self, _: Dsb) {
        self.meddle();
    }

    fn isb(&self) {}

    fn tlbi(&self, _: Tlbi, _: Geometry) {
        self.tlbis.set(self.tlbis.get() + 1);
    }

    fn sync_code(&self, _: Va, _: u64) {}

    unsafe fn park(&self, memory: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        *self.parkings.borrow_mut() += 1;
        // SAFETY: live tables of this memory, which only this thread has.
        updates.iter().for_each(|update| unsafe { update.carry_out(memory) });
        self.meddle();
        Ok(())
    }
}

// SAFETY: one thread uses the tables, and reads none while it changes them. What meddles sets a policy, and
// touches no table.
unsafe impl Sharing for Meddles<'_> {
    type Held<'h>
        = ()
    where
        Self: 'h;

    /// Each operation here takes one hold, which follows one policy.
    const HOLD: usize = 1 << 16;

    fn lock(&self, _: usize) {}
}

/// A map of some blocks of level 2.
fn blocks(g: Geometry, memory: &HostMemory, count: u64) -> SharedSpace {
    let block = g.level_size(linmap::arch::Level::new(2));
    let (va, bytes) = (Va(g.base(Half::Upper)), count * block);
    // Not aligned to a contiguous run.
    let region = Region { va, oa: Pa(block), bytes, attributes: Attributes::RAM, leaves: Leaves::Largest };
    SharedSpace::adopt(Tree::build(memory, g, Half::Upper, region.runs(g)).expect("a tree"))
}

/// A leaf that is split live is invalidated, though the policy is another one by then.
#[test]
fn a_split_is_invalidated() {
    for g in geometries() {
        let memory = HostMemory::new(g, 64);
        let space = blocks(g, &memory, 2);
        space.set_policy(Policy::Live);
        let then = Cell::new(Policy::Park);
        let (tlbis, parkings) = (Cell::new(0), RefCell::new(0));
        let hardware = Meddles { space: &space, then, tlbis, parkings, never_aborts: true };
        // SAFETY: the only lock on the tables.
        let platform = unsafe { Combined::new(&memory, &hardware) };
        let border = g.base(Half::Upper) + g.level_size(linmap::arch::Level::new(2));
        // SAFETY: no CPU uses these tables.
        let done = unsafe { space.on(&platform).protect(Va(border - g.page_size()), 2, Change::READ_ONLY) };
        assert_eq!((done, hardware.parkings.take()), (Ok(()), 0), "{g:?}");
        assert!(hardware.tlbis.get() > 0, "{g:?}: TLBs hold writable entries");
    }
}

/// Leaves that change their size with the other CPUs parked do so to the last.
#[test]
fn every_split_is_parked() {
    for g in geometries() {
        for then in Policy::ALL {
            let memory = HostMemory::new(g, 64);
            let space = blocks(g, &memory, 4);
            space.set_policy(Policy::Park);
            let leaves = 4;
            let (tlbis, parkings) = (Cell::new(0), RefCell::new(0));
            let hardware =
                Meddles { space: &space, then: Cell::new(then), tlbis, parkings, never_aborts: false };
            // SAFETY: the only lock on the tables.
            let platform = unsafe { Combined::new(&memory, &hardware) };
            let pages = leaves * (g.level_size(linmap::arch::Level::new(2)) / g.page_size());
            let done: Result<(), ChangeError> =
                space.on(&platform).split_to_pages(Va(g.base(Half::Upper)), pages);
            // One for each leaf, and one before the first.
            assert_eq!((done, hardware.parkings.take()), (Ok(()), leaves as u32 + 1), "{g:?} {then}");
        }
    }
}
