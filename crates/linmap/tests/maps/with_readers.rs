//! Locks with readers are the locks in all but reading and retiring: a platform makes the same calls, with the same arguments.

use std::cell::RefCell;

use linmap::arch::Tlbi;
use linmap::host::HostMemory;
use linmap::{
    Attributes, CannotPark, Change, Combined, Dsb, EntryUpdate, Frame, Geometry, Granule, Half, Hardware,
    Memory, OaFormat, Pa, Policy, Promise, Readers, Reserved, SharedSpace, Sharing, Tree, Va, WithReaders,
};

/// Hardware of one CPU without a TLB, which notes each call.
struct Noted(RefCell<Vec<String>>);

impl Noted {
    fn note(&self, call: String) {
        self.0.borrow_mut().push(call);
    }
}

// SAFETY: one thread uses the tables, and no CPU translates by them.
unsafe impl Hardware for Noted {
    fn promise(&self) -> Promise {
        self.note("promise".into());
        Promise { never_aborts: true, range_tlbi: false, repeat_tlbi: true }
    }

    fn dsb(&self, kind: Dsb) {
        self.note(format!("{kind:?}"));
    }

    fn isb(&self) {
        self.note("isb".into());
    }

    fn tlbi(&self, op: Tlbi, _: Geometry) {
        self.note(format!("{op:?}"));
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.note(format!("code {va}, {bytes}"));
    }

    fn call(&self) -> Result<(), CannotPark> {
        self.note("call".into());
        Ok(())
    }

    unsafe fn park(&self, _: &impl Memory, _: Pa, updates: &[EntryUpdate]) -> Result<(), CannotPark> {
        self.note(format!("park {}", updates.len()));
        Err(CannotPark)
    }
}

// SAFETY: one thread uses the tables, and reads none while it changes them.
unsafe impl Sharing for Noted {
    const LOCKS: usize = 2;

    type Held<'h> = ();

    fn lock(&self, number: usize) {
        self.note(format!("lock {number}"));
    }

    fn wait(&self) -> bool {
        self.note("wait".into());
        true
    }

    fn retire(&self, memory: &impl Memory, frame: Frame) {
        memory.give(frame);
    }
}

/// Operations that make every call, and what they return.
fn operations(hardware: &Noted, sharing: &impl Sharing) -> Vec<String> {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let memory = HostMemory::new(g, 16);
    let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
    let space = SharedSpace::adopt(tree);
    // SAFETY: nothing else uses these tables.
    let platform = unsafe { Combined::new(&memory, hardware).with_sharing(sharing) };
    let va = Va(g.base(Half::Upper));
    let mut results = Vec::new();
    let mut note = |result: Result<(), linmap::error::ChangeError>| results.push(format!("{result:?}"));
    space.set_policy(Policy::Live);
    // SAFETY: no CPU uses the addresses.
    unsafe {
        note(space.on(&platform).map(va, 1024, Pa(1 << 30), Attributes::RAM));
        note(space.on(&platform).protect(va, 1, Change::READ_ONLY));
        space.set_policy(Policy::Park);
        note(space.on(&platform).protect(Va(va.0 + (1 << 21)), 1, Change::READ_ONLY));
    }
    platform.sync_code(va, 64);
    results.push(format!("{}", platform.wait()));
    results
}

#[test]
fn all_else_is_as_without_readers() {
    let [alone, below] = [(); 2].map(|()| Noted(RefCell::new(Vec::new())));
    let readers = Readers::<1, 8>::new();
    // SAFETY: these are the readers of all.
    let with_readers = unsafe { WithReaders::new(&below, &readers, || 0) };
    assert_eq!(operations(&below, &with_readers), operations(&alone, &alone));
    let (alone, below) = (alone.0.into_inner(), below.0.into_inner());
    assert_eq!(below, alone);
    for call in ["lock", "wait", "promise", "Ish", "isb", "Page", "code", "call", "park"] {
        assert!(alone.iter().any(|noted| noted.starts_with(call)), "no {call} in {alone:#?}");
    }
}

/// A reader is told of a change of what it reads, and of nothing else.
#[test]
fn a_reader_knows_whether_anything_has_changed() {
    let g = Geometry::new(Granule::K4, 48, OaFormat::Bits48).expect("a geometry");
    let (memory, below) = (HostMemory::new(g, 16), Noted(RefCell::new(Vec::new())));
    let readers = Readers::<1, 8>::new();
    let tree = Tree::build(&memory, g, Half::Upper, std::iter::empty()).expect("a root");
    let (space, va) = (SharedSpace::adopt(tree), Va(g.base(Half::Upper)));
    // SAFETY: these are the readers of all, and nothing else uses these tables.
    let locks = unsafe { WithReaders::new(&below, &readers, || 0) };
    // SAFETY: as above.
    let platform = unsafe { Combined::new(&memory, &below).with_sharing(&locks) };
    space.on(&platform).read(|reader| {
        assert_eq!(reader.watch(|| reader.translate(va)), (None, false));
        let ((), has_changed) = reader.watch(|| {
            // SAFETY: no CPU uses the addresses.
            unsafe { space.on(&platform).map(va, 1, Pa(1 << 30), Attributes::RAM) }.expect("a hole");
        });
        assert!(has_changed);
    });
}

/// Pages that were taken before are those of the platform.
#[test]
fn reserved_pages_have_the_platforms_size() {
    for granule in [Granule::K4, Granule::K16, Granule::K64] {
        let g = Geometry::new(granule, 48, OaFormat::Bits48).expect("a geometry");
        let memory = HostMemory::new(g, 16);
        let platform = memory.platform();
        let reserved = Reserved::take(&platform, 3).expect("pages");
        assert_eq!((reserved.page_size(), reserved.pages()), (g.page_size(), 3));
    }
}
