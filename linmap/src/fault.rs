//! Mistakes to make on purpose, one at a time: each breaks a rule, and a test sees that it is caught.
//!
//! Without the feature `faults` there are none, and `broken!` is `false` before the compiler begins to think.

/// Whether this is done wrong.
#[cfg(not(feature = "faults"))]
macro_rules! broken {
    ($fault:ident) => {
        false
    };
}

/// Whether this is done wrong.
#[cfg(feature = "faults")]
macro_rules! broken {
    ($fault:ident) => {
        $crate::fault::is_committed($crate::Fault::$fault)
    };
}

#[cfg(feature = "faults")]
pub use faults::*;

#[cfg(feature = "faults")]
mod faults {
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    use crate::Attributes;

    macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// What is done wrong.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Fault { $($(#[doc = $doc])+ $name,)* }

        impl Fault {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

    faults! {
        /// The lock is not taken for a change of permissions.
        NoLock,
        /// The last page of the range is left out.
        LastPageLeftOut,
        /// A page that becomes read-only stays one that hardware may make writable.
        StaysDirtyManaged,
        /// Leaves in use change their size whatever the CPUs promise.
        PromiseIgnored,
        /// CPUs are not parked where they should be.
        NotParked,
        /// No DSB between the filling of a table and the store that publishes it, nor between the dissolving of a run
        /// and the change of a member.
        NoDsbBeforePublishing,
        /// A new table has a leaf with another output address than what it replaces.
        OtherAddress,
        /// A new table has a leaf of another memory type.
        OtherMemoryType,
        /// A new table has a hole.
        HoleInTable,
        /// A new table has another permission beside the part that changes.
        OtherPermission,
        /// A new table has a page without the bit that makes it one.
        NoPageBit,
        /// A run that changes in part is not dissolved.
        RunNotDissolved,
        /// Leaves in which different bits change are taken for alike.
        TakenForAlike,
        /// No DSB after the stores.
        NoDsbAfterStores,
        /// No invalidation.
        NoTlbi,
        /// The invalidation of a range covers its first page.
        TlbiOfOnePage,
        /// Only leaves are invalidated where tables go.
        TlbiOfLeavesOnly,
        /// The entries of a table that becomes a block are taken for as large as the block.
        TlbiOfLargeEntries,
        /// TLBIs by range whatever the CPUs promise.
        TlbiByRange,
        /// The scale of a range runs over into operand bits that must be zero.
        TlbiOperandTooWide,
        /// No DSB after the invalidations.
        NoDsbAfterTlbi,
        /// No second invalidation where a CPU needs it.
        NoRepeat,
        /// No ISB at the end.
        NoIsb,
        /// An area becomes read-only before its aliases, or writable after them.
        AliasAfterArea,
        /// Aliases do not follow.
        AliasForgotten,
        /// What TLBs hold of aliases is not invalidated.
        AliasNotInvalidated,
        /// A repaint is not told of aliases.
        AliasNotNoted,
        /// Tables that were taken out of the tree are not given back.
        NotGivenBack,
        /// A repaint does not copy again what has changed meanwhile.
        ChangeForgotten,
        /// A repaint has no DSB between the filling of its tables and the switch to them.
        NoDsbBeforeSwitch,
        /// A repaint gives the old tables back in front of the switch.
        GivenBackBeforeSwitch,
        /// A repaint does not give the old tables back.
        OldTreeNotGivenBack,
    }

    /// The fault that is made, counted from 1; 0 for none.
    static COMMITTED: AtomicU8 = AtomicU8::new(0);

    /// From now on this is done wrong, on all threads and whatever the consequences; or nothing.
    pub fn commit(fault: Option<Fault>) {
        COMMITTED.store(fault.map_or(0, |f| f as u8 + 1), Relaxed);
    }

    /// Whether this is done wrong.
    pub(crate) fn is_committed(fault: Fault) -> bool {
        COMMITTED.load(Relaxed) == fault as u8 + 1
    }

    /// Makes a mistake in the first entry of a table that is about to be published.
    pub(crate) fn spoil(slots: &mut [u64]) {
        match () {
            () if broken!(OtherAddress) => slots[0] ^= 1 << 30,
            () if broken!(OtherMemoryType) => slots[0] ^= Attributes::MEMORY_TYPE.bits(),
            () if broken!(OtherPermission) => slots[0] ^= Attributes::READ_ONLY.bits(),
            () if broken!(NoPageBit) => slots[0] &= !0b10,
            () if broken!(HoleInTable) => slots[0] = 0,
            () => {}
        }
    }
}
