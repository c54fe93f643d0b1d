//! The only door to the CPU: barriers, TLB invalidation, and what the CPUs promise.
//!
//! Primitives only. The sequences made of them belong to the library, so that a model can judge them.

use core::fmt;

use crate::{Descriptor, Frame, Geometry, Memory, Pa, Rewrite, Slot, Tlbi, Va};

/// Which accesses a DSB waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dsb {
    /// DSB ISHST: stores, to all CPUs of the inner shareable domain.
    Ishst,
    /// DSB ISH: all accesses and TLB invalidations, to all CPUs of that domain.
    Ish,
}

/// What the CPUs that share the tables promise: what the weakest of them does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Promise {
    /// All of them let a live entry change its size without ever raising a TLB conflict abort
    /// ([`BbmPromise::never_aborts`]).
    pub never_aborts: bool,
    /// All of them have range TLBIs ([`Features::has_range_tlbi`](crate::Features::has_range_tlbi)).
    pub range_tlbi: bool,
    /// One of them needs each batch of TLBIs repeated
    /// ([`Features::needs_repeated_tlbi`](crate::Features::needs_repeated_tlbi)).
    pub repeat_tlbi: bool,
}

/// The platform can not park its CPUs, or one of them did not answer. Nothing was done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the other CPUs can not be parked")]
pub struct CanNotPark;

/// The CPU, as far as page tables need it, and the others as far as they must be kept away.
///
/// # Safety
///
/// - [`dsb`](Self::dsb), [`isb`](Self::isb) and [`tlbi`](Self::tlbi) are exactly the instruction they name,
///   executed before they return, and the compiler moves no access to table memory across them. In a model
///   they are the corresponding step.
/// - [`lock`](Self::lock) excludes: there is at most one [`Held`](Self::Held) at any time among all CPUs and
///   contexts that share the tables, and what its holder did before it was dropped is visible to the next.
/// - [`promise`](Self::promise) is kept by every CPU whose walkers may reach the tables.
/// - [`park`](Self::park) keeps its contract.
/// - No walker writes into the tables: hardware management of the access flag and of the dirty state
///   (TCR_EL1.HA and HD) is off, since a change is a load and a store.
pub unsafe trait Hardware {
    /// The lock on all live tables, held until it is dropped.
    type Held<'h>
    where
        Self: 'h;

    /// Waits for the lock on all live tables and takes it. Not taken twice by one context: an interrupt
    /// that could come while it is held, and take it, is masked.
    ///
    /// A CPU that waits here answers when another one parks it.
    fn lock(&self) -> Self::Held<'_>;

    /// Takes the lock if it is free: for those who can not wait, such as a fault handler.
    fn try_lock(&self) -> Option<Self::Held<'_>>;

    /// What the CPUs promise.
    fn promise(&self) -> Promise;

    /// Waits until earlier accesses are visible to all walkers, as `kind` says (Arm ARM D8.2.6.1).
    fn dsb(&self, kind: Dsb);

    /// A context synchronisation event on this CPU.
    fn isb(&self);

    /// Issues an invalidation, encoded for this geometry. It is complete after the next [`Dsb::Ish`]
    /// (D8.17.8).
    fn tlbi(&self, op: Tlbi, geometry: Geometry);

    /// Makes what was written to `bytes` bytes from `va` on visible to the instruction fetch of all CPUs that
    /// share the tables, and to that of this one at once (Arm ARM B2.7.4.2). The addresses can be read.
    fn sync_code(&self, va: Va, bytes: u64);

    /// Does `rewrites`, in their order, while no CPU uses the tables, this one included; then all of them go
    /// on with the tables of `root`. The caller holds the lock.
    ///
    /// From before the first store until after the last one is visible to all walkers, each CPU
    /// translates the half with other tables, has nothing of these in its TLB, touches no address of the half and
    /// takes no exception. This one stores to the tables where they lie, through a map of its own, or as `memory`
    /// does ([`Rewrite::carry_out`]) if that goes through none of these tables. Before a CPU uses `root` it has
    /// dropped what its TLB held of the half, so that nothing is left to be invalidated.
    ///
    /// # Errors
    ///
    /// The CPUs can not be parked; nothing was stored. That is what a platform says that does not do it.
    fn park(&self, memory: &impl Memory, root: Pa, rewrites: &[Rewrite]) -> Result<(), CanNotPark> {
        _ = (memory, root, rewrites);
        Err(CanNotPark)
    }
}

