//! The words that walkers write into the tables of this CPU (FEAT_HAFDBS), on each CPU in turn: a page without its access flag, and one
//! that is read-only with DBM, are put into the tables by hand, and used. The map itself has no such leaf, and the library
//! refuses to make one.

use linmap::arch::Descriptor;
use linmap::cpu::HardwareUpdates;
use linmap::error::ChangeError;
use linmap::{Attributes, Change, Dsb, Hardware, Memory, Pa, Slot, Va};

use super::tally::Tally;
use crate::area::Area;
use crate::probe::{Fault, try_read, try_write};
use crate::system::System;
use crate::{cpu, smp};

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Tries it. Returns true if all went well.
#[inline(never)]
pub(super) fn run(system: &System<'_>) -> bool {
    let tally = Tally::start("updates", system);
    let area = Area::of(system);
    let (accessed, dirty) = (AtomicU64::new(0), AtomicU64::new(0));
    if let Some(va) = tally.done(area.allocate(1), "no page") {
        let test = Test { system, tally: &tally, va };
        test.is_refused();
        for turn in cpu::running() {
            smp::on_all(&|cpu| {
                if cpu == turn {
                    let [set, dirtied] = test.uses();
                    accessed.fetch_add(u64::from(set), Relaxed);
                    dirty.fetch_add(u64::from(dirtied), Relaxed);
                }
            });
        }
        area.free(va);
    }
    let has = system.features.hardware_updates();
    let [accessed, dirty] = [accessed, dirty].map(AtomicU64::into_inner);
    let all = cpu::running().count() as u64;
    let wanted = |least| if has >= least { all } else { 0 };
    tally.expect(
        accessed == wanted(HardwareUpdates::AccessFlag),
        format_args!("{accessed} CPUs set the access flag"),
    );
    tally.expect(dirty == wanted(HardwareUpdates::DirtyState), format_args!("{dirty} CPUs note a write"));
    tally.conclude(
        format_args!("walkers of {accessed} CPUs set the access flag, those of {dirty} note a write"),
        &[("accessed", accessed), ("dirty", dirty)],
    )
}

struct Test<'a> {
    system: &'a System<'a>,
    tally: &'a Tally<'a>,
    va: Va,
}

impl Test<'_> {
    /// The library makes no leaf that walkers update.
    fn is_refused(&self) {
        let (space, platform) = (&self.system.space, self.system.platform());
        let clean = Change::new(Attributes::READ_ONLY, Attributes::empty());
        let changes = [clean, Change::new(Attributes::DIRTY_MANAGED, Attributes::empty())];
        for change in changes.into_iter().flatten() {
            // SAFETY: this test's page.
            let refused = unsafe { space.on(&platform).protect(self.va, 1, change) };
            let is = matches!(refused, Err(ChangeError::HardwareUpdated { va }) if va == self.va);
            self.tally.expect(is, format_args!("{change:?} is not refused, but {refused:?}"));
        }
        let without = Attributes::RAM.difference(Attributes::ACCESSED);
        // SAFETY: nothing is mapped.
        let refused = unsafe { space.on(&platform).map(self.va, 1, Pa(0), without) };
        let is = matches!(refused, Err(ChangeError::HardwareUpdated { .. }));
        self.tally.expect(is, format_args!("a page without its access flag is not refused, but {refused:?}"));
    }

    /// Uses the page without its access flag, and writable-clean. Returns whether walkers have updated each.
    #[inline(never)]
    fn uses(&self) -> [bool; 2] {
        let Some((slot, old)) = self.entry() else {
            self.tally.expect(false, format_args!("{} is not mapped by a page", self.va));
            return [false; 2];
        };
        let (accessed, clean) =
            (Attributes::ACCESSED.bits(), Attributes::READ_ONLY | Attributes::DIRTY_MANAGED);
        self.put(slot, Descriptor(old.0 & !accessed));
        let read = try_read(self.va).map(|_| ());
        let set = self.load(slot) == old;
        // The access flag fault at level 3 (D24.2, ISS of a data abort).
        self.agree(read, set, Fault::Other(0x0b));
        self.put(slot, Descriptor(old.0 | clean.bits()));
        // SAFETY: this test's page.
        let written = unsafe { try_write(self.va, 1) };
        let dirtied = self.load(slot) == Descriptor(old.0 | Attributes::DIRTY_MANAGED.bits());
        self.agree(written, dirtied, Fault::Permission(3));
        self.put(slot, old);
        [set, dirtied]
    }

    /// An access works if the walker has updated the entry, and faults otherwise.
    fn agree(&self, found: Result<(), Fault>, updated: bool, otherwise: Fault) {
        let wanted = if updated { Ok(()) } else { Err(otherwise) };
        self.tally
            .expect(found == wanted, format_args!("{}: {found:?}, though updated is {updated}", self.va));
    }

    fn entry(&self) -> Option<(Slot, Descriptor)> {
        let (mut found, range) = (None, (self.va, self.va));
        _ = self.system.space.on(&self.system.platform()).read(|reader| {
            reader.visit(range, |seen| {
                found = (seen.level == linmap::arch::Level::PAGE).then_some((seen.slot, seen.descriptor));
                ControlFlow::Continue(())
            })
        });
        found
    }

    fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the slot of this test's page, whose table stays.
        unsafe { self.system.frames.load(slot) }
    }

    /// Puts a descriptor of the same page into the tables, after TLBs have dropped the old one.
    fn put(&self, slot: Slot, new: Descriptor) {
        let (space, platform) = (&self.system.space, self.system.platform());
        // SAFETY: this test's page, which nobody uses meanwhile.
        let out = unsafe { space.on(&platform).set_valid(self.va, 1, false) };
        self.tally.done(out, "the page does not go out");
        // SAFETY: as above; no TLB holds what is there.
        unsafe { self.system.frames.store(slot, new) };
        platform.dsb(Dsb::Ishst);
        platform.isb();
    }
}
