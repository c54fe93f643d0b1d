//! The mistakes, and how each is made.

use linmap::mistakes::Patch;

use How::{ByThePlatform, InTheText};

/// How a mistake is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// The library does everything right, and the platform passes something else on (`faulty.rs`).
    ByThePlatform,
    /// The text of the library is changed (`library/src/patch.rs`).
    InTheText(Patch),
}

macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident: $how:expr,)*) => {
        /// A mistake.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Fault { $($(#[doc = $doc])+ $name,)* }

        impl Fault {
            /// All of them.
            pub(crate) const ALL: &[Self] = &[$(Self::$name),*];

            /// How it is made.
            pub(crate) const fn how(self) -> How {
                match self { $(Self::$name => $how,)* }
            }
        }
    };
}

faults! {
    /// The lock is not taken.
    NoLock: ByThePlatform,
    /// The last page of a range is left out.
    LastPageLeftOut: InTheText(Patch::LastPageLeftOut),
    /// A page that becomes read-only stays one that hardware may make writable.
    StaysDirtyManaged: ByThePlatform,
    /// Leaves in use change their size whatever the CPUs promise.
    PromiseIgnored: ByThePlatform,
    /// CPUs are not parked where they should be.
    NotParked: ByThePlatform,
    /// No DSB between the filling of a table and the store that publishes it, nor between the dissolving of a run
    /// and the change of a member.
    NoDsbBeforePublishing: ByThePlatform,
    /// A new table has a leaf with another output address than the leaf that it replaces.
    OtherAddress: ByThePlatform,
    /// A new table has a leaf of another memory type.
    OtherMemoryType: ByThePlatform,
    /// A new table has a hole.
    HoleInTable: ByThePlatform,
    /// A new table has another permission outside of the range that changes.
    OtherPermission: ByThePlatform,
    /// A new table has a page without the bit that makes it one.
    NoPageBit: ByThePlatform,
    /// A run that changes in part is not dissolved.
    RunNotDissolved: ByThePlatform,
    /// Leaves in which different bits change are taken for alike.
    TakenForAlike: InTheText(Patch::TakenForAlike),
    /// Memory with a special use is removed as RAM.
    SpecialRemoved: InTheText(Patch::SpecialRemoved),
    /// No DSB after the stores.
    NoDsbAfterStores: ByThePlatform,
    /// No invalidation.
    NoTlbi: ByThePlatform,
    /// The invalidation of a range covers its first page.
    TlbiOfOnePage: ByThePlatform,
    /// Only leaves are invalidated where tables go.
    TlbiOfLeavesOnly: ByThePlatform,
    /// The entries of a table that becomes a block are taken for as large as the block.
    TlbiOfLargeEntries: ByThePlatform,
    /// TLBIs by range whatever the CPUs promise.
    TlbiByRange: ByThePlatform,
    /// The scale of a range runs over into operand bits that must be zero.
    TlbiOperandTooWide: ByThePlatform,
    /// No DSB after the invalidations.
    NoDsbAfterTlbi: ByThePlatform,
    /// No second invalidation where a CPU needs it.
    NoRepeat: ByThePlatform,
    /// No ISB at the end.
    NoIsb: ByThePlatform,
    /// An area becomes read-only before its aliases, or writable after them.
    AliasAfterArea: InTheText(Patch::AliasAfterArea),
    /// Aliases do not follow.
    AliasForgotten: InTheText(Patch::AliasForgotten),
    /// The old entries of aliases stay in the TLBs.
    AliasNotInvalidated: ByThePlatform,
    /// A repaint is not told of aliases.
    AliasNotMarked: InTheText(Patch::AliasNotMarked),
    /// Tables that were taken out of the tree are not given back.
    NotGivenBack: ByThePlatform,
    /// A table that went whole stays in the TLBs.
    WholeNotInvalidated: InTheText(Patch::WholeNotInvalidated),
    /// A repaint does not copy again what has changed meanwhile.
    ChangeForgotten: InTheText(Patch::ChangeForgotten),
    /// A range that is remade stays in the TLBs.
    RemadeNotInvalidated: InTheText(Patch::RemadeNotInvalidated),
    /// A range is remade in place.
    RemadeInPlace: InTheText(Patch::RemadeInPlace),
    /// A range that is remade is not yet visible when it is back.
    RemadeNotVisible: InTheText(Patch::RemadeNotVisible),
    /// Of several leaves, the first tells whether there is anything to remake.
    RemadeAsTheFirst: InTheText(Patch::RemadeAsTheFirst),
    /// The aliases of what is remade stay as they are.
    RemadeWithoutAliases: InTheText(Patch::RemadeWithoutAliases),
    /// The aliases of what is remade are not invalidated.
    RemadeAliasCached: InTheText(Patch::RemadeAliasCached),
    /// Aliases do not come back.
    RemadeAliasLost: InTheText(Patch::RemadeAliasLost),
    /// Memory of any type is given tags in place.
    RetypedInPlace: InTheText(Patch::RetypedInPlace),
    /// A repaint has no DSB between the filling of its tables and the switch to them.
    NoDsbBeforeSwitch: ByThePlatform,
    /// A repaint gives the old tables back before the switch.
    GivenBackBeforeSwitch: ByThePlatform,
    /// A repaint does not give the old tables back.
    OldTreeNotGivenBack: ByThePlatform,
}