/// All that a platform brings: table pages and CPUs.
pub trait Platform: Memory + Hardware {}

impl<P: Memory + Hardware> Platform for P {}

/// A platform made of a memory and of hardware.
#[derive(Debug)]
pub struct Both<'a, M, H>(&'a M, &'a H);

impl<'a, M: Memory, H: Hardware> Both<'a, M, H> {
    /// Puts them together.
    ///
    /// # Safety
    ///
    /// The lock of `hardware` is the one lock of all live tables of `memory`: nobody changes or reads them
    /// through another.
    pub const unsafe fn new(memory: &'a M, hardware: &'a H) -> Self {
        Self(memory, hardware)
    }
}

// SAFETY: the memory does it all, and keeps its promises.
unsafe impl<M: Memory, H> Memory for Both<'_, M, H> {
    fn page_size(&self) -> u64 {
        self.0.page_size()
    }

    #[inline]
    fn take(&self) -> Option<Frame> {
        self.0.take()
    }

    #[inline]
    fn give(&self, frame: Frame) {
        self.0.give(frame);
    }

    #[inline]
    fn slots<'f>(&self, frame: &'f mut Frame) -> &'f mut [u64] {
        self.0.slots(frame)
    }

    const PLAIN: bool = M::PLAIN;

    #[inline]
    unsafe fn words(&self, table: Pa) -> *mut u64 {
        // SAFETY: the caller's promise.
        unsafe { self.0.words(table) }
    }

    #[inline]
    unsafe fn load(&self, slot: Slot) -> Descriptor {
        // SAFETY: the caller's promise.
        unsafe { self.0.load(slot) }
    }

    #[inline]
    unsafe fn store(&self, slot: Slot, new: Descriptor) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(slot, new) }
    }
}

// SAFETY: the hardware does it all, and keeps its promises.
unsafe impl<M, H: Hardware> Hardware for Both<'_, M, H> {
    type Held<'h>
        = H::Held<'h>
    where
        Self: 'h;

    #[inline]
    fn lock(&self) -> Self::Held<'_> {
        self.1.lock()
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Held<'_>> {
        self.1.try_lock()
    }

    #[inline]
    fn promise(&self) -> Promise {
        self.1.promise()
    }

    #[inline]
    fn dsb(&self, kind: Dsb) {
        self.1.dsb(kind);
    }

    #[inline]
    fn isb(&self) {
        self.1.isb();
    }

    #[inline]
    fn tlbi(&self, op: Tlbi, geometry: Geometry) {
        self.1.tlbi(op, geometry);
    }

    fn sync_code(&self, va: Va, bytes: u64) {
        self.1.sync_code(va, bytes);
    }

    fn park(&self, memory: &impl Memory, root: Pa, rewrites: &[Rewrite]) -> Result<(), CanNotPark> {
        self.1.park(memory, root, rewrites)
    }
}

/// A CPU model: ID register MIDR_EL1, taken apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Midr(pub u64);

/// A CPU that never raises a TLB conflict abort when a live entry changes its size.
struct NeverAborts {
    name: &'static str,
    implementer: u8,
    part: u16,
    /// The first variant and revision that is known to keep the promise, and the last.
    revisions: (Revision, Revision),
}

/// Variant and revision: the r and p of "r0p2".
type Revision = (u8, u8);

const ALL: (Revision, Revision) = ((0, 0), (0xf, 0xf));

/// From this revision of the first variant on.
const fn from_r0(p: u8) -> (Revision, Revision) {
    ((0, p), (0, 0xf))
}

/// The CPUs known to keep the promise; ID_AA64MMFR2_EL1.BBM = 2 alone does not make it (D8.17.2,
/// IHYQMB), and these keep it whatever that field says.
const NEVER_ABORT: [NeverAborts; 6] = [
    NeverAborts { name: "AmpereOne", implementer: 0xc0, part: 0xac3, revisions: ALL },
    NeverAborts { name: "AmpereOne A", implementer: 0xc0, part: 0xac4, revisions: ALL },
    NeverAborts { name: "Neoverse-V3", implementer: 0x41, part: 0xd84, revisions: from_r0(2) },
    NeverAborts { name: "Neoverse-V3AE", implementer: 0x41, part: 0xd83, revisions: from_r0(2) },
    NeverAborts { name: "NVIDIA Olympus", implementer: 0x4e, part: 0x010, revisions: ALL },
    NeverAborts { name: "Cortex-X4", implementer: 0x41, part: 0xd82, revisions: from_r0(3) },
];

