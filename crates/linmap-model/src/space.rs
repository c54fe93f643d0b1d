//! Translation regimes: whose addresses an entry translates, and which of them an invalidation is for.
//!
//! TLB entries are told apart by regime, VMID and ASID (D8.17 RNWYRD).

use std::fmt;

/// The addresses that a tree translates, and the entries that TLBs hold of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Virtual addresses of EL1 and EL0, by stage 1, under a VMID; 0 where there is no other.
    El1(u16),
    /// Virtual addresses of EL2, or of EL2 and EL0. Hardware need not distinguish the two.
    El2,
    /// Intermediate physical addresses, by stage 2, of a VMID.
    Stage2(u16),
}

/// The registers' fields that an invalidation by their CPU depends on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Context {
    /// VTTBR_EL2.VMID.
    pub(crate) vmid: u16,
    /// HCR_EL2.E2H and TGE.
    pub(crate) e2h: bool,
    pub(crate) tge: bool,
}

/// The entries that an invalidation is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Those of EL1&0 that have stage 1 in them, of one VMID: also those that combine both stages.
    El1(u16),
    /// Those of EL2 or EL2&0.
    El2,
    /// Those of stage 2 alone, of one VMID.
    Stage2(u16),
    /// All of EL1&0 of one VMID.
    Vm(u16),
    /// All of EL1&0.
    EveryVm,
}

impl Space {
    /// The space of a machine that nothing was said of EL2.
    pub(crate) const HOME: Self = Self::El1(0);

    /// Returns true for the addresses that stage 2 translates.
    pub(crate) const fn is_stage_2(self) -> bool {
        matches!(self, Self::Stage2(_))
    }
}

/// The entries of a space that an invalidation drops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dropped {
    Nothing,
    /// The entries that it names, as there is no second stage, or that stage is not concerned.
    Entries,
    /// Those that hold stage 2 alone, and not those that combine it with stage 1 (D8.17 RTVTYQ).
    Stage2Alone,
    /// Those that combine it with stage 1, if they are of any address.
    Combined,
    /// All of both.
    Both,
}

impl Target {
    /// Returns what it drops of a space.
    pub(crate) const fn drops(self, space: Space) -> Dropped {
        match (self, space) {
            (Self::Stage2(a), Space::Stage2(b)) if a == b => Dropped::Stage2Alone,
            (Self::El1(a), Space::Stage2(b)) if a == b => Dropped::Combined,
            (_, Space::Stage2(_)) if self.has(space) => Dropped::Both,
            _ if self.has(space) => Dropped::Entries,
            _ => Dropped::Nothing,
        }
    }

    /// Returns true if it is for entries of a space.
    pub(crate) const fn has(self, space: Space) -> bool {
        match (self, space) {
            (Self::El1(a) | Self::Vm(a), Space::El1(b))
            | (Self::Stage2(a) | Self::Vm(a), Space::Stage2(b)) => a == b,
            (Self::El2, Space::El2) | (Self::EveryVm, Space::El1(_) | Space::Stage2(_)) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::El1(vmid) => write!(f, "stage 1 of EL1&0 with VMID {vmid}"),
            Self::El2 => write!(f, "EL2"),
            Self::Stage2(vmid) => write!(f, "stage 2 alone, of VMID {vmid}"),
            Self::Vm(vmid) => write!(f, "both stages of EL1&0 with VMID {vmid}"),
            Self::EveryVm => write!(f, "both stages of EL1&0"),
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::El1(0) => write!(f, "EL1&0"),
            Self::El1(vmid) => write!(f, "EL1&0 with VMID {vmid}"),
            Self::El2 => write!(f, "EL2"),
            Self::Stage2(vmid) => write!(f, "stage 2 of VMID {vmid}"),
        }
    }
}
