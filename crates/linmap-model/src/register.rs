//! The registers that say how a CPU translates: their names, and the trees that they load.

use std::fmt;

use linmap::OaFormat;
use serde::{Deserialize, Serialize};

/// A register that says how a CPU translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Register {
    /// TTBR0_EL1: the lower half.
    #[serde(rename = "ttbr0_el1", alias = "ttbr0")]
    Ttbr0,
    /// TTBR1_EL1: the upper half.
    #[serde(rename = "ttbr1_el1", alias = "ttbr1")]
    Ttbr1,
    /// TCR_EL1: sizes, granules and the attributes of walks.
    #[serde(rename = "tcr_el1")]
    Tcr,
    /// MAIR_EL1: the meaning of the memory types.
    #[serde(rename = "mair_el1")]
    Mair,
    /// SCTLR_EL1: MMU on or off, data caches on or off.
    #[serde(rename = "sctlr_el1")]
    Sctlr,
    /// TTBR0_EL2: the addresses of EL2; with HCR_EL2.E2H the lower half of EL2&0.
    #[serde(rename = "ttbr0_el2")]
    Ttbr0El2,
    /// TTBR1_EL2: the upper half of EL2&0.
    #[serde(rename = "ttbr1_el2")]
    Ttbr1El2,
    /// VTTBR_EL2: the tables of stage 2, VMID in bits 63:48.
    #[serde(rename = "vttbr_el2")]
    Vttbr,
    /// HCR_EL2. The model knows its bits E2H and TGE.
    #[serde(rename = "hcr_el2")]
    Hcr,
    /// VBAR_EL1: the vectors of exceptions. It says where an image is that has moved; no rule concerns it.
    #[serde(rename = "vbar_el1")]
    Vbar,
}

impl Register {
    /// All of them.
    pub const ALL: &[Self] = &[
        Self::Ttbr0,
        Self::Ttbr1,
        Self::Tcr,
        Self::Mair,
        Self::Sctlr,
        Self::Ttbr0El2,
        Self::Ttbr1El2,
        Self::Vttbr,
        Self::Hcr,
        Self::Vbar,
    ];
}

impl Register {
    /// The number of registers that load a tree.
    pub(crate) const SLOTS: usize = 5;

    /// Returns the root that a value of one that loads a tree names (D24.2, TTBR1_EL1): bits 47:1, so that a root of two entries
    /// may begin at each 16 bytes. With 52-bit addresses it begins at 64 bytes, and bits 5:2 hold bits 51:48.
    pub(crate) const fn root(value: u64, format: OaFormat) -> u64 {
        match format {
            OaFormat::Bits48 => value & 0x0000_ffff_ffff_fffe,
            OaFormat::Lpa | OaFormat::Lpa2 => value & 0x0000_ffff_ffff_ffc0 | (value >> 2u32 & 0xf) << 48u32,
        }
    }

    /// Returns true for one that loads the tree of an upper half, which is the kernel's.
    pub(crate) const fn is_upper_half(self) -> bool {
        matches!(self, Self::Ttbr1 | Self::Ttbr1El2)
    }

    /// Returns the number of a register that loads a tree: even ones are for addresses from 0 on.
    pub(crate) const fn slot(self) -> usize {
        match self {
            Self::Ttbr1 => 1,
            Self::Ttbr0El2 => 2,
            Self::Ttbr1El2 => 3,
            Self::Vttbr => 4,
            _ => 0,
        }
    }
}

impl fmt::Display for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ttbr0 => "ttbr0_el1",
            Self::Ttbr1 => "ttbr1_el1",
            Self::Tcr => "tcr_el1",
            Self::Mair => "mair_el1",
            Self::Sctlr => "sctlr_el1",
            Self::Ttbr0El2 => "ttbr0_el2",
            Self::Ttbr1El2 => "ttbr1_el2",
            Self::Vttbr => "vttbr_el2",
            Self::Hcr => "hcr_el2",
            Self::Vbar => "vbar_el1",
        })
    }
}