/// The CPUs with CVE-2025-10263, in every revision: as Linux lists them, by ARM64_ERRATUM_4118414.
const REPEAT_TLBI: [(u8, u16, &str); 23] = [
    (0x41, 0xd0b, "Cortex-A76"),
    (0x41, 0xd0c, "Neoverse-N1"),
    (0x41, 0xd0d, "Cortex-A77"),
    (0x41, 0xd0e, "Cortex-A76AE"),
    (0x41, 0xd40, "Neoverse-V1"),
    (0x41, 0xd41, "Cortex-A78"),
    (0x41, 0xd42, "Cortex-A78AE"),
    (0x41, 0xd44, "Cortex-X1"),
    (0x41, 0xd47, "Cortex-A710"),
    (0x41, 0xd48, "Cortex-X2"),
    (0x41, 0xd49, "Neoverse-N2"),
    (0x41, 0xd4b, "Cortex-A78C"),
    (0x41, 0xd4c, "Cortex-X1C"),
    (0x41, 0xd4e, "Cortex-X3"),
    (0x41, 0xd4f, "Neoverse-V2"),
    (0x41, 0xd82, "Cortex-X4"),
    (0x41, 0xd83, "Neoverse-V3AE"),
    (0x41, 0xd84, "Neoverse-V3"),
    (0x41, 0xd85, "Cortex-X925"),
    (0x41, 0xd8c, "C1-Ultra"),
    (0x41, 0xd90, "C1-Premium"),
    (0x4e, 0x010, "NVIDIA Olympus"),
    (0x6d, 0xd49, "Azure Cobalt 100"),
];

/// Other parts whose name helps a reader.
const OTHER_NAMES: [(u8, u16, &str); 6] = [
    (0x00, 0x051, "QEMU max"),
    (0x41, 0xd03, "Cortex-A53"),
    (0x41, 0xd05, "Cortex-A55"),
    (0x41, 0xd07, "Cortex-A57"),
    (0x41, 0xd08, "Cortex-A72"),
    (0x46, 0x001, "Fujitsu A64FX"),
];

impl Midr {
    /// Who made it, bits 31:24.
    pub const fn implementer(self) -> u8 {
        (self.0 >> 24) as u8
    }

    /// Variant and revision, bits 23:20 and 3:0: the r and p of "r0p2".
    pub const fn revision(self) -> (u8, u8) {
        ((self.0 >> 20) as u8 & 0xf, self.0 as u8 & 0xf)
    }

    /// The part number, bits 15:4.
    pub const fn part(self) -> u16 {
        (self.0 >> 4) as u16 & 0xfff
    }

    /// What people call it, where that is known.
    pub fn name(self) -> Option<&'static str> {
        let mut others = REPEAT_TLBI.iter().chain(&OTHER_NAMES);
        let mut other = || others.find(|n| (n.0, n.1) == (self.implementer(), self.part()));
        self.listed().map(|l| l.name).or_else(|| other().map(|n| n.2))
    }

    /// Whether the CPU has CVE-2025-10263: a TLBI drops the entries, but the DSB after it does not wait
    /// for stores that were translated by them. One more TLBI and DSB do.
    pub fn needs_repeated_tlbi(self) -> bool {
        REPEAT_TLBI.iter().any(|n| (n.0, n.1) == (self.implementer(), self.part()))
    }

    fn listed(self) -> Option<&'static NeverAborts> {
        NEVER_ABORT.iter().find(|l| (l.implementer, l.part) == (self.implementer(), self.part()))
    }
}

/// Whether a CPU lets a live entry change its size in place, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BbmPromise {
    /// It never aborts: its MIDR is listed.
    Listed,
    /// It never aborts: its BBM field is above 2 (FEAT_BBML3; assumed, no such CPU was at hand).
    Level3,
    /// It is a listed part, but not of a revision known to keep the promise.
    OtherRevision,
    /// It may abort: BBM is 1 or 2, which permits a TLB conflict abort until the TLBI completes.
    MayAbort(u8),
    /// It needs break-before-make: BBM is 0.
    Never,
}

impl BbmPromise {
    /// What a CPU promises, from its MIDR_EL1 and ID_AA64MMFR2_EL1.
    ///
    /// ```
    /// use linmap::{BbmPromise, Midr};
    ///
    /// assert!(BbmPromise::of(Midr(0xc00f_ac30), 2 << 52).never_aborts());
    /// assert_eq!(BbmPromise::of(Midr(0x410f_d0c0), 2 << 52), BbmPromise::MayAbort(2));
    /// ```
    pub fn of(midr: Midr, id_aa64mmfr2: u64) -> Self {
        let bbm = (id_aa64mmfr2 >> 52) as u8 & 0xf;
        match (midr.listed(), bbm) {
            (Some(l), _) if (l.revisions.0..=l.revisions.1).contains(&midr.revision()) => Self::Listed,
            (_, 3..) => Self::Level3,
            (Some(_), _) => Self::OtherRevision,
            (None, 0) => Self::Never,
            (None, level) => Self::MayAbort(level),
        }
    }

    /// Whether live entries may change their size in place.
    pub const fn never_aborts(self) -> bool {
        matches!(self, Self::Listed | Self::Level3)
    }
}

/// The reason, as the end of a sentence that starts with the CPU.
impl fmt::Display for BbmPromise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listed => f.write_str("never aborts when a live block changes size (listed by MIDR)"),
            Self::Level3 => f.write_str("never aborts when a live block changes size (BBM above 2)"),
            Self::OtherRevision => f.write_str("is not of a revision known never to abort"),
            Self::MayAbort(level) => {
                write!(f, "has BBM level {level}, which may abort, and is not listed as one that never does")
            }
            Self::Never => f.write_str("has BBM level 0: no live block can change size"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_follows_the_list_and_the_revision() {
        use BbmPromise::*;
        let rows = [
            (0xc00f_ac30, 0, Listed),
            (0xc00f_ac4f, 2, Listed),
            (0x410f_d841, 2, OtherRevision),
            (0x410f_d842, 2, Listed),
            (0x410f_d84f, 2, Listed),
            (0x411f_d840, 2, OtherRevision),
            (0x411f_d840, 3, Level3),
            (0x410f_d831, 2, OtherRevision),
            (0x410f_d832, 2, Listed),
            (0x410f_d822, 2, OtherRevision),
            (0x410f_d823, 2, Listed),
            (0x4e0f_0100, 2, Listed),
            (0x000f_0510, 2, MayAbort(2)),
            (0x410f_d0c1, 0, Never),
            (0x410f_d0c1, 1, MayAbort(1)),
        ];
        for (midr, bbm, expected) in rows {
            let promise = BbmPromise::of(Midr(midr), bbm << 52 | 0x1122);
            assert_eq!(promise, expected, "{midr:#x}");
            assert_eq!(promise.never_aborts(), matches!(expected, Listed | Level3));
        }
        assert_eq!(Midr(0xc00f_ac30).name(), Some("AmpereOne"));
        assert_eq!(Midr(0x000f_0510).name(), Some("QEMU max"));
        assert_eq!(Midr(0x410f_d841).name(), Some("Neoverse-V3"));
        assert_eq!(Midr(0x413f_d0c1).name(), Some("Neoverse-N1"));
        assert_eq!(Midr(0).name(), None);
    }

    #[test]
    fn the_repeated_tlbi_follows_its_own_list() {
        let rows = [
            (0x410f_d0b0, true),
            (0x414f_d0c1, true),
            (0x410f_d493, true),
            (0x6d0f_d490, true),
            (0x411f_d842, true),
            (0x4e0f_0100, true),
            // The implementer counts too: A64FX is 0x46/0x001, AmpereOne 0xc0/0xac3.
            (0x4e0f_d0b0, false),
            (0x410f_0100, false),
            (0x461f_0010, false),
            (0xc00f_ac30, false),
            (0x410f_d083, false),
            (0x000f_0510, false),
        ];
        for (midr, expected) in rows {
            assert_eq!(Midr(midr).needs_repeated_tlbi(), expected, "{midr:#x}");
        }
    }
}
